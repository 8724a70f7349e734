package envtest

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/stacked"
)

// givenEtcd is the whole API of another provider of etcd: it hands over what its spec says.
const givenEtcd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: givenetcds.etcd.example
  labels: {cluster.x-k8s.io/v1beta2: v1alpha1}
spec:
  group: etcd.example
  names: {kind: GivenEtcd, plural: givenetcds, singular: givenetcd}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {endpoints: {type: string}}}
          status: {type: object, properties: {ready: {type: boolean}, endpoints: {type: string}, plan: {type: object, properties: {message: {type: string}}}}}
`

// provider is one that keeps the etcd of the control plane demo-cp.
type provider struct {
	ref controlplanev1.ManagedEtcdReference
	// manifest is its object, which says nothing in its status yet.
	manifest string
}

var providers = map[string]provider{
	"EtcdCluster": {
		ref:      controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster", Name: "demo-etcd"},
		manifest: etcdCluster,
	},
	"another kind": {
		ref: controlplanev1.ManagedEtcdReference{APIGroup: "etcd.example", Kind: "GivenEtcd", Name: "demo-etcd"},
		manifest: "{apiVersion: etcd.example/v1alpha1, kind: GivenEtcd, metadata: {name: demo-etcd, namespace: default}, spec: {endpoints: " +
			"'https://etcd.example:2379'}}",
	},
}

// handOver lets a provider hand over these endpoints, or say why not yet: that part of a status is the contract.
func handOver(t *testing.T, c client.Client, o *unstructured.Unstructured, endpoints, why string) {
	t.Helper()
	before := o.DeepCopy()
	o.Object["status"] = map[string]any{"ready": endpoints != ""}
	if why != "" {
		o.Object["status"].(map[string]any)["plan"] = map[string]any{"message": why}
	}
	if endpoints != "" {
		if err := unstructured.SetNestedField(o.Object, endpoints, "status", "endpoints"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Status().Patch(context.Background(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestEtcdProviders is the contract between a provider of etcd and a control plane, docs/etcd.md: whatever kind has ready and
// endpoints in its status, and keeps the three secrets, can stand where EtcdCluster stands.
func TestEtcdProviders(t *testing.T) {
	needAssets(t)
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("asking where the module of Cluster API lies: %v", err)
	}
	root := strings.TrimSpace(string(module))
	c := start(t, &envtest.Environment{ErrorIfCRDPathMissing: true, CRDDirectoryPaths: []string{
		"../../config/crd", filepath.Join(root, "core/config/crd/bases"), filepath.Join(root, "bootstrap/kubeadm/config/crd/bases"),
	}})
	create(t, c, object(t, givenEtcd))
	for name, p := range providers {
		t.Run(name, func(t *testing.T) { conforms(t, c, p) })
	}
}

// conforms takes a control plane from nothing to its first machine, with etcd from a provider.
func conforms(t *testing.T, c client.Client, p provider) {
	s := newStage(t, c, p.ref)
	s.until("EtcdNotReady", p.ref.Kind+" demo-etcd does not exist")
	etcd := object(t, p.manifest)
	s.make(etcd)
	s.until("EtcdNotReady", p.ref.Kind+" demo-etcd is not ready: status.ready is not true")
	handOver(t, c, etcd, "", "2 of 3 members vote")
	s.until("EtcdNotReady", p.ref.Kind+" demo-etcd is not ready: 2 of 3 members vote")
	handOver(t, c, etcd, "https://b.example:2379,https://a.example:2379", "")
	s.until("GivenCertificatesMissing", "apiserver-etcd-client")
	s.keepSecrets(etcd)
	s.until("Initializing", "")

	config := &bootstrapv1.KubeadmConfig{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-cp-1"}, config); err != nil {
		t.Fatal(err)
	}
	got := config.Spec.ClusterConfiguration.Etcd.External
	if strings.Join(got.Endpoints, " ") != "https://a.example:2379 https://b.example:2379" ||
		got.CAFile != "/etc/kubernetes/pki/etcd/ca.crt" ||
		got.CertFile != "/etc/kubernetes/pki/apiserver-etcd-client.crt" || got.KeyFile != "/etc/kubernetes/pki/apiserver-etcd-client.key" {
		t.Errorf("its machine has the etcd %+v", got)
	}
	for _, name := range []string{"demo-managed-etcd", "demo-etcd", "demo-apiserver-etcd-client"} {
		secret := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, secret); err != nil {
			t.Fatal(err)
		}
		if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != etcd.GetUID() {
			t.Errorf("secret %s became %v's", name, secret.OwnerReferences)
		}
	}
}

// stage is a Cluster with a control plane, whose turns are taken by hand. It implements observe.Workloads: no cluster is connected.
type stage struct {
	t      *testing.T
	client client.Client
	c      *group.Controller
	owner  *clusterv1.Cluster
}

var controlPlaneKey = client.ObjectKey{Namespace: "default", Name: "demo-cp"}

func (*stage) Want(client.ObjectKey, bool)          {}
func (*stage) Forget(client.ObjectKey)              {}
func (*stage) Own(client.ObjectKey, workload.Mine)  {}
func (*stage) Config(client.ObjectKey) *rest.Config { return nil }
func (*stage) View(client.ObjectKey) workload.View  { return workload.View{} }
func (*stage) Events() <-chan event.GenericEvent    { return nil }
func (*stage) Dial(client.ObjectKey, string, string, int) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }
}

// newStage makes a Cluster, whose infrastructure is there, and a control plane that keeps its data in what ref names.
func newStage(t *testing.T, c client.Client, ref controlplanev1.ManagedEtcdReference) *stage {
	t.Helper()
	s := &stage{t: t, client: c}
	s.c = &group.Controller{Client: c, APIReader: c, Workload: s, Recorder: events.NewFakeRecorder(1000), Quorums: observe.NewQuorums(c, ""),
		Kind: stacked.New()}
	s.owner = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	s.owner.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "172.30.0.10", Port: 6443}
	s.owner.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
		Kind: "KubeadmControlPlane", Name: controlPlaneKey.Name}
	s.make(s.owner)
	s.owner.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	if err := c.Status().Update(t.Context(), s.owner); err != nil {
		t.Fatal(err)
	}
	s.make(object(t, "{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachineTemplate, metadata: {name: demo, namespace: "+
		"default}, spec: {template: {spec: {}}}}"))
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: controlPlaneKey.Name}}
	if err := controllerutil.SetOwnerReference(s.owner, kcp, c.Scheme()); err != nil {
		t.Fatal(err)
	}
	kcp.Spec.Replicas, kcp.Spec.Version, kcp.Spec.ManagedExternalEtcdRef = ptr.To(int32(2)), "v1.36.3", ref
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP256
	kcp.Spec.KubeadmConfigSpec.Format = bootstrapv1.CloudConfig
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind: "LocalMachineTemplate", Name: "demo"}
	s.make(kcp)
	t.Cleanup(s.clear)
	return s
}

// make creates an object, which is deleted at the end.
func (s *stage) make(o client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.drop(o) })
}

// drop deletes an object without what holds it.
func (s *stage) drop(o client.Object) {
	s.t.Helper()
	ctx := context.Background()
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(o), o); err == nil && len(o.GetFinalizers()) > 0 {
		o.SetFinalizers(nil)
		if err := s.client.Update(ctx, o); err != nil {
			s.t.Error(err)
		}
	}
	if err := client.IgnoreNotFound(s.client.Delete(ctx, o)); err != nil {
		s.t.Error(err)
	}
}

// clear deletes what the control plane has made: no garbage collector runs here.
func (s *stage) clear() {
	for _, list := range []client.ObjectList{&clusterv1.MachineList{}, &bootstrapv1.KubeadmConfigList{}, &corev1.SecretList{}} {
		if err := s.client.List(context.Background(), list, client.InNamespace("default")); err != nil {
			s.t.Error(err)
		}
		for _, o := range itemsOf(list) {
			s.drop(o)
		}
	}
	machine := object(s.t, "{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachine, metadata: {name: demo-cp-1, "+
		"namespace: default}}")
	s.drop(machine)
}

// itemsOf are the objects of a list.
func itemsOf(list client.ObjectList) []client.Object {
	var all []client.Object
	switch l := list.(type) {
	case *clusterv1.MachineList:
		for i := range l.Items {
			all = append(all, &l.Items[i])
		}
	case *bootstrapv1.KubeadmConfigList:
		for i := range l.Items {
			all = append(all, &l.Items[i])
		}
	case *corev1.SecretList:
		for i := range l.Items {
			all = append(all, &l.Items[i])
		}
	}
	return all
}

// until takes turns until the plan has a reason and a message with this text.
func (s *stage) until(reason, text string) {
	s.t.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{}
	ticker := time.NewTicker(200 * time.Millisecond) // what a provider says is believed for two seconds
	defer ticker.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-ticker.C {
		if _, err := s.c.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: controlPlaneKey}); err != nil {
			s.t.Fatalf("turn failed: %v", err)
		}
		if err := s.client.Get(s.t.Context(), controlPlaneKey, kcp); err != nil {
			s.t.Fatal(err)
		}
		if p := kcp.Status.Plan; p.Reason == reason && strings.Contains(p.Message, text) {
			return
		}
	}
	s.t.Fatalf("told is %+v, want the reason %s and %q", kcp.Status.Plan, reason, text)
}

// keepSecrets does what a provider does for the certificates: the authority with its key is its own, control planes get that without
// the key, and a client certificate.
func (s *stage) keepSecrets(etcd *unstructured.Unstructured) {
	s.t.Helper()
	owner := *metav1.NewControllerRef(etcd, etcd.GroupVersionKind())
	if err := certs.GenerateManagedEtcd(s.t.Context(), s.client, s.owner, owner); err != nil {
		s.t.Fatal(err)
	}
	authority, err := certs.ManagedEtcdAuthority(s.t.Context(), s.client, s.owner)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := authority.PublishManagedEtcd(s.t.Context(), s.client, s.client, s.owner, owner); err != nil {
		s.t.Fatal(err)
	}
}
