package takeover

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	bootstrapv1beta1 "github.com/quorate/quorate/api/bootstrap/v1beta1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1beta1"
)

// scene is a management cluster with the objects of one etcd cluster that aws/etcdadm-controller made.
type scene struct {
	*testing.T
	client client.Client
}

// given returns what the other controller leaves of an etcd cluster that runs.
func given() (*clusterv1.Cluster, *v1beta1.EtcdadmCluster, []client.Object) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "cluster-uid"}}
	e := &v1beta1.EtcdadmCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "demo-etcd", UID: "etcd-uid", Generation: 3, Finalizers: []string{v1beta1.OtherFinalizer},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "demo", UID: "cluster-uid"}},
	}}
	e.Spec.Replicas = ptr.To[int32](3)
	e.Spec.InfrastructureTemplate = corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1",
		Kind: "VSphereMachineTemplate", Name: "t", Namespace: "default"}
	e.Spec.EtcdadmConfigSpec.CloudInitConfig = &bootstrapv1beta1.CloudInitConfig{Version: "3.5.26"}
	e.Status = v1beta1.EtcdadmClusterStatus{
		Initialized: true, Ready: true, CreationComplete: true, Endpoints: "https://10.0.0.1:2379", Replicas: 3,
		Conditions: clusterv1beta1.Conditions{{Type: "Ready", Status: corev1.ConditionTrue}},
	}
	owner := *metav1.NewControllerRef(e, v1beta1.GroupVersion.WithKind("EtcdadmCluster"))
	var made []client.Object
	for _, name := range []string{"demo-etcd-a", "demo-etcd-b"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{clusterv1.ClusterNameLabel: "demo", v1alpha1.MachineLabel: "demo-etcd"},
		}}
		made = append(made, m)
	}
	for _, name := range []string{"demo-managed-etcd", "demo-etcd", "demo-apiserver-etcd-client"} {
		made = append(made, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			OwnerReferences: []metav1.OwnerReference{owner}}})
	}
	return cluster, e, made
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return &scene{t, fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1beta1.EtcdadmCluster{}, &v1alpha1.EtcdCluster{}).Build()}
}

// turn reconciles, and returns the EtcdadmCluster afterwards; nil: it is gone.
func (s *scene) turn() *v1beta1.EtcdadmCluster {
	s.Helper()
	key := client.ObjectKey{Namespace: "default", Name: "demo-etcd"}
	if _, err := (&Controller{Client: s.client}).Reconcile(s.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		s.Fatal(err)
	}
	e := &v1beta1.EtcdadmCluster{}
	if err := s.client.Get(s.Context(), key, e); err != nil {
		if !apierrors.IsNotFound(err) {
			s.Fatal(err)
		}
		return nil
	}
	return e
}

// etcd returns the EtcdCluster; nil: there is none.
func (s *scene) etcd() *v1alpha1.EtcdCluster {
	s.Helper()
	etcd := &v1alpha1.EtcdCluster{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: "demo-etcd"}, etcd); err != nil {
		if !apierrors.IsNotFound(err) {
			s.Fatal(err)
		}
		return nil
	}
	return etcd
}

// controllers returns the kinds of the controllers of all Machines and secrets.
func (s *scene) controllers(made []client.Object) map[string]string {
	s.Helper()
	kinds := map[string]string{}
	for _, o := range made {
		now := o.DeepCopyObject().(client.Object)
		if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(o), now); err != nil {
			s.Fatal(err)
		}
		kinds[o.GetName()] = ""
		if owner := metav1.GetControllerOf(now); owner != nil {
			kinds[o.GetName()] = owner.Kind
		}
	}
	return kinds
}

func (s *scene) waits(e *v1beta1.EtcdadmCluster, reason, message string) {
	s.Helper()
	for _, c := range e.Status.Conditions {
		if c.Type == v1beta1.EtcdClusterReadyCondition {
			if c.Status != corev1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, message) {
				s.Errorf("the condition is %+v, want %s with %q", c, reason, message)
			}
			return
		}
	}
	s.Errorf("there is no condition, want %s", reason)
}

// TestTakeOver: nothing happens until a person says that the other controller is stopped. Then the EtcdCluster gets the Machines and
// secrets, and no machine begins another etcd cluster.
func TestTakeOver(t *testing.T) {
	cluster, e, made := given()
	s := newScene(t, append(made, cluster, e)...)
	now := s.turn()
	s.waits(now, "WaitingForTakeOver",
		"scale its Deployment to 0, then set the annotation etcdcluster.cluster.x-k8s.io/quorate-take-over=true")
	if s.etcd() != nil || len(now.Finalizers) != 1 || len(now.Status.Conditions) != 2 ||
		s.controllers(made)["demo-etcd-a"] != "EtcdadmCluster" {
		t.Errorf("the other controller's etcd cluster was touched: %+v", now)
	}

	now.Annotations = map[string]string{v1beta1.TakeOverAnnotation: "true"}
	if err := s.client.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	now = s.turn()
	s.waits(now, "WaitingForEtcdCluster", "")
	if !now.Status.Ready || now.Status.Endpoints != "https://10.0.0.1:2379" || len(now.Finalizers) > 0 || len(now.Status.Conditions) != 1 {
		t.Errorf("what a control plane reads is %+v, the finalizers are %v", now.Status, now.Finalizers)
	}
	etcd := s.etcd()
	if etcd == nil || !metav1.IsControlledBy(etcd, now) || etcd.Annotations[controlplanev1.InitializedAnnotation] != "true" ||
		etcd.Labels[clusterv1.ClusterNameLabel] != "demo" {
		t.Fatalf("the EtcdCluster is %+v", etcd)
	}
	if ref := etcd.Spec.InfrastructureTemplate; ref.APIGroup != "infrastructure.cluster.x-k8s.io" || ref.Kind != "VSphereMachineTemplate" ||
		ref.Name != "t" ||
		*etcd.Spec.Replicas != 3 || etcd.Spec.Version != "3.5.26" || etcd.Spec.EtcdadmConfigSpec.Version != "" {
		t.Errorf("its spec is %+v", etcd.Spec)
	}
	for name, kind := range s.controllers(made) {
		if want := map[bool]string{true: "", false: "EtcdCluster"}[strings.HasPrefix(name, "demo-etcd-")]; kind != want {
			t.Errorf("%s is controlled by %q, want %q", name, kind, want)
		}
	}
}

// TestStatus: a control plane reads the EtcdCluster's status from the EtcdadmCluster once it can be used.
func TestStatus(t *testing.T) {
	cluster, e, _ := given()
	e.Finalizers, e.Status = nil, v1beta1.EtcdadmClusterStatus{}
	s := newScene(t, cluster, e)
	if now := s.turn(); now.Status.Ready || now.Status.Initialized || s.etcd().Annotations != nil {
		t.Errorf("a new one has the status %+v, annotations %v", now.Status, s.etcd().Annotations)
	}
	etcd := s.etcd()
	etcd.Status.Ready, etcd.Status.Initialized, etcd.Status.Replicas = ptr.To(true), ptr.To(true), ptr.To[int32](3)
	etcd.Status.Endpoints, etcd.Status.InitMachineAddress = "https://a:2379", "a"
	if err := s.client.Status().Update(t.Context(), etcd); err != nil {
		t.Fatal(err)
	}
	status := s.turn().Status
	if !status.Ready || !status.Initialized || !status.CreationComplete || status.Endpoints != "https://a:2379" ||
		status.InitMachineAddress != "a" ||
		status.Replicas != 3 || len(status.Conditions) != 1 || status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("the status is %+v", status)
	}
}

// TestUpdate: what EtcdadmCluster has fields for follows it, and what a person sets on the EtcdCluster stays.
func TestUpdate(t *testing.T) {
	cluster, e, _ := given()
	e.Finalizers = nil
	s := newScene(t, cluster, e)
	now := s.turn()
	etcd := s.etcd()
	etcd.Spec.AutoRepair = &v1alpha1.AutoRepairSpec{}
	now.Spec.Replicas, now.Spec.EtcdadmConfigSpec.CloudInitConfig = ptr.To[int32](5), nil
	for _, o := range []client.Object{etcd, now} {
		if err := s.client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	s.turn()
	if spec := s.etcd().Spec; *spec.Replicas != 5 || spec.AutoRepair == nil || spec.Version != "3.5.26" {
		t.Errorf("the spec is %+v", spec)
	}
}

// TestNothingMade: where no EtcdCluster may be made, a condition has the reason.
func TestNothingMade(t *testing.T) {
	for name, row := range map[string]struct {
		change          func(*clusterv1.Cluster, *v1beta1.EtcdadmCluster)
		reason, message string
	}{
		"no Cluster": {func(_ *clusterv1.Cluster, e *v1beta1.EtcdadmCluster) { e.OwnerReferences = nil }, "WaitingForCluster",
			"cluster.x-k8s.io/cluster-name"},
		"no version": {func(_ *clusterv1.Cluster, e *v1beta1.EtcdadmCluster) { e.Spec.EtcdadmConfigSpec.CloudInitConfig = nil },
			"VersionUnknown", "spec.etcdadmConfigSpec.cloudInitConfig.version is empty: set it to the version of etcd that the members run"},
		"another namespace": {func(_ *clusterv1.Cluster, e *v1beta1.EtcdadmCluster) {
			e.Spec.InfrastructureTemplate.Namespace = "other"
		},
			"SpecInvalid", `spec.infrastructureTemplate.namespace is "other": must be default, or left out`},
		"Bottlerocket": {func(_ *clusterv1.Cluster, e *v1beta1.EtcdadmCluster) {
			e.Spec.EtcdadmConfigSpec.BottlerocketConfig = &bootstrapv1beta1.BottlerocketConfig{}
		}, "SpecInvalid", "spec.etcdadmConfigSpec.bottlerocketConfig: Forbidden"},
		"paused": {func(c *clusterv1.Cluster, _ *v1beta1.EtcdadmCluster) { c.Spec.Paused = ptr.To(true) }, "", ""},
		"Cluster deleted": {func(c *clusterv1.Cluster, _ *v1beta1.EtcdadmCluster) {
			c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.Now()), []string{"x"}
		}, "", ""},
	} {
		cluster, e, made := given()
		e.Annotations = map[string]string{v1beta1.TakeOverAnnotation: "true"}
		row.change(cluster, e)
		s := newScene(t, append(made, cluster, e)...)
		now := s.turn()
		if s.etcd() != nil || s.controllers(made)["demo-etcd-a"] != "EtcdadmCluster" {
			t.Errorf("%s: an EtcdCluster was made", name)
		}
		if row.reason != "" {
			s.waits(now, row.reason, row.message)
		}
	}
}

// TestAnother: an EtcdCluster that somebody made is left alone.
func TestAnother(t *testing.T) {
	cluster, e, _ := given()
	e.Finalizers = nil
	s := newScene(t, cluster, e, &v1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd"}})
	s.waits(s.turn(), "EtcdClusterOfAnother", "delete one of them")
	if spec := s.etcd().Spec; spec.Version != "" {
		t.Errorf("it was changed to %+v", spec)
	}
}

// TestDeleted: one that is deleted goes, without the finalizer that nobody else would take off, and none is made for it.
func TestDeleted(t *testing.T) {
	cluster, e, _ := given()
	e.Annotations = map[string]string{v1beta1.TakeOverAnnotation: "true"}
	e.DeletionTimestamp = ptr.To(metav1.Now())
	s := newScene(t, cluster, e)
	if now := s.turn(); now != nil || s.etcd() != nil {
		t.Errorf("it remains: %+v", now)
	}
}
