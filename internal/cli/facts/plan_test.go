package facts

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/machines"
	"github.com/quorate/quorate/internal/kinds/stacked"
	"github.com/quorate/quorate/internal/manager"
)

// as is an object as the API server would store it.
func as(t *testing.T, o client.Object) *unstructured.Unstructured {
	t.Helper()
	gvks, _, err := manager.Scheme().ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: raw}
	u.SetGroupVersionKind(gvks[0])
	return u
}

// TestPlans: a cluster is planned as it would be, from objects of which some are only given, and nothing is written.
func TestPlans(t *testing.T) {
	cluster := clusterOf(refTo(controlplanev1.GroupVersion.Group, kubeadmControlPlane))
	cluster.UID = "u"
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	kcp := controlPlanes()[kubeadmControlPlane].(*controlplanev1.KubeadmControlPlane)
	kcp.Status = controlplanev1.KubeadmControlPlane{}.Status
	kcp.Spec.Replicas = ptr.To[int32](3)
	owner := clusterOf(clusterv1.ContractVersionedObjectReference{})
	owner.UID = "u"
	kcp.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Cluster"))})
	other := kcp.DeepCopy()
	other.Spec.Replicas = ptr.To[int32](1)
	other.Spec.KubeadmConfigSpec.ClusterConfiguration.FeatureGates = map[string]bool{"ControlPlaneKubeletLocalMode": true}
	even := kcp.DeepCopy()
	even.Spec.Replicas = ptr.To[int32](2)
	wrote := func() error { t.Error("something was written"); return errors.New("read only") }
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(cluster, kcp).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return wrote() },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return wrote()
		},
	}).Build()
	for _, test := range []struct {
		name    string
		changed []*unstructured.Unstructured
		want    string
	}{
		{"as it is", nil, "demo-cp-1 demo-cp-2 demo-cp-3: AsWanted"},
		{"another number", []*unstructured.Unstructured{as(t, other)}, "demo-cp-1: AsWanted"},
		{"one that is refused", []*unstructured.Unstructured{as(t, even)}, ": EvenReplicas"},
	} {
		plans, err := Plans(t.Context(), c, c.Scheme(), client.ObjectKeyFromObject(cluster), test.changed)
		if err != nil || len(plans) != 1 {
			t.Fatalf("%s: %+v, %v", test.name, plans, err)
		}
		if refused := len(plans[0].Refused) > 0; refused != (test.name == "another number") {
			t.Errorf("%s: refused %v", test.name, plans[0].Refused)
		}
		var names []string
		for _, m := range plans[0].Machines {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " ") + ": " + plans[0].End.Reason; got != test.want || plans[0].Group != "KubeadmControlPlane demo-cp" {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	sayRefused(t, kcp)
	if _, err := Plans(t.Context(), c, c.Scheme(), client.ObjectKey{Namespace: "default", Name: "nobody"}, nil); !errors.Is(err,
		ErrNoCluster) {
		t.Errorf("without a cluster: %v", err)
	}
}

// sayRefused: the configuration for kubeadm of a ControlPlane is that of its template, and one with another bootstrap provider has none.
func sayRefused(t *testing.T, kcp *controlplanev1.KubeadmControlPlane) {
	t.Helper()
	template := &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	template.Spec.Template.Spec.ClusterConfiguration.FeatureGates = map[string]bool{"ControlPlaneKubeletLocalMode": true}
	of := func(kind string) *controlplanev1alpha1.ControlPlane {
		cp := &controlplanev1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-" + strings.ToLower(kind)}}
		cp.Spec.Version = "v1.36.3"
		cp.Spec.MachineTemplate.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group,
			Kind: kind, Name: "demo"}
		return cp
	}
	kubeadm, other := of("KubeadmConfigTemplate"), of("OtherTemplate")
	kcp = kcp.DeepCopy()
	kcp.Spec.Version, kcp.Spec.KubeadmConfigSpec = "v1.36.3", template.Spec.Template.Spec
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(kcp, kubeadm, other, template).Build()
	for _, test := range []struct {
		kind observe.Kind
		name string
		has  bool
	}{{&stacked.Kind{}, kcp.Name, true}, {&machines.Kind{}, kubeadm.Name, true}, {&machines.Kind{}, other.Name, false}} {
		version, config, err := configurationOf(t.Context(), c,
			&Group{Kind: test.kind, Key: client.ObjectKey{Namespace: "default", Name: test.name}})
		if err != nil || (config != nil) != test.has || test.has && (version != "v1.36.3" || len(config.ClusterConfiguration.FeatureGates) != 1) {
			t.Errorf("%s: %q, %v, %v", test.name, version, config, err)
		}
	}
}
