package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// wantsDir holds a link for each unit that starts with the machine, as on a machine with systemd.
const wantsDir = "/etc/systemd/system/multi-user.target.wants"

// kubeletConfig appears when kubeadm has decided what the kubelet is to be.
const kubeletConfig = "/var/lib/kubelet/config.yaml"

func newUnits(c *children, containerdLog, kubeletLog io.Writer) map[string]*unit {
	containerd := &unit{
		name: "containerd", description: "containerd container runtime", log: containerdLog,
		command: func() ([]string, error) {
			return []string{"containerd", "--config", "/etc/containerd/config.toml"}, nil
		},
		delay: 500 * time.Millisecond,
	}
	kubelet := &unit{
		name: "kubelet", description: "kubelet: The Kubernetes Node Agent", log: kubeletLog,
		command: kubeletCommand, needs: kubeletConfig, delay: time.Second,
	}
	units := map[string]*unit{}
	for _, u := range []*unit{containerd, kubelet} {
		u.children, u.enabled = c, filepath.Join(wantsDir, u.name+".service")
		units[u.name] = u.init()
	}
	return units
}

// kubeletCommand puts together what kubeadm's systemd unit would: its own flags, those of the machine's
// administrator, and the settings without which no kubelet runs on this kind of machine.
func kubeletCommand() ([]string, error) {
	argv := []string{
		"kubelet", "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
		"--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=" + kubeletConfig, "--config-dir=" + KubeletDropIns,
	}
	for _, source := range []struct{ file, variable string }{
		{"/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS"},
		{"/etc/default/kubelet", "KUBELET_EXTRA_ARGS"},
	} {
		value, err := environmentFile(source.file, source.variable)
		if err != nil {
			return nil, err
		}
		argv = append(argv, strings.Fields(value)...)
	}
	return argv, nil
}

// environmentFile reads one variable of a file of NAME="value" lines. A missing file or variable is empty.
func environmentFile(path, variable string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading flags: %w", err)
	}
	defer func() { _ = f.Close() }()
	value, lines := "", bufio.NewScanner(f)
	for lines.Scan() {
		name, v, found := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		if !found || name != variable {
			continue
		}
		if len(v) > 1 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
			v = v[1 : len(v)-1]
		}
		value = v
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return value, nil
}
