package group

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// nodelessKind is a kind whose machines have no Nodes, and whose objects belong to the Cluster that their label names.
type nodelessKind struct{ Kind }

func (nodelessKind) Type() observe.Type { return nodelessType }

// nodelessType is the type of such a kind.
var nodelessType = observe.Type{GroupVersionKind: etcdclusterv1alpha1.GroupVersion.WithKind("EtcdCluster"), Resource: "etcdclusters",
	Nodeless: true, Standalone: true}

func (nodelessKind) New() observe.Object { return &etcdclusterv1alpha1.EtcdCluster{} }

// TestWhoseTurn: changes of a Cluster and its Machines bring about turns of the groups whose label names the Cluster.
func TestWhoseTurn(t *testing.T) {
	group := func(name, cluster string) *etcdclusterv1alpha1.EtcdCluster {
		return &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
	}
	elsewhere := group("elsewhere", "demo")
	elsewhere.Namespace = "other"
	kept := grouptest.MachineOf("demo", "kept", map[string]string{etcdclusterv1alpha1.MachineLabel: "a"})
	kept.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(group("a", "demo"),
		etcdclusterv1alpha1.GroupVersion.WithKind("EtcdCluster"))}
	c := &Controller{Kind: nodelessKind{}, Client: fake.NewClientBuilder().WithScheme(grouptest.Scheme(t)).
		WithObjects(grouptest.Cluster(), group("a", "demo"), group("b", "demo"), group("c", "another"), elsewhere).Build()}
	control := map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	for _, test := range []struct {
		name string
		got  []string
		want string
	}{
		{"its Cluster", requested(c.ofCluster(t.Context(), grouptest.Cluster())), "a b"},
		{"the view of its Cluster", requested(c.ofView(t.Context(), grouptest.Cluster())), "a b"},
		{"a worker's end", requested(c.ofWorker(t.Context(), grouptest.MachineOf("demo", "w", nil))), "a b"},
		{"the end of a control plane's machine", requested(c.ofWorker(t.Context(), grouptest.MachineOf("demo", "cp", control))), "a b"},
		{"the end of a machine of no cluster", requested(c.ofWorker(t.Context(), grouptest.MachineOf("gone", "w", nil))), ""},
		{"a machine of etcd that nobody controls",
			requested(c.ofUncontrolled(t.Context(), grouptest.MachineOf("demo", "e", map[string]string{etcdclusterv1alpha1.MachineLabel: "a"}))),
			"a b"},
		{"a machine of etcd that is controlled", requested(c.ofUncontrolled(t.Context(), kept)), ""},
		{"a worker that nobody controls", requested(c.ofUncontrolled(t.Context(), grouptest.MachineOf("demo", "w", nil))), ""},
	} {
		if got := strings.Join(test.got, " "); got != test.want {
			t.Errorf("%s: turns of %q, want %q", test.name, got, test.want)
		}
	}
	c.Kind = testKind{}
	if got := requested(c.ofWorker(t.Context(), grouptest.MachineOf("demo", "cp", control))); len(got) > 0 {
		t.Errorf("the end of a control plane's own machine brings about turns of %v", got)
	}
	if !machine.IsEtcd(kept) {
		t.Error("the label is not known")
	}
}

// requested are the names of the groups whose turns are asked for, sorted.
func requested(requests []ctrl.Request) []string {
	var names []string
	for _, r := range requests {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// TestAgainWhileClusterGoes: machines without Nodes go last, and look soon whether the control plane is gone, whose end nobody tells them.
func TestAgainWhileClusterGoes(t *testing.T) {
	for _, row := range []struct {
		deleting, paused bool
		want             time.Duration
	}{{false, false, observe.SoonAtRest}, {true, false, observe.SoonBusy}, {true, true, 0}} {
		cluster := &clusterv1.Cluster{}
		if row.deleting {
			cluster.DeletionTimestamp = new(metav1.Now())
		}
		turn := turnOf(&Controller{}, observe.NewView(cluster, nil, plan.Observed{Group: plan.Group{Initialized: true, Paused: row.paused}}))
		turn.Nodeless, turn.Type.Standalone = true, true
		if got := turn.Again(plan.Decision{Step: plan.Step{Verb: plan.Nothing}}); got != row.want {
			t.Errorf("%+v: again in %s", row, got)
		}
	}
}
