package machines

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// onEtcd is a control plane that keeps its data in an object of a kind that nothing here knows.
func onEtcd() *v1alpha1.ControlPlane {
	cp := testControlPlane()
	cp.Spec.ManagedExternalEtcdRef = v1beta2.ManagedEtcdReference{APIGroup: "etcd.example", Kind: "GivenEtcd"}
	return cp
}

// givenEtcd is that object, which can be used at endpoints; none: it cannot.
func givenEtcd(endpoints string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "etcd.example/v1alpha1", "kind": "GivenEtcd", "metadata": map[string]any{"namespace": "default", "name": "demo-etcd"},
		"status": map[string]any{"ready": endpoints != "", "endpoints": endpoints},
	}}
}

// etcdSecrets are what a provider of etcd keeps for control planes.
func etcdSecrets(t *testing.T) []client.Object {
	t.Helper()
	w := newWorld(t, testControlPlane())
	owner := metav1.OwnerReference{APIVersion: "etcd.example/v1alpha1", Kind: "GivenEtcd", Name: "demo-etcd", UID: "etcd-uid",
		Controller: new(true)}
	if err := certs.GenerateManagedEtcd(t.Context(), w.client, testCluster(), owner); err != nil {
		t.Fatal(err)
	}
	authority, err := certs.ManagedEtcdAuthority(t.Context(), w.client, testCluster())
	if err == nil {
		err = authority.PublishManagedEtcd(t.Context(), w.client, w.client, testCluster(), owner)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for _, name := range []string{"demo-etcd", "demo-apiserver-etcd-client"} {
		s := &corev1.Secret{}
		w.get(name, s)
		s.ResourceVersion = ""
		all = append(all, s)
	}
	return all
}

const given = "givenetcds.etcd.example"

// TestManagedEtcd: no machine is made before etcd can be used; kubeadm's are made with its endpoints, which are not written into the
// user's template; no member counts as the machines'; the secrets stay those of whoever keeps etcd.
func TestManagedEtcd(t *testing.T) {
	w := newWorld(t, onEtcd(), append(etcdSecrets(t), kindOf(given, "v1alpha1"))...)
	if p := w.settle(); p.Reason != "EtcdNotReady" || !strings.Contains(p.Message, "GivenEtcd demo-etcd does not exist") ||
		len(w.machines()) > 0 {
		t.Fatalf("without etcd plan %+v, machines %v", p, w.machines())
	}
	if status := w.controlPlane().Status; status.FailureReason != "" {
		t.Errorf("it failed for what passes: %s", status.FailureReason)
	}
	etcd := givenEtcd("")
	if err := w.client.Create(t.Context(), etcd); err != nil {
		t.Fatal(err)
	}
	w.lookAgain()
	if p := w.settle(); p.Reason != "EtcdNotReady" || !strings.Contains(p.Message, "status.ready is not true") || len(w.machines()) > 0 {
		t.Fatalf("before it is ready plan %+v, machines %v", p, w.machines())
	}
	w.etcdAt("https://10.0.0.2:2379,https://10.0.0.1:2379")
	w.settle()
	config := &bootstrapv1.KubeadmConfig{}
	w.get("cp-1", config)
	want := observe.ExternalEtcd([]string{"https://10.0.0.1:2379", "https://10.0.0.2:2379"}).External
	if got := config.Spec.ClusterConfiguration.Etcd.External; !slices.Equal(got.Endpoints, want.Endpoints) || got.CAFile != want.CAFile ||
		got.CertFile != want.CertFile || got.KeyFile != want.KeyFile {
		t.Errorf("the machine has the etcd %+v", got)
	}
	template := &bootstrapv1.KubeadmConfigTemplate{}
	if w.get("demo", template); template.Spec.Template.Spec.ClusterConfiguration.Etcd.External.IsDefined() {
		t.Error("the endpoints were written into the user's template")
	}
	turn, _, err := w.c.Observe(t.Context(), w.controlPlane(), testCluster())
	if err != nil || turn.Facts.Etcd.Ours() || w.controlPlane().Annotations[ManagementAnnotation] != "" {
		t.Errorf("members count as the machines': %v, %v", w.controlPlane().Annotations, err)
	}
	s := &corev1.Secret{}
	if w.get("demo-etcd", s); metav1.GetControllerOf(s).Kind != "GivenEtcd" {
		t.Errorf("the secret became %v's", s.OwnerReferences)
	}
}

// etcdAt lets etcd be used at endpoints, and nothing that was read before be believed.
func (w *world) etcdAt(endpoints string) {
	w.t.Helper()
	etcd := givenEtcd("")
	w.get(etcd.GetName(), etcd)
	etcd.Object["status"] = givenEtcd(endpoints).Object["status"]
	if err := w.client.Update(w.t.Context(), etcd); err != nil {
		w.t.Fatal(err)
	}
	w.lookAgain()
}

func (w *world) lookAgain() {
	memory := w.c.Memories.Of(key)
	memory.ManagedEtcd, memory.Secrets = observe.ManagedEtcd{}, observe.Secrets{}
}

// TestManagedEtcdMoves: other endpoints make kubeadm's machines outdated, another order or none does not, nor does it those that were
// made without an external etcd.
func TestManagedEtcdMoves(t *testing.T) {
	made := func(etcd bootstrapv1.Etcd) *observe.Machine {
		config := &unstructured.Unstructured{Object: map[string]any{}}
		var endpoints []any
		for _, e := range etcd.External.Endpoints {
			endpoints = append(endpoints, e)
		}
		if endpoints != nil {
			if err := unstructured.SetNestedSlice(config.Object, endpoints, configEndpoints...); err != nil {
				t.Fatal(err)
			}
		}
		return &observe.Machine{Machine: &clusterv1.Machine{}, Bootstrap: config}
	}
	others := onEtcd()
	others.Spec.MachineTemplate.Spec.Bootstrap.ConfigRef.Kind = "TalosConfigTemplate"
	for _, row := range []struct {
		name     string
		cp       *v1alpha1.ControlPlane
		has      bootstrapv1.Etcd
		want     []string
		outdated bool
	}{
		{"the same", onEtcd(), observe.ExternalEtcd([]string{"b", "a"}), []string{"a", "b"}, false},
		{"others", onEtcd(), observe.ExternalEtcd([]string{"a"}), []string{"b"}, true},
		{"not known", onEtcd(), observe.ExternalEtcd([]string{"a"}), nil, false},
		{"on the machine", onEtcd(), bootstrapv1.Etcd{}, []string{"b"}, false},
		{"no managed etcd", testControlPlane(), observe.ExternalEtcd([]string{"a"}), []string{"b"}, false},
		{"another bootstrap provider", others, observe.ExternalEtcd([]string{"a"}), []string{"b"}, false},
	} {
		turn := &observe.View{Object: row.cp, Memory: &observe.Memory{ManagedEtcd: observe.ManagedEtcd{Endpoints: row.want}}}
		if found := etcdDrift(turn, made(row.has)); (len(found) > 0) != row.outdated || row.outdated &&
			found[0].String() != "spec.managedExternalEtcdRef, endpoints: a, wanted b" {
			t.Errorf("%s: %v", row.name, found)
		}
	}
}

// TestManagedEtcdManagement: with etcd on machines of its own no member is on these machines, whatever else would tell of one.
func TestManagedEtcdManagement(t *testing.T) {
	cp := onEtcd()
	cp.Annotations = map[string]string{ManagementAnnotation: "Members"}
	if spec := New().Spec(cp); management(cp) != v1alpha1.EtcdManagementNone || spec.Etcd == plan.EtcdOurs || spec.HoldsQuorum {
		t.Errorf("%s, %+v", management(cp), spec)
	}
	cp = onEtcd()
	cp.Spec.MachineTemplate.Spec.Bootstrap = v1alpha1.BootstrapSpec{}
	w := newWorld(t, cp, append(etcdSecrets(t), kindOf(given, "v1alpha1"), givenEtcd("https://10.0.0.1:2379"))...)
	w.settle()
	if turn, _, err := w.c.Observe(t.Context(), w.controlPlane(), testCluster()); err != nil || turn.Facts.Etcd.Ours() ||
		len(w.machines()) == 0 {
		t.Errorf("members count as the machines', of which there are %v: %v", w.machines(), err)
	}
	if has := w.controlPlane().Annotations[ManagementAnnotation]; has != "" {
		t.Errorf("recorded is %q", has)
	}
}

// TestManagedEtcdAndTemplate: what the template says of etcd is not overruled.
func TestManagedEtcdAndTemplate(t *testing.T) {
	w := newWorld(t, onEtcd(), append(etcdSecrets(t), kindOf(given, "v1alpha1"), givenEtcd("https://10.0.0.1:2379"))...)
	template := &bootstrapv1.KubeadmConfigTemplate{}
	w.get("demo", template)
	template.Spec.Template.Spec.ClusterConfiguration.Etcd.Local.DataDir = "/data"
	if err := w.client.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	if p := w.settle(); p.Reason != "EtcdManagementInvalid" ||
		!strings.Contains(p.Message, "KubeadmConfigTemplate demo must not have clusterConfiguration.etcd") || len(w.machines()) > 0 {
		t.Errorf("plan %+v, machines %v", p, w.machines())
	}
}
