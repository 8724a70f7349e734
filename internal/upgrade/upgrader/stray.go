package upgrader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cluster/staticpod"
)

// noSecondManifests returns an error if the kubelet's folder has a second manifest of a component, such as a copy that somebody kept beside
// the first. The kubelet reads each file whose name does not begin with a dot, whatever it ends in, and runs either: the new version might
// never come up, or go with the kubelet's next restart.
func (n *node) noSecondManifests() error {
	entries, err := os.ReadDir(n.onNode(manifestDir))
	if err != nil {
		return fmt.Errorf("looking for manifests: %w", err)
	}
	var failures []error
	for _, e := range entries {
		component, err := n.strayOf(e)
		if err != nil {
			return err
		}
		if component != "" {
			path := filepath.Join(manifestDir, e.Name())
			failures = append(failures, fmt.Errorf("%s is a second manifest of %s, which the kubelet runs as well: move it out of %s",
				path, component, manifestDir))
		}
	}
	return errors.Join(failures...)
}

// strayOf is the component that an entry of the folder is a second manifest of; empty: of none.
func (n *node) strayOf(e os.DirEntry) (string, error) {
	path := filepath.Join(n.onNode(manifestDir), e.Name())
	if strings.HasPrefix(e.Name(), ".") {
		return "", nil
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", nil // the kubelet reads none either
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("looking for manifests: %w", err)
	}
	p, err := staticpod.Parse(data)
	if err != nil {
		return "", nil // it is no pod: the kubelet reports it, and runs nothing
	}
	if component := componentOf(p); component != "" && e.Name() != component+".yaml" {
		return component, nil
	}
	return "", nil
}

// componentOf is the component of the control plane that a pod has the name of; empty: it is another pod.
func componentOf(p *corev1.Pod) string {
	if p.Namespace == metav1.NamespaceSystem && slices.Contains(components, p.Name) {
		return p.Name
	}
	return ""
}
