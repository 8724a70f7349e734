package upgrader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/core/version"
)

// ownAPI is the node's own API server, or, on a worker, the cluster's.
func (n *node) ownAPI() (*api, error) {
	if n.wanted.Type != steps.ControlPlane {
		return openAPI(kubeletConf, "")
	}
	p, err := n.manifest(apiServer)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("reading %s: there is no manifest of the API server", manifestDir)
	}
	server, err := serverOf(p)
	if err != nil {
		return nil, err
	}
	return openAPI(adminConfig, server)
}

// apiVersion returns an error unless the API server is of the version.
func apiVersion(ctx context.Context, a *api, wanted string) error {
	var said struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := a.get(ctx, "/version", &said); err != nil {
		return err
	}
	if !version.IsBuildOf(said.GitVersion, wanted) {
		return fmt.Errorf("the API server is of version %s, want %s", said.GitVersion, wanted)
	}
	return nil
}

// clockError is how far a process's start and a time in the API may be apart: both are known to a second.
const clockError = 2 * time.Second

// nodeReady returns an error unless the Node is ready, by a word of its kubelet that is not older than since. A version, if one is given,
// is the kubelet's.
func nodeReady(ctx context.Context, a *api, name, wanted string, since time.Time) error {
	var n corev1.Node
	if err := a.get(ctx, "/api/v1/nodes/"+name, &n); err != nil {
		return err
	}
	if said := n.Status.NodeInfo.KubeletVersion; wanted != "" && !version.IsBuildOf(said, wanted) {
		return fmt.Errorf("the kubelet of Node %s is of version %s, want %s", name, said, wanted)
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.LastHeartbeatTime.Time.Before(since.Add(-clockError)) {
			return fmt.Errorf("the kubelet of Node %s has said nothing since %s", name, c.LastHeartbeatTime.UTC().Format(time.RFC3339))
		}
		if c.Status == corev1.ConditionTrue {
			return nil
		}
		return fmt.Errorf("the Node %s is not ready: %s", name, c.Message)
	}
	return fmt.Errorf("the Node %s does not say whether it is ready", name)
}

// podRuns returns an error unless the kubelet says that a component's pod runs, with the image of its manifest. Whether it serves the
// kubelet says only when its startup probe had its turn: ten seconds after the start, and then every ten. So its probe is asked here.
func podRuns(ctx context.Context, a *api, want *corev1.Pod, nodeName string) error {
	name := want.Name + "-" + nodeName
	var p corev1.Pod
	if err := a.get(ctx, "/api/v1/namespaces/kube-system/pods/"+name, &p); err != nil {
		return err
	}
	if len(p.Spec.Containers) == 0 || p.Spec.Containers[0].Image != want.Spec.Containers[0].Image {
		return fmt.Errorf("pod %s is not of image %s", name, want.Spec.Containers[0].Image)
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running == nil {
			return fmt.Errorf("container %s of pod %s does not run", c.Name, name)
		}
	}
	if len(p.Status.ContainerStatuses) == 0 {
		return fmt.Errorf("the kubelet does not say how pod %s is", name)
	}
	return nil
}

// verify waits until the node is healthy at the new version, and then removes what would have been needed to go back.
func (n *node) verify(ctx context.Context) (string, error) {
	if n.journal.Phase != steps.Committed {
		return "", fmt.Errorf("verifying the node: its swap is in phase %q", n.journal.Phase)
	}
	timeout := time.Duration(cmp.Or(n.wanted.VerifyTimeoutSeconds, steps.DefaultVerifyTimeout)) * time.Second
	if err := eventually(ctx, timeout, n.healthy); err != nil {
		return "", err
	}
	if err := n.giveUpBackup(); err != nil {
		return "", err
	}
	return "the node is healthy at " + n.wanted.KubernetesVersion, nil
}

// giveUpBackup removes what would have been needed to go back. From here on there is no way: half of a backup must not be put back.
func (n *node) giveUpBackup() error {
	n.journal.Verified = true
	if err := n.saveJournal(n.journal); err != nil {
		return err
	}
	return n.clear()
}

// healthy returns an error unless all of the node is as wanted.
func (n *node) healthy(ctx context.Context) error {
	a, err := n.ownAPI()
	if err != nil {
		return err
	}
	if err := nodeReady(ctx, a, n.wanted.Node, n.wanted.KubernetesVersion, time.Time{}); err != nil {
		return err
	}
	if err := n.runtimeServes(ctx, a); err != nil {
		return err
	}
	if n.wanted.Type != steps.ControlPlane {
		return nil
	}
	if err := n.componentsServe(ctx); err != nil {
		return err
	}
	for _, component := range components {
		want, err := n.manifest(component)
		if err != nil {
			return err
		}
		if want == nil {
			continue
		}
		if err := podRuns(ctx, a, want, n.wanted.Node); err != nil {
			return err
		}
	}
	return n.memberHealthy(ctx)
}

// runtimeServes returns an error unless the kubelet works with the runtime of the wanted version, where that was exchanged.
func (n *node) runtimeServes(ctx context.Context, a *api) error {
	exchanged, err := n.exchangesRuntime()
	if err != nil || !exchanged {
		return err
	}
	var is corev1.Node
	if err := a.get(ctx, "/api/v1/nodes/"+n.wanted.Node, &is); err != nil {
		return err
	}
	if said := is.Status.NodeInfo.ContainerRuntimeVersion; steps.Newer(n.wanted.Brings.Containerd, said) {
		return fmt.Errorf("the kubelet of Node %s works with %s, want %s", n.wanted.Node, said, n.wanted.Brings.Containerd)
	}
	return nil
}

// memberHealthy returns an error unless the node's member of etcd, if there is one, answers and votes.
func (n *node) memberHealthy(ctx context.Context) error {
	if _, err := os.Stat(n.onNode(etcdManifest)); os.IsNotExist(err) {
		return nil
	}
	if _, err := n.etcdctl(ctx, "endpoint", "health"); err != nil {
		return err
	}
	own, leader, err := n.leadership(ctx)
	if err != nil {
		return err
	}
	if leader == 0 {
		return errors.New("the member of etcd knows no leader")
	}
	members, err := n.members(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(members, func(m member) bool { return m.ID == own && !m.IsLearner }) {
		return errors.New("the member of etcd has no vote")
	}
	return nil
}
