package releases_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// A healthy managed cluster: a ready Node for each recorded machine, all static pods, and a voter each. Whatever would change it is an
// error.
type healthy struct {
	t       *testing.T
	view    workload.View
	members []etcd.Member
}

// healthyOf is the managed cluster of machines that run these components.
func healthyOf(t *testing.T, machines []*clusterv1.Machine, components []string) *healthy {
	h := &healthy{t: t, view: workload.View{Reachable: true}}
	for i, m := range machines {
		name := m.Status.NodeRef.Name
		if name == "" {
			name = m.Name
		}
		h.addNode(m, name, components)
		h.members = append(h.members, etcd.Member{ID: uint64(i + 1), Name: name, Health: plan.Healthy, Leader: i == 0})
	}
	return h
}

func (h *healthy) addNode(m *clusterv1.Machine, name string, components []string) {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: m.CreationTimestamp,
		Labels: map[string]string{machine.NodeLabel: ""}}}
	node.Spec.ProviderID = m.Spec.ProviderID
	node.Spec.Taints = []corev1.Taint{{Key: machine.NodeLabel, Effect: corev1.TaintEffectNoSchedule}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, a := range m.Status.Addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(a.Type), Address: a.Address})
	}
	h.view.Nodes = append(h.view.Nodes, node)
	for _, component := range components {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: component + "-" + name}}
		pod.Spec.NodeName, pod.Status.Phase = name, corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: m.CreationTimestamp}}
		h.view.Pods = append(h.view.Pods, pod)
	}
}

func (h *healthy) changed(what string) error {
	h.t.Errorf("a cluster at rest was changed: %s", what)
	return nil
}

func (h *healthy) Want(client.ObjectKey, bool) {}
func (h *healthy) Forget(client.ObjectKey)     {}

// Rest implements observe.Quorums.
func (h *healthy) Rest(client.ObjectKey)                {}
func (h *healthy) Own(client.ObjectKey, workload.Mine)  {}
func (h *healthy) Config(client.ObjectKey) *rest.Config { return nil }
func (h *healthy) View(client.ObjectKey) workload.View  { return h.view }
func (h *healthy) Events() <-chan event.GenericEvent    { return nil }
func (h *healthy) Dial(client.ObjectKey, string, string, int) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }
}
func (h *healthy) Data(context.Context, *clusterv1.Cluster) (observe.DataKeeper, error) {
	return h, nil
}
func (h *healthy) Of(context.Context, *clusterv1.Cluster) (observe.Quorum, error) { return h, nil }
func (h *healthy) Survey(context.Context, []etcd.Target) etcd.Survey {
	return etcd.Survey{Known: true, Agreed: true, Members: h.members}
}

// Glance implements observe.Quorum.
func (h *healthy) Glance(context.Context, etcd.Target, etcd.Survey) bool { return true }

func (h *healthy) MoveLeader(context.Context, []etcd.Target, uint64) error {
	return h.changed("the leader moves")
}
func (h *healthy) Promote(context.Context, []etcd.Target, uint64) error {
	return h.changed("a learner votes")
}
func (h *healthy) EnableDowngrade(context.Context, []etcd.Target, string) error {
	return h.changed("etcd is downgraded")
}
func (h *healthy) CancelDowngrade(context.Context, []etcd.Target) error {
	return h.changed("a downgrade ends")
}
func (h *healthy) Compact(context.Context, []etcd.Target, int64) error     { return nil }
func (h *healthy) Defragment(context.Context, []etcd.Target, uint64) error { return nil }
func (h *healthy) Compare(context.Context, []etcd.Target, etcd.Survey) etcd.Comparison {
	return etcd.Comparison{Revision: 1}
}
func (h *healthy) Disarm(context.Context, []etcd.Target) error { return nil }
func (h *healthy) AddPlaceholder(context.Context, []etcd.Target) error {
	return h.changed("a placeholder is added")
}
func (h *healthy) RemoveMember(context.Context, []etcd.Target, uint64) error {
	return h.changed("a member is removed")
}
func (h *healthy) Initialised(context.Context, *clusterv1.Cluster, bool) (string, error) {
	return "", nil
}
func (h *healthy) Behind(context.Context, *clusterv1.Cluster, kubeadm.Wanted) (kubeadm.Behind, error) {
	return kubeadm.Behind{}, nil
}
func (h *healthy) Write(_ context.Context, _ *clusterv1.Cluster, _ kubeadm.Wanted, chore string) error {
	return h.changed(chore)
}
func (h *healthy) NewToken(context.Context, *clusterv1.Cluster) (string, error) {
	return "", h.changed("a bootstrap token is made")
}
func (h *healthy) DropTokens(context.Context, *clusterv1.Cluster, map[string]bool) error { return nil }

// later is how long after it was recorded a cluster is looked at: a moment, so that no limit of time has passed.
const later = time.Hour

// run has all members run a version of etcd, without a leading v or with one.
func (h *healthy) run(version string) {
	for i := range h.members {
		h.members[i].Version = strings.TrimPrefix(version, "v")
		if minor := strings.SplitN(h.members[i].Version, ".", 3); len(minor) == 3 {
			h.members[i].Storage = minor[0] + "." + minor[1] + ".0"
		}
	}
}

// DropPods implements observe.KubeadmFiles.
func (h *healthy) DropPods(context.Context, *clusterv1.Cluster, []*corev1.Pod) error { return nil }

// DropNodes implements observe.KubeadmFiles.
func (h *healthy) DropNodes(context.Context, *clusterv1.Cluster, observe.GoneMachines) error {
	return nil
}
