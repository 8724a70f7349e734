package facts

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager"
)

// clusterOf is a Cluster that refers to a control plane.
func clusterOf(ref clusterv1.ContractVersionedObjectReference) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	cluster.Spec.ControlPlaneRef = ref
	return cluster
}

func refTo(group, kind string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: "demo-cp"}
}

// A cluster's control plane is the one that it refers to, of its kind, whatever others are called like it.
func TestReadControlPlane(t *testing.T) {
	ours := controlplanev1.GroupVersion.Group
	all := controlPlanes()
	both := []client.Object{all[kubeadmControlPlane], all[controlPlane]}
	for _, tt := range []struct {
		name string
		ref  clusterv1.ContractVersionedObjectReference
		have []client.Object
		want string // the kind; empty: none
	}{
		{"by kubeadm", refTo(ours, kubeadmControlPlane), both, kubeadmControlPlane},
		{"of machines", refTo(ours, controlPlane), both, controlPlane},
		{"gone", refTo(ours, controlPlane), both[:1], ""},
		{"of a kind that is not known", refTo(ours, "TalosControlPlane"), both, ""},
		{"of another group", refTo("controlplane.example.org", controlPlane), both, ""},
		{"none", clusterv1.ContractVersionedObjectReference{}, both, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster := clusterOf(tt.ref)
			c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(tt.have...).WithObjects(cluster).Build()
			o, err := Read(t.Context(), c, client.ObjectKeyFromObject(cluster))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if o.ControlPlane != nil {
				got = o.ControlPlane.Kind.Type().Kind
			}
			if got != tt.want {
				t.Errorf("the control plane is a %q, want %q", got, tt.want)
			}
		})
	}
}

// What is said of a control plane does not depend on its kind, but for what only one kind has.
func TestKindsSayTheSame(t *testing.T) {
	all := controlPlanes()
	kubeadm, machines := of(all[kubeadmControlPlane]), of(all[controlPlane])
	if kubeadm.Kind.Type().Kind != kubeadmControlPlane || machines.Kind.Type().Kind != controlPlane {
		t.Errorf("kinds are %v and %v", kubeadm.Kind.Type(), machines.Kind.Type())
	}
	if len(kubeadm.Components) != 4 || len(machines.Components) != 0 {
		t.Errorf("components are %v and %v", kubeadm.Components, machines.Components)
	}
	kubeadm.Kind, kubeadm.Components = machines.Kind, machines.Components
	if !reflect.DeepEqual(kubeadm, machines) {
		t.Errorf("said are %+v and %+v", kubeadm, machines)
	}
}

// The same cluster is shown in the same words whatever the kind of its control plane is.
func TestTreesAreTheSame(t *testing.T) {
	golden, err := os.ReadFile("testdata/tree.txt")
	if err != nil {
		t.Fatal(err)
	}
	eachKind(t, func(t *testing.T, s Seen) {
		var b strings.Builder
		for _, line := range Describe(s).Tree() {
			b.WriteString(line.String() + "\n")
		}
		if b.String() != string(golden) {
			t.Errorf("the tree is\n%swant\n%s", b.String(), golden)
		}
	})
}

// Who manages etcd is told; where nothing can be observed, that it is not known, but of machines that have no etcd.
func TestEtcdManagement(t *testing.T) {
	kubeadm := func(change func(*controlplanev1.KubeadmControlPlane)) observe.Object {
		kcp := controlPlanes()[kubeadmControlPlane].(*controlplanev1.KubeadmControlPlane)
		change(kcp)
		return kcp
	}
	external := func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{Endpoints: []string{"https://e:2379"}}
	}
	by := func(management controlplanev1alpha1.EtcdManagement) observe.Object {
		cp := controlPlanes()[controlPlane].(*controlplanev1alpha1.ControlPlane)
		cp.Spec.Etcd.Management = management
		return cp
	}
	for _, tt := range []struct {
		name         string
		controlPlane observe.Object
		sentence     string
		failed       string // the sentence where nothing can be observed
	}{
		{"stacked", kubeadm(func(*controlplanev1.KubeadmControlPlane) {}), "not known", "not known: no Cluster owns KubeadmControlPlane"},
		{"external", kubeadm(external), "not on these machines", "not on these machines"},
		{"members", by(controlplanev1alpha1.EtcdManagementMembers), "not known", "not known: reading Cluster demo"},
		{"by an operator", by(controlplanev1alpha1.EtcdManagementOperator), "kept by an operator in the cluster",
			"not known: reading Cluster demo"},
		{"none", by(controlplanev1alpha1.EtcdManagementNone), "not on these machines", "not known: reading Cluster demo"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := complete()
			s.Objects.ControlPlane = of(tt.controlPlane)
			say := func(objects ...client.Object) string {
				c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(objects...).Build()
				return Describe(WithObserved(t.Context(), c, s)).Etcd.Sentence()
			}
			if got := say(tt.controlPlane); !strings.HasPrefix(got, tt.failed) {
				t.Errorf("etcd is %q, want %q", got, tt.failed)
			}
			tt.controlPlane.SetResourceVersion("")
			cluster := clusterOf(refTo(controlplanev1.GroupVersion.Group, s.Objects.ControlPlane.Kind.Type().Kind))
			tt.controlPlane.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cluster,
				clusterv1.GroupVersion.WithKind("Cluster"))})
			if got := say(tt.controlPlane, cluster); !strings.HasPrefix(got, tt.sentence) || strings.Contains(got, "Cluster") {
				t.Errorf("etcd is %q, want %q", got, tt.sentence)
			}
		})
	}
}

// Machines that kubeadm did not set up may run their components in any way: a static pod that there is not is not missed.
func TestMachinesNeedNoStaticPods(t *testing.T) {
	s := complete()
	s.Objects.ControlPlane = of(controlPlanes()[controlPlane])
	for n := len(s.View.Pods); n >= 0; n-- {
		s.View.Pods = s.View.Pods[:n]
		c := Describe(s)
		if missing := c.Missing(); missing != "" || len(c.ControlPlane.Machines[0].Components) != n {
			t.Errorf("%d pods: missing is %q, components are %+v", n, missing, c.ControlPlane.Machines[0].Components)
		}
	}
	s.View.Pods = complete().View.Pods
	s.View.Pods[0].Spec.NodeName = "demo-worker-x"
	if c := Describe(s).ControlPlane.Machines[0].Components; len(c) != 3 {
		t.Errorf("a pod on another Node is a component: %+v", c)
	}
}

// Where there is nothing to explain, it is said of which kind nothing is there.
func TestExplainWithoutAControlPlane(t *testing.T) {
	for kind, want := range map[string]string{
		kubeadmControlPlane: "has no KubeadmControlPlane yet", controlPlane: "has no ControlPlane yet", "": "has no KubeadmControlPlane or " +
			"ControlPlane yet",
	} {
		cluster := clusterOf(refTo(controlplanev1.GroupVersion.Group, kind))
		c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(cluster).Build()
		e, err := Explain(t.Context(), c, client.ObjectKeyFromObject(cluster), false)
		if err == nil || !strings.Contains(err.Error(), want) || !reflect.DeepEqual(e, report.Explanation{}) {
			t.Errorf("%q: %+v, %v; want %q", kind, e, err, want)
		}
	}
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).Build()
	if _, err := Explain(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "demo"}, false); !errors.Is(err, ErrNoCluster) {
		t.Errorf("without a cluster: %v", err)
	}
}
