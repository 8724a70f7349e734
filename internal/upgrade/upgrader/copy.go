package upgrader

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/internal/core/steps"
)

// replaced are the programs that take the places of those on the node. The others only help.
var replaced = []string{"kubelet", "kubeadm", "kubectl"}

// helpers are programs that the upgrade needs where the node has none of its own.
var helpers = []string{"ctr", "etcdctl", "etcdutl"}

// copy puts the image's programs on the node: those that replace others where these lie, in the stage.
func (n *node) copy(ctx context.Context) (string, error) {
	if err := copyFile("/proc/self/exe", n.upgrader()); err != nil {
		return "", err
	}
	copied, err := n.copyReplaced(ctx)
	if err != nil {
		return "", err
	}
	for _, name := range helpers {
		if installed(name) != "" || n.needless(name) {
			continue
		}
		if err := n.checkedCopy(name); err != nil {
			return "", err
		}
		copied++
	}
	return fmt.Sprintf("%d programs of %s", copied, n.wanted.KubernetesVersion), nil
}

// copyReplaced stages the programs that replace others, and returns how many were copied.
func (n *node) copyReplaced(ctx context.Context) (int, error) {
	copied := 0
	for _, name := range replaced {
		if ctx.Err() != nil {
			return copied, ctx.Err()
		}
		did, err := n.copyProgram(name)
		if err != nil {
			return copied, err
		}
		if did {
			copied++
		}
	}
	return copied, nil
}

// needless reports whether a helper has nothing to do on this node.
func (n *node) needless(name string) bool {
	return name != "ctr" && (n.wanted.Type != steps.ControlPlane || !n.wanted.StackedEtcd)
}

// copyProgram stages a program where the node has another one, and reports whether it did.
func (n *node) copyProgram(name string) (bool, error) {
	there := installed(name)
	if there == "" {
		if name == "kubelet" {
			return false, fmt.Errorf("looking for kubelet: none of %v has it", searchPath())
		}
		return true, n.checkedCopy(name)
	}
	equal, err := same(filepath.Join(n.image, "bin", name), there)
	if err != nil || equal {
		return false, err
	}
	if err := n.checkedCopy(name); err != nil {
		return false, err
	}
	staged := filepath.Join(n.stage(), there)
	if err := os.MkdirAll(filepath.Dir(staged), 0o755); err != nil {
		return false, fmt.Errorf("staging %s: %w", name, err)
	}
	if err := os.Link(filepath.Join(n.programs(), name), staged); err != nil {
		return false, fmt.Errorf("staging %s: %w", name, err)
	}
	n.say("%s will replace %s", name, there)
	return true, nil
}

// checkedCopy copies a program of the image, and compares the copy with it.
func (n *node) checkedCopy(name string) error {
	source, target := filepath.Join(n.image, "bin", name), filepath.Join(n.programs(), name)
	if err := copyFile(source, target); err != nil {
		return err
	}
	equal, err := same(source, target)
	if err == nil && !equal {
		err = fmt.Errorf("checking the copy of %s: it differs from what was copied", name)
	}
	return err
}
