package upgrader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/steps"
)

// finishTimeout is how long kubeadm is tried: its requests fail while API servers come back.
const finishTimeout = 3 * time.Minute

// finish does what is left of kubeadm's upgrade: the cluster's configuration, permissions and add-ons with the first node, the kubelet's own
// configuration with each. Manifests and certificates are there already.
func (n *node) finish(ctx context.Context) (string, error) {
	if n.journal.Phase != steps.Committed {
		return "", fmt.Errorf("finishing the upgrade: the swap is in phase %q", n.journal.Phase)
	}
	kubeadm, err := n.program("kubeadm")
	if err != nil {
		return "", err
	}
	before, err := kubeletFiles()
	if err != nil {
		return "", err
	}
	argv := append([]string{kubeadm}, finishArgs(n.wanted)...)
	argv = append(argv, "--kubeconfig", n.credentials())
	said, tried := "", 0
	err = eventually(ctx, finishTimeout, func(ctx context.Context) (err error) {
		tried++
		said, err = run(ctx, nil, argv...)
		if err != nil {
			n.say("%v", err)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	n.say("%s", strings.TrimSpace(said))
	after, err := kubeletFiles()
	if err != nil {
		return "", err
	}
	if bytes.Equal(before, after) {
		return "kubeadm is done", nil
	}
	// Restarted at the same version it leaves the containers as they are.
	return "kubeadm is done, and the kubelet was restarted with its new configuration", systemctl(ctx, "restart", "kubelet")
}

// finishArgs are kubeadm's arguments.
func finishArgs(w steps.Wanted) []string {
	args := []string{"upgrade", "node", "--skip-phases=preflight,control-plane"}
	switch {
	case w.Type != steps.ControlPlane:
		args = []string{"upgrade", "node", "phase", "kubelet-config"}
	case w.First:
		args = []string{"upgrade", "apply", w.KubernetesVersion, "--yes", "--skip-phases=preflight,control-plane"}
	}
	if w.Patches != "" {
		args = append(args, "--patches="+w.Patches)
	}
	return args
}

// kubeletFiles is what the kubelet is started with.
func kubeletFiles() ([]byte, error) {
	var all []byte
	for _, name := range []string{kubeletConfig, kubeletFlags} {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading the kubelet's configuration: %w", err)
		}
		all = append(all, data...)
	}
	return all, nil
}
