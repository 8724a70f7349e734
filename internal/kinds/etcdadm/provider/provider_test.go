package provider

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/bootstrap/v1beta1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// scene is a cluster with an EtcdCluster, and the machines that a test adds.
type scene struct {
	*testing.T
	client client.Client
	r      *Controller
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, clusterv1.AddToScheme, bootstrapv1alpha1.AddToScheme, etcdclusterv1alpha1.AddToScheme, backupv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "cluster-uid"}}
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	etcd := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd", UID: "etcd-uid"}}
	etcd.Spec.Endpoint = "etcd.example:2379"
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(cluster, etcd).
		WithStatusSubresource(&clusterv1.Cluster{}, &clusterv1.Machine{}, &etcdclusterv1alpha1.EtcdCluster{},
			&bootstrapv1alpha1.EtcdadmConfig{}).Build()
	return &scene{T: t, client: c, r: &Controller{Client: c, APIReader: c}}
}

// machine adds a Machine of the EtcdCluster and its configuration.
func (s *scene) machine(name string, spec bootstrapv1alpha1.EtcdadmConfigSpec) *bootstrapv1alpha1.EtcdadmConfig {
	s.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: etcdclusterv1alpha1.GroupVersion.String(), Kind: "EtcdCluster", Name: "demo-etcd",
			UID: "etcd-uid"}},
	}}
	m.Spec.ClusterName = "demo"
	s.create(m)
	c := &bootstrapv1alpha1.EtcdadmConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("config of " + name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: m.UID}},
	}, Spec: spec}
	s.create(c)
	return c
}

func (s *scene) create(o client.Object) {
	s.Helper()
	if err := s.client.Create(s.Context(), o); err != nil {
		s.Fatal(err)
	}
}

// turn reconciles a configuration twice, as the first turn may only write a condition, and returns it.
func (s *scene) turn(name string) *bootstrapv1alpha1.EtcdadmConfig {
	s.Helper()
	key := client.ObjectKey{Namespace: "default", Name: name}
	for range 2 {
		if _, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			s.Fatal(err)
		}
	}
	c := &bootstrapv1alpha1.EtcdadmConfig{}
	if err := s.client.Get(s.Context(), key, c); err != nil {
		s.Fatal(err)
	}
	return c
}

// waits checks what a configuration waits for.
func (s *scene) waits(name, reason, message string) {
	s.Helper()
	c := s.turn(name)
	got := conditions.Get(c, bootstrapv1alpha1.DataSecretAvailableCondition)
	if got == nil || got.Status != metav1.ConditionFalse || got.Reason != reason || !strings.Contains(got.Message, message) {
		s.Errorf("%s: %+v, want %s and %q", name, got, reason, message)
	}
	if c.Status.Initialization.DataSecretCreated != nil || c.Status.Ready != nil || conditions.IsTrue(c, clusterv1.ReadyCondition) {
		s.Errorf("%s has data: %+v", name, c.Status)
	}
}

// data returns the bootstrap data of a configuration, and tells the Machine of them as Cluster API does.
func (s *scene) data(name string) string {
	s.Helper()
	c := s.turn(name)
	if !ptr.Deref(c.Status.Initialization.DataSecretCreated, false) || !ptr.Deref(c.Status.Ready, false) || c.Status.DataSecretName != name ||
		!conditions.IsTrue(c, clusterv1.ReadyCondition) {
		s.Fatalf("%s has no data: %+v", name, c.Status)
	}
	secret := &corev1.Secret{}
	if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(c), secret); err != nil {
		s.Fatal(err)
	}
	if !metav1.IsControlledBy(secret, c) || secret.Type != clusterv1.ClusterSecretType ||
		secret.Labels[clusterv1.ClusterNameLabel] != "demo" || string(secret.Data["format"]) != "cloud-config" {
		s.Errorf("the secret is %+v", secret.ObjectMeta)
	}
	m := &clusterv1.Machine{}
	if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(c), m); err != nil {
		s.Fatal(err)
	}
	m.Spec.Bootstrap.DataSecretName = ptr.To(name)
	if err := s.client.Update(s.Context(), m); err != nil {
		s.Fatal(err)
	}
	return string(secret.Data["value"])
}

func (s *scene) etcd(change func(*etcdclusterv1alpha1.EtcdCluster)) {
	s.Helper()
	e := &etcdclusterv1alpha1.EtcdCluster{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: "default", Name: "demo-etcd"}, e); err != nil {
		s.Fatal(err)
	}
	change(e)
	status := e.DeepCopy()
	if err := s.client.Update(s.Context(), e); err != nil {
		s.Fatal(err)
	}
	e.Status = status.Status
	if err := s.client.Status().Update(s.Context(), e); err != nil {
		s.Fatal(err)
	}
}

func contains(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("there is no %q in\n%s", w, text)
		}
	}
}

// TestFirstAndOthers: one machine begins, whoever comes first; the others wait until there is a member, and join through those that the
// EtcdCluster names.
func TestFirstAndOthers(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"e-1", "e-2", "e-3"} {
		s.machine(name, bootstrapv1alpha1.EtcdadmConfigSpec{})
	}
	contains(t, s.data("e-1"), "ROLE='init'", "NAME='e-1'", "ENDPOINTS=''", "RSA PRIVATE KEY", "'--server-cert-extra-sans' 'etcd.example'")
	if got := s.turn("e-1").Annotations[bootstrapv1alpha1.ServerNamesAnnotation]; got != "etcd.example" {
		t.Errorf("recorded names are %q", got)
	}
	s.waits("e-2", bootstrapv1alpha1.WaitingForFirstMemberReason, "Machine e-1")
	for _, name := range []string{"demo-managed-etcd", "demo-etcd", "demo-apiserver-etcd-client"} {
		if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &corev1.Secret{}); err != nil {
			t.Error(err)
		}
	}
	s.etcd(func(e *etcdclusterv1alpha1.EtcdCluster) { e.Status.Initialized = ptr.To(true) })
	s.waits("e-2", bootstrapv1alpha1.WaitingForEndpointsReason, "names no member")
	s.etcd(func(e *etcdclusterv1alpha1.EtcdCluster) {
		e.Status.Endpoints, e.Status.Members = "https://lb:2379", "https://10.0.0.1:2379,https://10.0.0.2:2379"
	})
	contains(t, s.data("e-2"), "ROLE='join'", "ENDPOINTS='https://10.0.0.1:2379 https://10.0.0.2:2379'")
	contains(t, s.data("e-3"), "ROLE='join'")
	lock := &corev1.ConfigMap{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-etcd-etcd-lock"},
		lock); !apierrors.IsNotFound(err) {
		t.Errorf("the lock is left: %v", err)
	}
}

// TestNeverAgain: whatever still tells that there was a member, no other machine begins. Only a first machine that is gone without one
// lets the next begin.
func TestNeverAgain(t *testing.T) {
	for name, change := range map[string]func(*etcdclusterv1alpha1.EtcdCluster){
		"status": func(e *etcdclusterv1alpha1.EtcdCluster) { e.Status.Initialized = ptr.To(true) },
		"annotation": func(e *etcdclusterv1alpha1.EtcdCluster) {
			e.Annotations = map[string]string{controlplanev1.InitializedAnnotation: ""}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{})
			s.etcd(change)
			s.waits("e-1", bootstrapv1alpha1.WaitingForEndpointsReason, "")
		})
	}
	s := newScene(t)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{})
	s.machine("e-2", bootstrapv1alpha1.EtcdadmConfigSpec{})
	contains(t, s.data("e-1"), "ROLE='init'")
	lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd-etcd-lock"}}
	if err := s.client.Delete(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	s.waits("e-2", bootstrapv1alpha1.WaitingForFirstMemberReason, "Machine e-1")
	if err := s.client.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e-1"}}); err != nil {
		t.Fatal(err)
	}
	contains(t, s.data("e-2"), "ROLE='init'")

	s = newScene(t)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{})
	s.machine("e-2", bootstrapv1alpha1.EtcdadmConfigSpec{PreEtcdadmCommands: []string{"true"}})
	s.etcd(func(e *etcdclusterv1alpha1.EtcdCluster) { e.Spec.Endpoint = "not a name" })
	s.waits("e-1", bootstrapv1alpha1.SpecInvalidReason, "\"not a name\" is neither an address nor a DNS name")
	s.waits("e-2", bootstrapv1alpha1.WaitingForFirstMemberReason, "Machine e-1")
	if err := s.client.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e-1"}}); err != nil {
		t.Fatal(err)
	}
	s.etcd(func(e *etcdclusterv1alpha1.EtcdCluster) { e.Spec.Endpoint = "" })
	contains(t, s.data("e-2"), "ROLE='init'")
}

// TestObstacles: what the data wait for is said, and the authority of an etcd cluster that runs is never made anew.
func TestObstacles(t *testing.T) {
	s := newScene(t)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{EtcdadmArgs: map[string]string{"name": "x"}})
	s.waits("e-1", bootstrapv1alpha1.SpecInvalidReason, "spec.etcdadmArgs[name]")
	s = newScene(t)
	kept := s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{})
	kept.Annotations = map[string]string{v1beta1.KeptAnnotation: `{"format":"bottlerocket"}`}
	if err := s.client.Update(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	s.waits("e-1", bootstrapv1alpha1.SpecInvalidReason, "spec.format: Forbidden: Quorate makes etcd machines with cloud-init")
	from := bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "given", Key: "k"}}
	s = newScene(t)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{
		Files: []bootstrapv1.File{{Path: "/x", ContentFrom: from}},
		Users: []bootstrapv1.User{{Name: "anna", PasswdFrom: bootstrapv1.PasswdSource{Secret: bootstrapv1.SecretPasswdSource{Name: "given",
			Key: "k"}}}},
	})
	s.waits("e-1", bootstrapv1alpha1.SecretMissingReason, "spec.files[0] refers to key k of secret given")
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "given"},
		Data: map[string][]byte{"k": []byte("treasure")}})
	contains(t, s.data("e-1"), "content: treasure", "passwd: treasure")

	s = newScene(t)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{
		Files: []bootstrapv1.File{{Path: "/x", ContentFrom: from}},
		Users: []bootstrapv1.User{{Name: "anna",
			PasswdFrom: bootstrapv1.PasswdSource{Secret: bootstrapv1.SecretPasswdSource{Name: "word", Key: "k"}}}},
	})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "given"},
		Data: map[string][]byte{"k": []byte("caf\xe9")}})
	word := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "word"}, Data: map[string][]byte{"k": []byte("caf\xe9")}}
	s.create(word)
	s.waits("e-1", bootstrapv1alpha1.SpecInvalidReason,
		"spec.users[0]: key k of secret word must be the hash of a password, and is not UTF-8 text")
	word.Data["k"] = []byte("hash")
	if err := s.client.Update(t.Context(), word); err != nil {
		t.Fatal(err)
	}
	contains(t, s.data("e-1"), "content: Y2Fm6Q==", "encoding: base64", "passwd: hash")

	s = newScene(t)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{})
	s.etcd(func(e *etcdclusterv1alpha1.EtcdCluster) { e.Status.Members = "https://10.0.0.1:2379" })
	s.waits("e-1", bootstrapv1alpha1.AuthorityMissingReason, "restore it")
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-managed-etcd"},
		Data: map[string][]byte{"tls.crt": []byte("x")}})
	s.waits("e-1", bootstrapv1alpha1.AuthorityInvalidReason, "demo-managed-etcd")

	s = newScene(t)
	c := &bootstrapv1alpha1.EtcdadmConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "alone"}}
	s.create(c)
	s.waits("alone", bootstrapv1alpha1.WaitingForOwnerReason, "spec.bootstrap.configRef")
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{})
	cluster := &clusterv1.Cluster{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Status.Initialization.InfrastructureProvisioned = nil
	if err := s.client.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	s.waits("e-1", bootstrapv1alpha1.WaitingForClusterInfrastructureReason, "cluster demo")
	cluster.Spec.Paused = ptr.To(true)
	if err := s.client.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if got := s.turn("e-1"); !conditions.IsTrue(got, clusterv1.PausedCondition) {
		t.Errorf("a paused cluster: %+v", got.Status.Conditions)
	}
}

// TestAfterMove: the status is lost in a move, and the Machine still has its data, which are not written again.
func TestAfterMove(t *testing.T) {
	s := newScene(t)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{})
	before := s.data("e-1")
	c := s.turn("e-1")
	c.Status = bootstrapv1alpha1.EtcdadmConfigStatus{}
	if err := s.client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if after := s.data("e-1"); after != before {
		t.Error("the data were written anew")
	}
}

// TestKeysAreDropped: once a machine is a member its bootstrap data have no private key, and all else that they had, also
// after a restart of the controller and a move. Before, and of a machine that is not healthy yet, they keep them.
func TestKeysAreDropped(t *testing.T) {
	s := newScene(t)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{PreEtcdadmCommands: []string{"echo before"}})
	const key = "BEGIN RSA PRIVATE KEY"
	before := s.data("e-1")
	m := &clusterv1.Machine{}
	read := func() {
		t.Helper()
		if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "e-1"}, m); err != nil {
			t.Fatal(err)
		}
	}
	read()
	m.Spec.Bootstrap.ConfigRef.Name = "e-1"
	if err := s.client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	member := func(status metav1.ConditionStatus) {
		t.Helper()
		conditions.Set(m, metav1.Condition{Type: "EtcdMemberHealthy", Status: status, Reason: "Test"})
		if err := s.client.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	member(metav1.ConditionUnknown)
	if s.data("e-1") != before || strings.Count(before, key) != 2 {
		t.Fatalf("the data of a machine that is no member have changed, or never had the keys of the authority and of the client")
	}
	read()
	member(metav1.ConditionTrue)
	if got := s.r.waiting(t.Context(), m); len(got) != 1 {
		t.Errorf("a member brings about turns of %v", got)
	}
	after := s.data("e-1")
	// The script names the client's key too.
	if strings.Contains(after, "PRIVATE KEY") || strings.Contains(after, "path: /etc/etcd/pki/ca.key") ||
		strings.Contains(after, "path: /etc/etcd/pki/etcdctl-etcd-client.key") {
		t.Error("the data of a member have the key of the authority, or that of its client")
	}
	contains(t, after, "#cloud-config", "echo before", "/etc/etcd/pki/ca.crt", "ROLE='init'", "path: /etc/etcd/pki/etcdctl-etcd-client.crt")
	if got := s.r.waiting(t.Context(), m); len(got) != 0 {
		t.Errorf("a member without keys in its data brings about turns of %v", got)
	}
	s.r = &Controller{Client: s.client, APIReader: s.client}
	if s.data("e-1") != after {
		t.Error("after a restart the data were written again")
	}
}

// TestSecondEtcd: of two EtcdClusters for one Cluster the first one's machine begins, and no machine of the other, whatever its status
// lost.
func TestSecondEtcd(t *testing.T) {
	s := newScene(t)
	s.etcd(func(e *etcdclusterv1alpha1.EtcdCluster) {
		e.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
	})
	first := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "the-first", UID: "first-uid", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		CreationTimestamp: metav1.Unix(1, 0),
	}}
	s.etcd(func(e *etcdclusterv1alpha1.EtcdCluster) { e.CreationTimestamp = metav1.Unix(2, 0) })
	s.create(first)
	s.machine("e-1", bootstrapv1alpha1.EtcdadmConfigSpec{})
	s.waits("e-1", bootstrapv1alpha1.AnotherEtcdClusterReason, "EtcdCluster the-first keeps the etcd of Cluster demo")
	if err := s.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// It left a machine that may be a member.
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "old-1", UID: "old-1", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: etcdclusterv1alpha1.GroupVersion.String(), Kind: "EtcdCluster", Name: "the-first",
			UID: "first-uid"}},
	}}
	m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = "demo", ptr.To("old-1")
	s.create(m)
	s.waits("e-1", bootstrapv1alpha1.WaitingForFirstMemberReason, "Machine old-1")
	if err := s.client.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	contains(t, s.data("e-1"), "ROLE='init'")
}
