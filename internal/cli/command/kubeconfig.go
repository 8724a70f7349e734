package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// KubeconfigFolder is the folder of kubeconfigs in the state folder.
const KubeconfigFolder = "kubeconfig"

// WriteKubeconfig keeps a cluster's kubeconfig in the state folder, and returns its path.
func (a *Invocation) WriteKubeconfig(ctx context.Context, c client.Client, key client.ObjectKey) (string, error) {
	raw, err := facts.Kubeconfig(ctx, c, key)
	if err != nil {
		return "", err
	}
	path := a.KubeconfigPath(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("making a folder for kubeconfigs: %w", err)
	}
	return path, atomicfile.Write(path, raw, 0o600)
}

// KubeconfigPath is where WriteKubeconfig keeps a cluster's kubeconfig.
func (a *Invocation) KubeconfigPath(key client.ObjectKey) string {
	name := key.Name
	if key.Namespace != "default" {
		name = key.Namespace + "." + key.Name // no name of a cluster has a dot
	}
	return filepath.Join(a.State, KubeconfigFolder, name)
}
