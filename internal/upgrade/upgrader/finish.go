package upgrader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// finishTimeout is how long kubeadm is tried: its requests fail while API servers come back.
const finishTimeout = 3 * time.Minute

// finish does what is left of kubeadm's upgrade: the cluster's configuration, permissions and add-ons with the first node, the kubelet's
// own configuration with each. Manifests and certificates are there already.
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
	if before, err = n.noteKubelet(before); err != nil {
		return "", err
	}
	var skip []string
	err = eventually(ctx, patienceWithAPI, func(ctx context.Context) (err error) {
		skip, err = n.leftToOthers(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	argv := append([]string{kubeadm}, finishArgs(n.wanted, skip)...)
	argv = append(argv, "--kubeconfig", n.credentials())
	said := ""
	err = eventually(ctx, finishTimeout, func(ctx context.Context) (err error) {
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
		return "kubeadm is done", n.forgetKubelet()
	}
	// Restarted at the same version it leaves the containers as they are.
	if err := n.manage(ctx, "restart", "kubelet"); err != nil {
		return "", err
	}
	return "kubeadm is done, and the kubelet was restarted with its new configuration", n.forgetKubelet()
}

// noteKubelet returns what the kubelet was started with: what is there now, or what was there when this step began for the first time. A
// step that was cut off may have written new files without having restarted the kubelet.
func (l layout) noteKubelet(now []byte) ([]byte, error) {
	noted, err := os.ReadFile(l.kubeletNote())
	if err == nil {
		return noted, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(l.work(), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(l.kubeletNote(), now, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("noting the kubelet's configuration: %w", err)
	}
	return now, nil
}

// forgetKubelet removes the note, when the kubelet runs with what is there.
func (l layout) forgetKubelet() error {
	if err := removeFile(l.kubeletNote()); err != nil {
		return fmt.Errorf("removing the note of the kubelet's configuration: %w", err)
	}
	return nil
}

// leftToOthers are the phases of kubeadm that are skipped, those that the upgrade names, and those of add-ons that the cluster does
// not have. Cilium does kube-proxy's work, or something else DNS. kubeadm before v1.32, which could leave out no phases, judged by what it
// does not find as well.
func (n *node) leftToOthers(ctx context.Context) ([]string, error) {
	if n.wanted.Type != steps.ControlPlane {
		return nil, nil
	}
	a, err := openAPI(n.credentials(), "")
	if err != nil {
		return nil, err
	}
	return a.withoutAddons(ctx, n.wanted.SkipPhases)
}

// withoutAddons adds to some phases those of add-ons that are not there.
func (a *api) withoutAddons(ctx context.Context, phases []string) ([]string, error) {
	all := slices.Clone(phases)
	for phase, paths := range map[string][]string{
		steps.ProxyPhase: {"/api/v1/namespaces/kube-system/configmaps/kube-proxy", "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"},
		steps.DNSPhase:   {"/api/v1/namespaces/kube-system/configmaps/coredns", "/apis/apps/v1/namespaces/kube-system/deployments/coredns"},
	} {
		for _, path := range paths {
			switch err := a.get(ctx, path, nil); {
			case hasStatus(err, http.StatusNotFound):
				all = append(all, phase)
			case err != nil:
				return nil, err
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// finishArgs are kubeadm's arguments, with phases that are left to others.
func finishArgs(w steps.Wanted, skip []string) []string {
	skip = append([]string{"preflight", "control-plane"}, skip...)
	var args []string
	switch {
	case w.Type != steps.ControlPlane:
		args = []string{"upgrade", "node", "phase", "kubelet-config"}
	case w.First:
		args = []string{"upgrade", "apply", w.KubernetesVersion, "--yes", "--skip-phases=" + strings.Join(skip, ",")}
	default:
		skip = slices.DeleteFunc(skip, func(phase string) bool { return !steps.OfOneNode(phase) })
		args = []string{"upgrade", "node", "--skip-phases=" + strings.Join(skip, ",")}
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
