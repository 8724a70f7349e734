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

// newUnits returns the units of a machine: containerd and the kubelet where they belong to it, and etcd, which exists from the moment
// somebody writes its file.
func newUnits(c *children, containers bool, logTo func(name string) (io.Writer, error)) (map[string]*unit, error) {
	all := []*unit{{
		name: "etcd", description: "etcd", file: etcdFile, delay: time.Second,
		service: func() (service, error) { return loadService(etcdFile, notifySocket("etcd")) },
	}}
	if containers {
		all = append(all, &unit{
			name: "containerd", description: "containerd container runtime", delay: 500 * time.Millisecond,
			service: func() (service, error) {
				return service{argv: []string{"containerd", "--config", "/etc/containerd/config.toml"}}, nil
			},
		}, &unit{
			name: "kubelet", description: "kubelet: The Kubernetes Node Agent", needs: kubeletConfig, delay: time.Second,
			service: kubeletService,
		})
	}
	units := map[string]*unit{}
	for _, u := range all {
		log, err := logTo(u.name + ".log")
		if err != nil {
			return nil, err
		}
		u.children, u.enabled, u.log = c, filepath.Join(wantsDir, u.name+".service"), log
		units[u.name] = u.init()
	}
	return units, nil
}

// kubeletService puts together what kubeadm's systemd unit would: its own flags, those of the machine's
// administrator, and the settings without which no kubelet runs on this kind of machine.
func kubeletService() (service, error) {
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
			return service{}, err
		}
		argv = append(argv, strings.Fields(value)...)
	}
	return service{argv: argv}, nil
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
		value = unquote(v)
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return value, nil
}
