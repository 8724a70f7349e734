package etcdcluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/group/observe"
)

// offer lets the infrastructure offer an endpoint for etcd; empty: none.
func (w *world) offer(host string) {
	w.t.Helper()
	infrastructure := &infrav1.LocalCluster{}
	w.get("demo", infrastructure)
	infrastructure.Status.EtcdEndpoint = infrav1.APIEndpoint{}
	if host != "" {
		infrastructure.Status.EtcdEndpoint = infrav1.APIEndpoint{Host: host, Port: 2379}
	}
	w.updateStatus(infrastructure)
	w.restart() // what was read is kept for a while
}

// TestStatus: each field says what it is documented to say.
func TestStatus(t *testing.T) {
	w := newWorld(t, testEtcd(3))
	w.lagging["demo-etcd-2"] = true
	w.settle()
	status := w.etcd().Status
	if ptr.Deref(status.Ready, false) || status.Endpoints != "" {
		t.Errorf("one of three votes, ready is %v, and a control plane would be made for %q", status.Ready, status.Endpoints)
	}
	if status.Members != "https://10.0.0.1:2379" || status.InitMachineAddress != "10.0.0.1" || !ptr.Deref(status.Initialized, false) ||
		*status.ReadyReplicas != 1 {
		t.Errorf("one of three votes, and the status is %+v", status)
	}
	w.lagging = map[string]bool{}
	w.rest()
	status = w.etcd().Status
	all := "https://10.0.0.1:2379,https://10.0.0.2:2379,https://10.0.0.3:2379"
	if !ptr.Deref(status.Ready, false) || status.Endpoints != all || status.Members != all {
		t.Errorf("ready is %v, endpoints %q, members %q", status.Ready, status.Endpoints, status.Members)
	}
	if *status.Replicas != 3 || *status.ReadyReplicas != 3 || *status.AvailableReplicas != 3 || *status.UpToDateReplicas != 3 ||
		status.ObservedGeneration != 1 {
		t.Errorf("counted are %+v", status)
	}
	if status.Selector != v1alpha1.MachineLabel+"=demo-etcd" || status.Version != "v3.6.16" {
		t.Errorf("selector %q, version %q", status.Selector, status.Version)
	}
	if !conditions.IsTrue(w.etcd(), "Available") {
		t.Errorf("Available is %+v", conditions.Get(w.etcd(), "Available"))
	}
	if w.most != 3 {
		t.Errorf("there were %d machines for three", w.most)
	}
}

// TestReadyStays: a control plane that uses etcd is not told that it cannot, while members come and go.
func TestReadyStays(t *testing.T) {
	w := grown(t, 3)
	w.silence("demo-etcd-1")
	w.settle()
	status := w.etcd().Status
	if !ptr.Deref(status.Ready, false) || *status.ReadyReplicas != 2 || status.Endpoints != w.told[0] ||
		status.Members != "https://10.0.0.2:2379,https://10.0.0.3:2379" {
		t.Errorf("one of three is silent, and the status is %+v", status)
	}
	w.silence("demo-etcd-2")
	w.silence("demo-etcd-3")
	w.settle()
	if got := w.etcd().Status; !ptr.Deref(got.Ready, false) || got.Endpoints != w.told[0] || got.Members != status.Members ||
		!ptr.Deref(got.Initialized, false) {
		t.Errorf("nobody answers, and the status is %+v", got)
	}
}

// TestUnsureSurvey: what is not known to be so is not told.
func TestUnsureSurvey(t *testing.T) {
	w := grown(t, 3)
	before := w.etcd().Status
	w.silence("demo-etcd-3")
	w.unsure = true
	w.settle()
	if got := w.etcd().Status; got.Members != before.Members || got.Endpoints != before.Endpoints || !ptr.Deref(got.Ready, false) {
		t.Errorf("the status is %+v", got)
	}
}

// TestLastMemberLeaves: the only member's machine is deleted by hand, and what was told of it stays.
func TestLastMemberLeaves(t *testing.T) {
	w := grown(t, 1)
	m := w.machines()[0]
	w.remove(&m)
	for range 3 {
		w.core()
		if err := w.turn(); err != nil {
			t.Fatal(err)
		}
		if got := w.etcd().Status; got.Members != "https://10.0.0.1:2379" || got.Endpoints != got.Members || !ptr.Deref(got.Ready, false) {
			t.Fatalf("the status is %+v", got)
		}
	}
}

// TestLeavingMember: nobody joins through a member whose machine is being deleted, although it still votes.
func TestLeavingMember(t *testing.T) {
	w := grown(t, 3)
	m := w.machines()[2]
	w.remove(&m)
	for range 3 { // it is not drained yet
		if err := w.turn(); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.etcd().Status.Members; got != "https://10.0.0.1:2379,https://10.0.0.2:2379" || w.voters() != "demo-etcd-1 demo-etcd-2 "+
		"demo-etcd-3" {
		t.Errorf("members are %s, voters %s", got, w.voters())
	}
}

// TestInitMachineAddressAgain: after it was lost it is that of the oldest machine whose member votes.
func TestInitMachineAddressAgain(t *testing.T) {
	w := grown(t, 3)
	w.silence("demo-etcd-1")
	w.members = w.members[1:]
	w.lagging["all"] = true
	e := w.etcd()
	e.Status.InitMachineAddress = ""
	w.updateStatus(e)
	if w.settle(); w.etcd().Status.InitMachineAddress != "10.0.0.2" {
		t.Errorf("it is %q", w.etcd().Status.InitMachineAddress)
	}
}

// TestStaticEndpointAtOnce: it is handed over before there is rest, and a control plane waits nevertheless.
func TestStaticEndpointAtOnce(t *testing.T) {
	w := newWorld(t, testEtcd(3))
	w.lagging["demo-etcd-2"] = true
	w.settle()
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Endpoint = "etcd.example" })
	w.settle()
	if got := w.etcd().Status; got.Endpoints != "https://etcd.example:2379" || ptr.Deref(got.Ready, false) {
		t.Errorf("one of three votes: endpoints %q, ready %v", got.Endpoints, got.Ready)
	}
}

// TestInitMachineAddress: it is the first member's, not that of a machine that never became one.
func TestInitMachineAddress(t *testing.T) {
	w := newWorld(t, testEtcd(1))
	w.lagging["all"] = true
	w.settle()
	e := w.etcd()
	first := w.machines()[0]
	if e.Status.InitMachineAddress != "" || e.Status.Initialized != nil || e.Status.Ready != nil {
		t.Fatalf("nobody votes, and the status is %+v", e.Status)
	}
	w.remove(&first)
	w.settle()
	w.lagging = map[string]bool{}
	w.rest()
	if got := w.etcd().Status.InitMachineAddress; got != "10.0.0.2" {
		t.Errorf("the first member's address is %q, machines are %s", got, w.names())
	}
}

// TestEndpointsAtRest: in the middle of a rollout a control plane is told of no addresses, however long that takes.
func TestEndpointsAtRest(t *testing.T) {
	w := grown(t, 3)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.15" })
	for len(strings.Fields(w.voters())) < 4 {
		w.around()
	}
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.8.0" })
	if p := w.settle(); p.Reason != "InvalidVersionChange" || len(strings.Fields(w.voters())) != 4 {
		t.Fatalf("told is %+v, voters are %s", p, w.voters())
	}
	if len(w.told) != 1 {
		t.Errorf("four of three machines are there, and told was %v", w.told)
	}
	w = grown(t, 3)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.15" })
	for len(w.gone) == 0 {
		w.around()
	}
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.InfrastructureTemplate.Name = "nowhere" })
	if p := w.settle(); p.Step != string(plan.Wait) || len(w.machines()) != 3 {
		t.Fatalf("told is %+v, machines are %s", p, w.names())
	}
	if len(w.told) != 1 {
		t.Errorf("one of three is replaced, the next cannot be, and told was %v", w.told)
	}
}

// TestStaticEndpoint: where there is one, members come and go without a word to the control plane.
func TestStaticEndpoint(t *testing.T) {
	for _, test := range []struct{ name, given, offered, want string }{
		{"the user's name", "etcd.example", "", "https://etcd.example:2379"},
		{"the user's name and port", "etcd.example:8443", "", "https://etcd.example:8443"},
		{"the user's address", "fd00::1", "", "https://[fd00::1]:2379"},
		{"the user's address in brackets alone", "[fd00::1]", "", "https://[fd00::1]:2379"},
		{"the user's address in brackets", "[fd00::1]:99", "", "https://[fd00::1]:99"},
		{"the infrastructure's", "", "172.30.0.10", "https://172.30.0.10:2379"},
		{"the user's before the infrastructure's", "etcd.example", "172.30.0.10", "https://etcd.example:2379"},
	} {
		e := testEtcd(1)
		e.Spec.Endpoint = test.given
		w := newWorld(t, e)
		w.offer(test.offered)
		w.rest()
		w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas, e.Spec.Version = ptr.To(int32(3)), "3.6.15" })
		w.rest()
		if len(w.told) != 1 || w.told[0] != test.want || w.etcd().Status.Members == test.want {
			t.Errorf("%s: told was %v, members are %s", test.name, w.told, w.etcd().Status.Members)
		}
	}
}

// TestEndpointOffered: from addresses to a static endpoint and back, by a change of the infrastructure.
func TestEndpointOffered(t *testing.T) {
	w := grown(t, 1)
	w.offer("172.30.0.10")
	w.rest()
	w.offer("")
	w.rest()
	if got := strings.Join(w.told, " "); got != "https://10.0.0.1:2379 https://172.30.0.10:2379 https://10.0.0.1:2379" {
		t.Errorf("told was %s", got)
	}
}

// TestOfferedPort: the infrastructure's balancer may listen elsewhere than the members do.
func TestOfferedPort(t *testing.T) {
	w := newWorld(t, testEtcd(1))
	infrastructure := &infrav1.LocalCluster{}
	w.get("demo", infrastructure)
	infrastructure.Status.EtcdEndpoint = infrav1.APIEndpoint{Host: "fd00::10", Port: 8443}
	w.updateStatus(infrastructure)
	w.rest()
	if got := w.etcd().Status.Endpoints; got != "https://[fd00::10]:8443" {
		t.Errorf("endpoints are %q", got)
	}
}

// TestEndpointAfterMove: what the infrastructure offers is not lost with its status, which comes back before it is provisioned again.
func TestEndpointAfterMove(t *testing.T) {
	w := newWorld(t, testEtcd(1))
	w.offer("172.30.0.10")
	w.rest()
	cluster := testCluster()
	w.get("demo", cluster)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(false)
	w.updateStatus(cluster)
	w.offer("")
	w.settle()
	w.get("demo", cluster)
	w.remove(&infrav1.LocalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}})
	e := w.etcd()
	e.Status = v1alpha1.EtcdClusterStatus{}
	w.updateStatus(e)
	w.restart()
	if w.settle(); ptr.Deref(w.etcd().Status.Ready, false) || w.etcd().Status.Endpoints != "" {
		t.Errorf("where etcd is reached is not known yet, and the status is %+v", w.etcd().Status)
	}
	again := &infrav1.LocalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	w.create(again)
	infrastructure := &infrav1.LocalCluster{}
	w.get("demo", infrastructure)
	infrastructure.Status.EtcdEndpoint = infrav1.APIEndpoint{Host: "172.30.0.10", Port: 2379}
	w.updateStatus(infrastructure)
	w.get("demo", cluster)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	w.updateStatus(cluster)
	w.rest()
	if len(w.told) != 1 {
		t.Errorf("told was %v", w.told)
	}
}

// TestLostStatus: that a cluster was begun is not forgotten, and no other is.
func TestLostStatus(t *testing.T) {
	w := grown(t, 3)
	for _, answer := range []bool{false, true} {
		e := w.etcd()
		e.Status = v1alpha1.EtcdClusterStatus{}
		w.updateStatus(e)
		w.restart()
		kept := w.members
		if !answer {
			w.members = nil
			w.lagging["all"] = true
		}
		p := w.settle()
		if !ptr.Deref(w.etcd().Status.Initialized, false) || w.names() != "demo-etcd-1 demo-etcd-2 demo-etcd-3" {
			t.Errorf("answers are %t: told is %+v, initialized %v, machines %s", answer, p, w.etcd().Status.Initialized, w.names())
		}
		w.members = kept
	}
	if got := w.etcd().Status; !ptr.Deref(got.Ready, false) || got.Endpoints != w.told[0] {
		t.Errorf("the status came back as %+v", got)
	}
	if _, has := w.etcd().Annotations[v1beta2.InitializedAnnotation]; !has {
		t.Error("no annotation outlives a move")
	}
}

// TestObserveOnce: the command line sees what the rules look at, also what is refused, and needs no managed cluster for it.
func TestObserveOnce(t *testing.T) {
	w := grown(t, 3)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.8.0" })
	o, err := observe.Once(t.Context(), w.client, New(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Machines) != 3 || !o.Policy.EtcdOnly || !o.Cluster.Reachable || o.Want.Refused.Reason != "InvalidVersionChange" {
		t.Errorf("observed are %+v, %+v, refused is %+v", o.Machines, o.Cluster, o.Want.Refused)
	}
	if o.Etcd.Known || !strings.Contains(o.Etcd.Why, "making credentials for the etcd of cluster demo") {
		t.Errorf("there is no authority, and etcd is %+v", o.Etcd)
	}
	if err := certs.GenerateManagedEtcd(t.Context(), w.client, testCluster(), metav1.OwnerReference{Name: key.Name}); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.machines() {
		m.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "127.0.0.77"}} // nobody listens
		w.updateStatus(&m)
	}
	if o, err = observe.Once(t.Context(), w.client, New(), key); err != nil || o.Etcd.Known || !strings.Contains(o.Etcd.Why, "demo-etcd-1") {
		t.Errorf("nobody answers, and etcd is %+v, %v", o.Etcd, err)
	}
}

// TestVersions: which versions can take the place of which.
func TestVersions(t *testing.T) {
	for _, test := range []struct{ want, has, refusal string }{
		{"v3.6.16", "", ""},
		{"v3.6.16", "v3.6.16", ""},
		{"v3.6.10", "v3.6.16", ""},
		{"v3.5.35", "v3.5.9 v3.5.35", ""},
		{"v3.6.16", "v3.5.26 v3.5.26 v3.5.35", ""},
		{"v3.6.16", "v3.5.26 v3.6.16", ""},
		{"v3.5.35", "v3.4.30", ""},
		{"v3.6.16", "v3.5.25", "v3.6.16 must be v3.5.26 or later of 3.5 first: a member has v3.5.25, and 3.6 treats voters of that version as " +
			"learners"},
		{"v3.6.16", "v3.5.25 v3.6.16", "must be v3.5.26 or later of 3.5 first"},
		{"v3.6.16", "v3.4.30", "v3.6.16 must be v3.5: a member has v3.4.30, and etcd changes by one minor version at a time"},
		{"v3.7.0", "v3.5.35 v3.6.16", "must be v3.6: a member has v3.5.35, and etcd changes by one minor version at a time"},
		{"v3.5.35", "v3.6.16", ""},
		{"v3.5.26", "v3.5.35 v3.6.16", ""},
		{"v3.5.25", "v3.6.16",
			"v3.5.25 must be v3.5.26 or later of 3.5: a member has v3.6.16, and 3.6 treats voters of that version as learners"},
		{"v3.5.25", "v3.5.26", ""},
		{"v3.6.25", "v3.7.0", ""},
		{"v3.4.30", "v3.5.35", "v3.4.30 must be a version of etcd from v3.5 on"},
		{"v3.4.30", "", "v3.4.30 must be a version of etcd from v3.5 on"},
		{"v3.5.35", "v3.7.0", "v3.5.35 must be v3.6: a member has v3.7.0, and etcd changes by one minor version at a time"},
		{"v3.5.35", "v3.6.16 v3.7.0", "must be v3.6: a member has v3.7.0, and etcd changes by one minor version at a time"},
		{"v2.6.0", "v3.6.16", "must be a version of etcd from v3.5 on"},
		{"v4.0.0", "v3.6.16", "one minor version at a time"},
		{"nonsense", "v3.6.16", "nonsense"},
	} {
		if got := leap(test.want, parsed(t, test.has)); (got == "") != (test.refusal == "") || !strings.Contains(got, test.refusal) {
			t.Errorf("%s for %q: %q, want %q", test.want, test.has, got, test.refusal)
		}
	}
}

// TestRefusedVersion: nothing is begun for it, and who breaks meanwhile gets a member of a version that there is.
func TestRefusedVersion(t *testing.T) {
	e := testEtcd(3)
	e.Spec.Version = "3.5.26"
	w := newWorld(t, e)
	w.rest()
	w.told = w.told[len(w.told)-1:]
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.7.0" })
	p := w.settle()
	if p.Reason != "InvalidVersionChange" || !strings.HasPrefix(p.Message, "spec.version: v3.7.0 must be v3.6: a member has v3.5.26") ||
		w.most != 3 {
		t.Fatalf("told is %+v, machines are %s", p, w.names())
	}
	w.silence("demo-etcd-2")
	m := &clusterv1.Machine{}
	w.get("demo-etcd-2", m)
	mark(m)
	w.updateStatus(m)
	w.settle()
	if got := w.config("demo-etcd-4").Spec.Version; got != "v3.5.26" || w.voters() != "demo-etcd-1 demo-etcd-3 demo-etcd-4" {
		t.Errorf("voters are %s, the replacement has %s", w.voters(), got)
	}
	if len(w.told) != 2 || !strings.Contains(w.told[1], "10.0.0.4") {
		t.Errorf("a member was replaced for good, and told was %v", w.told)
	}
}

// parsed are versions, written with spaces between them.
func parsed(t *testing.T, text string) []version.Version {
	t.Helper()
	var all []version.Version
	for _, one := range strings.Fields(text) {
		v, err := version.Parse(one)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// config reads the configuration of a machine.
func (w *world) config(name string) *bootstrapv1alpha1.EtcdadmConfig {
	w.t.Helper()
	config := &bootstrapv1alpha1.EtcdadmConfig{}
	w.get(name, config)
	return config
}

// TestPublish: what control planes read is there again soon after it is lost, and read rarely.
func TestPublish(t *testing.T) {
	w := grown(t, 1)
	secrets := []string{"demo-etcd", "demo-apiserver-etcd-client"}
	for _, name := range secrets {
		if !w.isGone(name, &corev1.Secret{}) {
			t.Fatalf("without an authority there is %s", name)
		}
	}
	if err := certs.GenerateManagedEtcd(t.Context(), w.client, testCluster(), metav1.OwnerReference{APIVersion: "v1", Kind: "EtcdCluster",
		Name: "demo-etcd", UID: "etcd-uid"}); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.rest()
	for _, name := range secrets {
		s := &corev1.Secret{}
		if w.get(name, s); !metav1.IsControlledBy(s, w.etcd()) {
			t.Errorf("secret %s is owned by %v", name, s.OwnerReferences)
		}
		w.remove(s)
	}
	w.rest()
	if !w.isGone("demo-etcd", &corev1.Secret{}) {
		t.Error("secrets are read at each turn")
	}
	memoryOf(w.c.Memories.Of(key)).published.Time = time.Now().Add(-observe.SlowTime)
	w.rest()
	for _, name := range secrets {
		w.get(name, &corev1.Secret{})
	}
	// A flaw of the authority is told as an error of its secret.
	authority := &corev1.Secret{}
	w.get("demo-managed-etcd", authority)
	authority.Data["tls.key"] = []byte("none")
	w.update(authority)
	w.restart()
	w.core()
	if err := w.turn(); err == nil || !strings.Contains(err.Error(), "demo-managed-etcd") {
		t.Errorf("the error is %v", err)
	}
}

// TestUnpublishedBefore: nothing is published before there is a member.
func TestUnpublishedBefore(t *testing.T) {
	w := newWorld(t, testEtcd(1))
	if err := certs.GenerateManagedEtcd(t.Context(), w.client, testCluster(), metav1.OwnerReference{APIVersion: "v1", Kind: "EtcdCluster",
		Name: "demo-etcd", UID: "etcd-uid"}); err != nil {
		t.Fatal(err)
	}
	w.lagging["all"] = true
	if w.settle(); !w.isGone("demo-etcd", &corev1.Secret{}) {
		t.Error("a control plane finds an etcd that is not there yet")
	}
}

// TestInfrastructureReadInEachTurn: what the infrastructure offered before is not believed.
func TestInfrastructureReadInEachTurn(t *testing.T) {
	w := grown(t, 1)
	m := memoryOf(w.c.Memories.Of(key))
	m.endpoint = "before"
	w.around()
	if m.endpoint != "" {
		t.Errorf("%q is believed", m.endpoint)
	}
}

// TestSpec: what the spec says of all groups is taken from the fields that the user knows.
func TestSpec(t *testing.T) {
	e := testEtcd(3)
	got := New().Spec(e)
	if !got.Policy.EtcdOnly || !got.Policy.Learners || got.Policy.Surge != 1 || got.Policy.MaxReplacements != 0 ||
		got.Policy.MaxParallel != 0 || got.Policy.Overlap || got.Policy.Repair.Most != -1 || got.Etcd != plan.EtcdOurs || !got.HoldsQuorum ||
		got.Domains != nil {
		t.Errorf("by default it is %+v", got)
	}
	e.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
	e.Spec.Joins.MaxParallel, e.Spec.Joins.Overlap = ptr.To(int32(1)), ptr.To(true)
	e.Spec.Joins.TimeoutSeconds = ptr.To(int32(7200))
	e.Spec.Remediation.MaxRetry = ptr.To(int32(2))
	e.Spec.FailureDomains = []string{"a", "b"}
	e.Spec.Approval.MaxReplacementsPerDay = ptr.To(int32(3))
	e.Spec.MachineTemplate.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Mine"}}
	got = New().Spec(e)
	if got.Policy.Surge != 0 || got.Policy.MemberAdd != 2*time.Hour || got.Policy.MaxParallel != 1 || !got.Policy.Overlap ||
		got.Policy.MaxReplacements != 3 || got.Policy.Repair.Most != 2 || strings.Join(got.Domains, " ") != "a b" ||
		len(got.ReadinessGates) != 1 {
		t.Errorf("it is %+v", got)
	}
	e.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromString("0"))
	if got := New().Spec(e); got.Policy.Surge != 0 {
		t.Errorf("a surge of \"0\" became %d", got.Policy.Surge)
	}
}

// TestSecondEtcd: an EtcdCluster beside one that keeps the Cluster's etcd begins nothing, and says which; when that is gone, it begins.
func TestSecondEtcd(t *testing.T) {
	first := testEtcd(1)
	first.Name, first.UID, first.CreationTimestamp = "the-first", "first-uid", metav1.Unix(1, 0)
	first.Finalizers = nil
	w := newWorld(t, testEtcd(1), first)
	if p := w.settle(); p.Reason != "AnotherEtcdCluster" ||
		!strings.Contains(p.Message, "EtcdCluster the-first keeps the etcd of Cluster demo") || len(w.machines()) != 0 {
		t.Fatalf("%+v, machines %s", p, w.names())
	}
	if err := w.client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.rest()
	if len(w.machines()) != 1 {
		t.Errorf("machines %s", w.names())
	}
}

// TestDeletionOfSecondEtcd deletes an EtcdCluster that began nothing, while the machines of the Cluster use the etcd of another one.
func TestDeletionOfSecondEtcd(t *testing.T) {
	first := testEtcd(1)
	first.Name, first.UID, first.CreationTimestamp = "the-first", "first-uid", metav1.Unix(1, 0)
	w := newWorld(t, testEtcd(1), first, machineOf("demo", "cp-1", clusterv1.MachineControlPlaneLabel), machineOf("demo", "worker"))
	w.settle()
	w.remove(w.etcd())
	w.settle()
	if !w.isGone(key.Name, &v1alpha1.EtcdCluster{}) {
		t.Errorf("it is still there: %+v", w.etcd().Status.Plan)
	}
	if w.isGone("cp-1", &clusterv1.Machine{}) || w.isGone("worker", &clusterv1.Machine{}) {
		t.Error("machines of the Cluster are gone")
	}
}
