package upgrader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/steps"
)

// cordonedAnnotation on a Node names the upgrade that made it unschedulable: only that one makes it schedulable again.
const cordonedAnnotation = "upgrade.cluster.x-k8s.io/cordoned-by"

// tokenFile is the credential of the pod's ServiceAccount.
const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// pod is what a step does in the pod itself, with the credentials of its ServiceAccount.
type pod struct{ out io.Writer }

// kubectl runs the image's, which finds the credentials by itself.
func (p pod) kubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, append([]string{"HOME=/tmp"}, kubeletsServer("/proc/1/root"+kubeletConf)...), append([]string{"/bin/kubectl"}, args...)...)
}

// kubeletsServer tells kubectl in a pod which API server to ask: the one that the node's kubelet asks. The Service kubernetes, which is what pods are told, needs
// a kube-proxy, and that is being replaced on all nodes once the first has the new version. Where the kubelet's cannot be read it is what pods are told.
func kubeletsServer(kubelet string) []string {
	const host, port = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
	var c kubeconfig
	if data, err := os.ReadFile(kubelet); err == nil && yaml.Unmarshal(data, &c) == nil && len(c.Clusters) > 0 {
		if u, err := url.Parse(c.Clusters[0].Cluster.Server); err == nil && u.Hostname() != "" {
			return []string{host + "=" + u.Hostname(), port + "=" + cmp.Or(u.Port(), "443")}
		}
	}
	return []string{host + "=" + os.Getenv(host), port + "=" + os.Getenv(port)}
}

func (p pod) node(ctx context.Context, name string) (*corev1.Node, error) {
	output, err := p.kubectl(ctx, "get", "node", name, "--output=json")
	if err != nil {
		return nil, err
	}
	var n corev1.Node
	if err := json.Unmarshal([]byte(output), &n); err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", name, err)
	}
	return &n, nil
}

// drain makes the node unschedulable and evicts its pods, but for those of DaemonSets, static ones and the upgrader's own.
func (p pod) drain(ctx context.Context, w steps.Wanted) (string, error) {
	remembered, err := layout{dir: filepath.Join("/proc/1/root", home)}.loadJournal()
	if err != nil {
		return "", err
	}
	if j, err := remembered.Take(w); err != nil || j.Begun() {
		return "the swap has begun", cmp.Or(err, errSkipped)
	}
	if err := eventually(ctx, patienceWithAPI, func(ctx context.Context) error { return p.cordon(ctx, w) }); err != nil {
		return "", err
	}
	seconds := cmp.Or(w.DrainTimeoutSeconds, steps.DefaultDrainTimeout)
	_, err = p.kubectl(ctx, "drain", w.Node, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
		"--pod-selector="+steps.PodLabel+"!="+steps.PodLabelValue, fmt.Sprintf("--timeout=%ds", seconds))
	switch {
	case err == nil:
		return "the node is drained", nil
	case w.Drain == steps.DrainBestEffort:
		fmt.Fprintf(p.out, "%v\n", err)
		return fmt.Sprintf("not all pods have left in %d s: %v", seconds, err), nil
	default:
		_, undone := p.uncordon(ctx, w)
		if errors.Is(undone, errSkipped) {
			undone = nil
		}
		return "", errors.Join(err, undone)
	}
}

// cordon makes the node unschedulable, and remembers on it that it was not before.
func (p pod) cordon(ctx context.Context, w steps.Wanted) error {
	n, err := p.node(ctx, w.Node)
	if err != nil || n.Spec.Unschedulable {
		return err
	}
	if _, err := p.kubectl(ctx, "annotate", "node", w.Node, "--overwrite", cordonedAnnotation+"="+w.ID); err != nil {
		return err
	}
	_, err = p.kubectl(ctx, "cordon", w.Node)
	return err
}

// uncordon makes the node schedulable again, if this upgrade made it unschedulable.
func (p pod) uncordon(ctx context.Context, w steps.Wanted) (string, error) {
	if _, err := os.Stat(tokenFile); err != nil {
		return "the pod has no credentials, so that it has drained nothing", errSkipped
	}
	did := false
	err := eventually(ctx, patienceWithAPI, func(ctx context.Context) error {
		n, err := p.node(ctx, w.Node)
		if err != nil || n.Annotations[cordonedAnnotation] != w.ID {
			return err
		}
		did = true
		if _, err := p.kubectl(ctx, "uncordon", w.Node); err != nil {
			return err
		}
		_, err = p.kubectl(ctx, "annotate", "node", w.Node, cordonedAnnotation+"-")
		return err
	})
	if err == nil && !did {
		return "this upgrade did not cordon the node", errSkipped
	}
	return "the node can be scheduled to", err
}
