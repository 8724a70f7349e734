package stacked

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
)

// onEtcd is a control plane that keeps its data in an object of a kind that nothing here knows.
func onEtcd(replicas int32) *controlplanev1.KubeadmControlPlane {
	kcp := testKCP(replicas)
	kcp.Spec.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcd.example", Kind: "GivenEtcd", Name: "data"}
	return kcp
}

// etcdSays lets the object that keeps the etcd say this in its status, and nothing that was read before be believed.
func (w *world) etcdSays(status map[string]any) {
	w.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "etcd.example/v1alpha1", "kind": "GivenEtcd",
		"metadata": map[string]any{"namespace": "default", "name": "data"}}}
	err := w.client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
	o.Object["status"] = status
	switch {
	case apierrors.IsNotFound(err):
		err = w.client.Create(context.Background(), o)
	case err == nil && status == nil:
		err = w.client.Delete(context.Background(), o)
	case err == nil:
		err = w.client.Update(context.Background(), o)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.lookAgain()
}

// etcdGeneration is that of the spec of the object that keeps the etcd.
func (w *world) etcdGeneration(n int64) {
	w.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "etcd.example/v1alpha1", "kind": "GivenEtcd",
		"metadata": map[string]any{"namespace": "default", "name": "data"}}}
	if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
		w.t.Fatal(err)
	}
	o.SetGeneration(n)
	if err := w.client.Update(context.Background(), o); err != nil {
		w.t.Fatal(err)
	}
	w.lookAgain()
}

// lookAgain lets nothing that was read before be believed.
func (w *world) lookAgain() {
	w.readSecrets()
}

// giveEtcdCertificates makes the secrets that a provider of etcd keeps.
func (w *world) giveEtcdCertificates() {
	w.t.Helper()
	other := newWorld(w.t)
	if _, err := certs.Generate(context.Background(), other.client, testCluster(), &bootstrapv1.ClusterConfiguration{}, authorities,
		controllerRef(testKCP(1))); err != nil {
		w.t.Fatal(err)
	}
	pair := other.secret("demo-etcd").Data
	for name, data := range map[string]map[string][]byte{"demo-etcd": {"tls.crt": pair["tls.crt"]}, "demo-apiserver-etcd-client": pair} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}, Type: clusterv1.ClusterSecretType, Data: data}
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "etcd.cluster.x-k8s.io/v1alpha1", Kind: "GivenEtcd", Name: "data",
			UID: "etcd-uid", Controller: new(true)}}
		if err := w.client.Create(context.Background(), s); err != nil {
			w.t.Fatal(err)
		}
	}
	w.lookAgain()
}

// external is the etcd in the configuration of a machine.
func (w *world) external(name string) bootstrapv1.ExternalEtcd {
	w.t.Helper()
	config := &bootstrapv1.KubeadmConfig{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, config); err != nil {
		w.t.Fatal(err)
	}
	return config.Spec.ClusterConfiguration.Etcd.External
}

const twoEndpoints = "https://10.0.0.2:2379,https://10.0.0.1:2379"

// onEtcdAt is a world whose control plane of that many machines uses etcd at two endpoints.
func onEtcdAt(t *testing.T, replicas int32) *world {
	t.Helper()
	w := newWorld(t, testCluster(), onEtcd(replicas), crd("givenetcds.etcd.example"))
	w.etcdSays(map[string]any{"ready": true, "endpoints": twoEndpoints})
	w.giveEtcdCertificates()
	w.settle()
	w.init = true
	for _, name := range []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"}[:replicas] {
		w.join(name)
		w.members = nil // they run nowhere that this control plane would know
		w.settle()
	}
	if p := w.settle(); p.Step != string(plan.Nothing) || len(w.machineNames()) != int(replicas) {
		t.Fatalf("not at rest: %+v", p)
	}
	return w
}

// TestWaitsForEtcd: no machine is made before etcd can be used, and the message says what is waited for, in the provider's own words.
func TestWaitsForEtcd(t *testing.T) {
	w := newWorld(t, testCluster(), onEtcd(1), crd("givenetcds.etcd.example"))
	for _, row := range []struct {
		status map[string]any
		want   string
	}{
		{nil, "spec.managedExternalEtcdRef: GivenEtcd data does not exist"},
		{map[string]any{}, "spec.managedExternalEtcdRef: GivenEtcd data is not ready: status.ready is not true"},
		{map[string]any{"ready": false, "endpoints": twoEndpoints, "plan": map[string]any{"message": "1 of 3 machines are there"}},
			"GivenEtcd data is not ready: 1 of 3 machines are there"},
		{map[string]any{"ready": "true", "endpoints": twoEndpoints}, "GivenEtcd data is not ready"},
		{map[string]any{"ready": true}, "GivenEtcd data names no endpoints in status.endpoints"},
		{map[string]any{"ready": true, "endpoints": " , "}, "GivenEtcd data names no endpoints in status.endpoints"},
		{map[string]any{"ready": true, "endpoints": strings.Repeat("https://10.0.0.1:2379,", 51)},
			"GivenEtcd data names 51 endpoints in status.endpoints: at most 50 can be used"},
	} {
		if row.status != nil {
			w.etcdSays(row.status)
		}
		if p := w.settle(); p.Reason != "EtcdNotReady" || !strings.Contains(p.Message, row.want) || len(w.machineNames()) > 0 {
			t.Errorf("%v: told is %+v, want %q", row.status, p, row.want)
		}
	}
	w.etcdSays(map[string]any{"ready": true, "endpoints": twoEndpoints})
	if p := w.settle(); p.Reason != "GivenCertificatesMissing" || !strings.Contains(p.Message, "apiserver-etcd-client") ||
		len(w.machineNames()) > 0 {
		t.Errorf("without certificates: %+v", p)
	}
	w.giveEtcdCertificates()
	w.settle()
	want := bootstrapv1.ExternalEtcd{Endpoints: []string{"https://10.0.0.1:2379", "https://10.0.0.2:2379"},
		CAFile: "/etc/kubernetes/pki/etcd/ca.crt", CertFile: "/etc/kubernetes/pki/apiserver-etcd-client.crt",
		KeyFile: "/etc/kubernetes/pki/apiserver-etcd-client.key"}
	if got := w.external("demo-cp-1"); !slices.Equal(got.Endpoints, want.Endpoints) || got.CAFile != want.CAFile ||
		got.CertFile != want.CertFile || got.KeyFile != want.KeyFile {
		t.Errorf("its etcd is %+v", got)
	}
	if s := w.secret("demo-etcd"); len(s.Data["tls.key"]) > 0 || metav1.GetControllerOf(s).Kind != "GivenEtcd" {
		t.Errorf("the provider's secret became %v's", s.OwnerReferences)
	}
	if kcp := w.kcp(); kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined() {
		t.Error("the endpoints were written into the user's spec")
	}
	if spec := New().Spec(onEtcd(1)); spec.HoldsQuorum || spec.Etcd == plan.EtcdOurs || slices.Contains(spec.Components, "etcd") {
		t.Errorf("members are kept on the machines: %+v", spec)
	}
}

// TestEndpointsChange: others are rolled out, with one machine more at most; none is replaced for another order, nor while they
// are not known.
func TestEndpointsChange(t *testing.T) {
	w := onEtcdAt(t, 2)
	for _, status := range []map[string]any{
		{"ready": true, "endpoints": "https://10.0.0.1:2379,https://10.0.0.2:2379"},
		{"ready": true, "endpoints": " https://10.0.0.2:2379, https://10.0.0.1:2379 "},
		{"ready": true},
		{"ready": false},
		nil,
	} {
		w.etcdSays(status)
		w.settle()
		if got := w.machineNames(); len(got) != 2 || told(w.kcp().Status.Conditions, "MachinesUpToDate") != "True UpToDate" {
			t.Errorf("%v: machines are %v, %s", status, got, told(w.kcp().Status.Conditions, "MachinesUpToDate"))
		}
	}
	w.etcdSays(map[string]any{"ready": true, "endpoints": "https://172.30.0.10:2379"})
	w.settle()
	if got := w.machineNames(); len(got) != 3 || !slices.Equal(w.external(got[2]).Endpoints, []string{"https://172.30.0.10:2379"}) {
		t.Fatalf("machines are %v", got)
	}
	if got := told(w.kcp().Status.Conditions, "MachinesUpToDate"); !strings.Contains(got, "endpoints") {
		t.Errorf("told is %q", got)
	}
}

// TestEtcdGoesFirst: of two rollouts that are asked for at once that of etcd goes first, unless it does not go on by itself.
func TestEtcdGoesFirst(t *testing.T) {
	rolling := []any{map[string]any{"type": "RollingOut", "status": "True", "message": "2 of 3 machines are not up to date:\n* " +
		"demo-etcd-1: version"}}
	status := func(change map[string]any) map[string]any {
		s := map[string]any{"ready": true, "endpoints": twoEndpoints, "conditions": rolling, "plan": map[string]any{"rule": "roll out"}}
		maps.Copy(s, change)
		return s
	}
	for _, row := range []struct {
		name   string
		status map[string]any
		waits  string
	}{
		{"it rolls out", status(nil), "GivenEtcd data replaces its machines first: 2 of 3 machines are not up to date"},
		{"it has not seen its spec", status(map[string]any{"conditions": nil, "observedGeneration": int64(0)}),
			"GivenEtcd data has not seen its newest spec: it goes first"},
		{"it waits for the control plane", status(map[string]any{"plan": map[string]any{"rule": "refuse", "reason": "EndpointsNotFollowed"}}),
			""},
		{"a person holds it", status(map[string]any{"plan": map[string]any{"rule": "hold"}}), ""},
		{"it rests", status(map[string]any{"conditions": []any{map[string]any{"type": "RollingOut", "status": "False"}},
			"observedGeneration": int64(1)}), ""},
		{"it tells nothing of it", map[string]any{"ready": true, "endpoints": twoEndpoints}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := onEtcdAt(t, 1)
			w.etcdSays(row.status)
			w.etcdGeneration(1)
			kcp := w.kcp()
			kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands = []string{"true"}
			kcp.Generation++
			if err := w.client.Update(context.Background(), kcp); err != nil {
				t.Fatal(err)
			}
			p := w.settle()
			if waits := p.Reason == "EtcdRollingOut"; waits != (row.waits != "") || !strings.Contains(p.Message, row.waits) {
				t.Errorf("told is %+v, want %q", p, row.waits)
			}
			if n := len(w.machineNames()); (n > 1) == (row.waits != "") {
				t.Errorf("%d machines", n)
			}
		})
	}
	for _, name := range []string{"hold", "refuse"} {
		if !slices.ContainsFunc(plan.Rules(), func(r plan.Rule) bool { return r.Name == name }) {
			t.Errorf("no rule is called %q any more", name)
		}
	}
}

// TestEtcdReadInEachTurn: what etcd said before is not believed.
func TestEtcdReadInEachTurn(t *testing.T) {
	w := onEtcdAt(t, 1)
	m := &w.r.Memories.Of(kcpKey).ManagedEtcd
	m.Endpoints = []string{"before"}
	w.turn()
	if m.Endpoints[0] == "before" {
		t.Error("what it said before is believed")
	}
}

// TestEtcdUnreadable: a kind that is not installed is a wait that names the field and the kind.
func TestEtcdUnreadable(t *testing.T) {
	w := newWorld(t, testCluster(), onEtcd(1))
	p := w.settle()
	if p.Reason != "EtcdNotReady" || !strings.Contains(p.Message, "spec.managedExternalEtcdRef") ||
		!strings.Contains(p.Message, `there is no CustomResourceDefinition`) {
		t.Errorf("%+v", p)
	}
}

// TestEtcdNamedByCluster: a reference without a name, as templates have it, is that of the control plane's Cluster.
func TestEtcdNamedByCluster(t *testing.T) {
	kcp := onEtcd(1)
	kcp.Spec.ManagedExternalEtcdRef.Name = ""
	w := newWorld(t, testCluster(), kcp, crd("givenetcds.etcd.example"))
	if p := w.settle(); p.Reason != "EtcdNotReady" || !strings.Contains(p.Message, "GivenEtcd demo-etcd does not exist") {
		t.Errorf("told is %+v", p)
	}
}

// TestUsersSpecStays: what is made of a control plane is a copy of it.
func TestUsersSpecStays(t *testing.T) {
	kcp := onEtcd(1)
	made := withEtcd(kcp, []string{"https://etcd.example:2379"})
	if kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined() ||
		!made.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined() {
		t.Error("the endpoints were written into the user's spec, or nowhere")
	}
	if plain := testKCP(1); withEtcd(plain, []string{"https://etcd.example:2379"}) != plain {
		t.Error("a control plane with etcd on its machines became another")
	}
}

// TestEtcdOfAnotherCluster: a control plane uses only the etcd of its own Cluster, however ready another one is.
func TestEtcdOfAnotherCluster(t *testing.T) {
	w := newWorld(t, testCluster(), onEtcd(1), crd("givenetcds.etcd.example"))
	w.etcdSays(map[string]any{"ready": true, "endpoints": "https://10.0.0.1:2379"})
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "etcd.example/v1alpha1", "kind": "GivenEtcd",
		"metadata": map[string]any{"namespace": "default", "name": "data"}}}
	w.giveEtcdCertificates()
	for about, change := range map[string]func(){
		"label": func() { o.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "another"}) },
		"owner": func() {
			o.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "demo"})
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "another", UID: "x"}})
		},
	} {
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		o.SetOwnerReferences(nil)
		change()
		if err := w.client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.lookAgain()
		if p := w.settle(); p.Reason != "EtcdNotReady" || !strings.Contains(p.Message, "belongs to Cluster another") {
			t.Errorf("%s: %+v", about, p)
		}
	}
}
