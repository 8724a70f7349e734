package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// TestReferences: each webhook refuses kinds that its fields must not name, with the path of the field, and leaves alone what was stored.
func TestReferences(t *testing.T) {
	const refusal = "cannot be referenced"
	secret := clusterv1.ContractVersionedObjectReference{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRoleTemplate", Name: "x"}
	etcd := controlplanev1.ManagedEtcdReference{APIGroup: "cluster.x-k8s.io", Kind: "Cluster", Name: "x"}
	for path, create := range map[string]func(context.Context) (stored func(context.Context) error, created error){
		"spec.machineTemplate.spec.infrastructureRef": func(ctx context.Context) (func(context.Context) error, error) {
			o := &controlplanev1.KubeadmControlPlane{}
			o.Spec.MachineTemplate.Spec.InfrastructureRef = secret
			_, err := (&KubeadmControlPlane{}).ValidateCreate(ctx, o)
			return func(ctx context.Context) error {
				_, err := (&KubeadmControlPlane{}).ValidateUpdate(ctx, o, o)
				return err
			}, err
		},
		"spec.managedExternalEtcdRef": func(ctx context.Context) (func(context.Context) error, error) {
			o := &controlplanev1.KubeadmControlPlane{}
			o.Spec.ManagedExternalEtcdRef = etcd
			_, err := (&KubeadmControlPlane{}).ValidateCreate(ctx, o)
			return func(ctx context.Context) error {
				_, err := (&KubeadmControlPlane{}).ValidateUpdate(ctx, o, o)
				return err
			}, err
		},
		"spec.template.spec.managedExternalEtcdRef": func(ctx context.Context) (func(context.Context) error, error) {
			o := &controlplanev1.KubeadmControlPlaneTemplate{}
			o.Spec.Template.Spec.ManagedExternalEtcdRef = etcd
			_, err := (&KubeadmControlPlaneTemplate{}).ValidateCreate(ctx, o)
			return nil, err
		},
		"spec.machineTemplate.spec.bootstrap.configRef": func(ctx context.Context) (func(context.Context) error, error) {
			o := &controlplanev1alpha1.ControlPlane{}
			o.Spec.MachineTemplate.Spec.Bootstrap.ConfigRef = secret
			return machinesWebhook(ctx, o)
		},
		"spec.machineTemplate.spec.infrastructureRef ": func(ctx context.Context) (func(context.Context) error, error) {
			o := &controlplanev1alpha1.ControlPlane{}
			o.Spec.MachineTemplate.Spec.InfrastructureRef = secret
			return machinesWebhook(ctx, o)
		},
		"spec.managedExternalEtcdRef ": func(ctx context.Context) (func(context.Context) error, error) {
			o := &controlplanev1alpha1.ControlPlane{}
			o.Spec.ManagedExternalEtcdRef = etcd
			return machinesWebhook(ctx, o)
		},
		"spec.providerSpec.value.kind": func(ctx context.Context) (func(context.Context) error, error) {
			o := &controlplanev1alpha1.ControlPlane{}
			o.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Secret"}`)}
			return machinesWebhook(ctx, o)
		},
		"spec.infrastructureTemplate": func(ctx context.Context) (func(context.Context) error, error) {
			o := &etcdclusterv1alpha1.EtcdCluster{}
			o.Spec.InfrastructureTemplate = secret
			_, err := (&EtcdCluster{}).ValidateCreate(ctx, o)
			return func(ctx context.Context) error { _, err := (&EtcdCluster{}).ValidateUpdate(ctx, o, o); return err }, err
		},
		"spec.template.spec.infrastructureTemplate": func(ctx context.Context) (func(context.Context) error, error) {
			o := &etcdclusterv1alpha1.EtcdClusterTemplate{}
			o.Spec.Template.Spec.InfrastructureTemplate = secret
			_, err := (&EtcdClusterTemplate{}).ValidateCreate(ctx, o)
			return nil, err
		},
	} {
		stored, err := create(t.Context())
		if want := strings.TrimSpace(path) + ": Invalid value"; !strings.Contains(fmt.Sprint(err), want) ||
			!strings.Contains(fmt.Sprint(err), refusal) {
			t.Errorf("%s: %v", path, err)
		}
		if stored == nil {
			continue
		}
		if err := stored(t.Context()); err != nil && strings.Contains(err.Error(), refusal) {
			t.Errorf("%s: what was stored is refused: %v", path, err)
		}
	}
}

// machinesWebhook creates a ControlPlane, and returns how it is updated without a change.
func machinesWebhook(ctx context.Context, o *controlplanev1alpha1.ControlPlane) (func(context.Context) error, error) {
	_, err := (&ControlPlane{}).ValidateCreate(ctx, o)
	return func(ctx context.Context) error { _, err := (&ControlPlane{}).ValidateUpdate(ctx, o, o); return err }, err
}

// TestOneEtcd: a second EtcdCluster for a Cluster is refused, and the etcd of another Cluster; an update of what is there is not.
func TestOneEtcd(t *testing.T) {
	of := func(name, cluster string) *etcdclusterv1alpha1.EtcdCluster {
		e := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if cluster != "" {
			e.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
		}
		e.Spec.InfrastructureTemplate = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.example.com",
			Kind: "MachineTemplate", Name: "x"}
		return e
	}
	scheme := runtime.NewScheme()
	if err := etcdclusterv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	elsewhere := of("demo-etcd", "demo")
	elsewhere.Namespace = "elsewhere"
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(of("other-etcd", "other"), of("free", ""), elsewhere).Build()
	hook := &EtcdCluster{Reader: reader}
	for name, refused := range map[string]bool{"second": true, "other-etcd": false} {
		if _, err := hook.ValidateCreate(t.Context(), of(name, "other")); (err != nil) != refused {
			t.Errorf("EtcdCluster %s for other: %v", name, err)
		}
	}
	if _, err := hook.ValidateCreate(t.Context(), of("first", "demo")); err != nil {
		t.Errorf("a first one, beside one of the same Cluster name in another namespace: %v", err)
	}
	if _, err := hook.ValidateUpdate(t.Context(), of("free", ""), of("free", "other")); err == nil {
		t.Error("an EtcdCluster is given to a Cluster that has one")
	}
	for name, want := range map[string]string{"other-etcd": "belongs to Cluster other", "free": "", "none": ""} {
		ref := controlplanev1.ManagedEtcdReference{APIGroup: etcdclusterv1alpha1.GroupVersion.Group, Kind: "EtcdCluster", Name: name}
		kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo",
			Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
		err := checkOwnEtcd(t.Context(), reader, kcp, ref)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a control plane that names %s: %v, want %q", name, err, want)
		}
	}
}
