package etcdcluster

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// controlPlaneMachine makes a machine of the control plane that looks for etcd at endpoints, separated by commas, or lets one do so.
func (w *world) controlPlaneMachine(name, endpoints string) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Namespace: "default", Name: name, Labels: machine.Labels("demo")}
	m, config := &clusterv1.Machine{ObjectMeta: meta}, &bootstrapv1.KubeadmConfig{ObjectMeta: meta}
	m.Spec.ClusterName = "demo"
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig",
		Name: name}
	config.Spec.ClusterConfiguration.Etcd.External.Endpoints = strings.Split(endpoints, ",")
	w.create(m)
	w.create(config)
}

// follow replaces a machine of the control plane by another that looks for etcd where it is told to be.
func (w *world) follow(old, name string) {
	w.t.Helper()
	w.controlPlaneMachine(name, w.etcd().Status.Endpoints)
	w.remove(&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: old}})
}

const (
	first123 = "https://10.0.0.1:2379,https://10.0.0.2:2379,https://10.0.0.3:2379"
	then456  = "https://10.0.0.4:2379,https://10.0.0.5:2379,https://10.0.0.6:2379"
)

// TestLastKnownStays: a rollout replaces all but the last member that a machine of the control plane knows, hands over those that
// stay, and takes that one away when all have followed. There are never more than four machines, and the control plane follows once.
func TestLastKnownStays(t *testing.T) {
	w := grown(t, 3)
	w.controlPlaneMachine("demo-cp-1", first123)
	w.controlPlaneMachine("demo-cp-2", first123)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.15" })
	for _, waits := range []string{"demo-cp-1", "demo-cp-2"} {
		p := w.settle()
		if p.Reason != "EndpointsNotFollowed" || w.voters() != "demo-etcd-3 demo-etcd-4 demo-etcd-5 demo-etcd-6" &&
			w.voters() != "demo-etcd-1 demo-etcd-4 demo-etcd-5 demo-etcd-6" {
			t.Fatalf("told is %+v, voters are %s", p, w.voters())
		}
		if !strings.Contains(p.Message, "machine "+waits+" of the control plane looks for etcd at https://10.0.0.1:2379, ") ||
			!strings.Contains(p.Message, "is left") {
			t.Errorf("told is %s, and it waits for %s", p.Message, waits)
		}
		if got := w.etcd().Status; got.Endpoints != then456 || !ptr.Deref(got.Ready, false) {
			t.Errorf("handed over is %q, ready is %v", got.Endpoints, got.Ready)
		}
		w.follow(waits, waits+"-again")
	}
	w.rest()
	if w.voters() != "demo-etcd-4 demo-etcd-5 demo-etcd-6" || strings.Join(w.told, " ") != first123+" "+then456 {
		t.Errorf("voters are %s, told was %v", w.voters(), w.told)
	}
}

// TestRolloutTakenBack: the last known member is wanted again, and those that were to take its place go, without a word of the control
// plane.
func TestRolloutTakenBack(t *testing.T) {
	w := grown(t, 3)
	w.controlPlaneMachine("demo-cp-1", first123)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.15" })
	if p := w.settle(); p.Reason != "EndpointsNotFollowed" {
		t.Fatalf("told is %+v", p)
	}
	kept := strings.Fields(w.voters())[0]
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.16" })
	w.rest()
	if !strings.Contains(w.voters(), kept) || len(w.members) != 3 || strings.Contains(w.voters(), "demo-etcd-4") {
		t.Errorf("kept was %s, voters are %s", kept, w.voters())
	}
}

// TestNobodyHeld: members that no machine of the control plane looks for by their own address, or that are not the last, go.
func TestNobodyHeld(t *testing.T) {
	for _, test := range []struct{ name, endpoints string }{
		{"the user's endpoint", "https://etcd.example:2379"},
		{"an endpoint that is gone", "https://old.example:2379"},
	} {
		e := testEtcd(3)
		e.Spec.Endpoint = "etcd.example"
		w := newWorld(t, e)
		w.rest()
		w.controlPlaneMachine("demo-cp-1", test.endpoints)
		w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.15" })
		w.rest()
		if w.voters() != "demo-etcd-4 demo-etcd-5 demo-etcd-6" {
			t.Errorf("%s: voters are %s", test.name, w.voters())
		}
	}
	w := grown(t, 3)
	w.controlPlaneMachine("demo-cp-1", first123)
	for _, to := range []int32{5, 3} {
		w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = &to })
		w.rest()
	}
}

// TestScaledBeforeFollowed: a member that is one of too many and the only one that the control plane knows stays until that knows others.
func TestScaledBeforeFollowed(t *testing.T) {
	w := grown(t, 1)
	w.controlPlaneMachine("demo-cp-1", "https://10.0.0.1:2379")
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = ptr.To(int32(3)) })
	w.rest()
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = ptr.To(int32(1)) })
	if p := w.settle(); p.Reason != "EndpointsNotFollowed" || len(w.members) != 3 || w.etcd().Status.Endpoints != first123 {
		t.Fatalf("told is %+v, voters are %s, handed over is %s", p, w.voters(), w.etcd().Status.Endpoints)
	}
	w.follow("demo-cp-1", "demo-cp-2")
	w.rest()
	if len(w.members) != 1 || !strings.Contains(first123, w.etcd().Status.Endpoints) {
		t.Errorf("voters are %s, handed over is %s", w.voters(), w.etcd().Status.Endpoints)
	}
}

// TestLastKnownWithoutSurge: without a machine more the control plane follows those that there are, and then once more.
func TestLastKnownWithoutSurge(t *testing.T) {
	e := testEtcd(3)
	e.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
	w := newWorld(t, e)
	w.rest()
	w.controlPlaneMachine("demo-cp-1", first123)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.15" })
	if p := w.settle(); p.Reason != "EndpointsNotFollowed" || w.etcd().Status.Endpoints != "https://10.0.0.4:2379,https://10.0.0.5:2379" {
		t.Fatalf("told is %+v, handed over is %s", p, w.etcd().Status.Endpoints)
	}
	w.follow("demo-cp-1", "demo-cp-2")
	w.rest()
	if w.voters() != "demo-etcd-4 demo-etcd-5 demo-etcd-6" || w.etcd().Status.Endpoints != then456 {
		t.Errorf("voters are %s, handed over is %s", w.voters(), w.etcd().Status.Endpoints)
	}
}

// certify records for which names the certificates of machines are good that have no record yet.
func (w *world) certify(names string) {
	w.t.Helper()
	for _, m := range w.machines() {
		if machine.IsControlPlane(&m) {
			continue
		}
		config := w.config(m.Name)
		if _, recorded := config.Annotations[bootstrapv1alpha1.ServerNamesAnnotation]; !recorded {
			metav1.SetMetaDataAnnotation(&config.ObjectMeta, bootstrapv1alpha1.ServerNamesAnnotation, names)
			w.update(config)
		}
	}
}

// TestStaticEndpointLater: an endpoint that the certificates are not good for is handed over when no member is left without it. Where a
// machine of the control plane knows the last of these alone, it follows to the addresses of the others first. Back from it no machine
// is replaced.
func TestStaticEndpointLater(t *testing.T) {
	w := grown(t, 3)
	w.certify("")
	w.controlPlaneMachine("demo-cp-1", first123)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Endpoint = "etcd.example:8443" })
	w.roll("other.example,etcd.example")
	if p := w.etcd().Status; p.Plan.Reason != "EndpointsNotFollowed" || p.Endpoints != then456 {
		t.Fatalf("told is %+v, handed over is %s", p.Plan, p.Endpoints)
	}
	w.follow("demo-cp-1", "demo-cp-2")
	w.rest()
	w.follow("demo-cp-2", "demo-cp-3")
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Endpoint = "new.example" })
	w.roll("new.example")
	w.rest()
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Endpoint = "" })
	w.rest()
	const then789 = "https://10.0.0.7:2379,https://10.0.0.8:2379,https://10.0.0.9:2379"
	want := strings.Join([]string{first123, then456, "https://etcd.example:8443", "https://new.example:2379", then789}, " ")
	if got := strings.Join(w.told, " "); got != want || w.voters() != "demo-etcd-7 demo-etcd-8 demo-etcd-9" {
		t.Errorf("voters are %s, told was\n%s, want\n%s", w.voters(), got, want)
	}
}

// roll goes on until nothing changes any more, with certificates of new members that are good for names.
func (w *world) roll(names string) {
	w.t.Helper()
	for range 200 {
		before := w.looks()
		w.around()
		w.certify(names)
		if w.looks() == before {
			return
		}
	}
	w.t.Fatalf("it does not end: %+v", w.etcd().Status.Plan)
}

// TestCertificateExpires: who shows a certificate that ends within 30 days is replaced, and the status tells the first end. The user's
// days win over those.
func TestCertificateExpires(t *testing.T) {
	w := grown(t, 3)
	day, now := 24*time.Hour, time.Now().Truncate(time.Second)
	for i := range w.members {
		w.members[i].CertificateEnd = now.Add(time.Duration(40+i) * day)
	}
	w.rest()
	if got := w.config("demo-etcd-2").Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]; got != now.Add(41*day).UTC().Format(
		time.RFC3339) {
		t.Errorf("recorded is %q", got)
	}
	if first := w.etcd().Status.CertificateExpiry; !first.Date.Time.Equal(now.Add(40*day)) || first.Machine != "demo-etcd-1" ||
		first.Component != "etcd" {
		t.Errorf("the first to expire is %+v", first)
	}
	w.members[1].CertificateEnd = now.Add(29 * day)
	w.rest()
	if w.voters() != "demo-etcd-1 demo-etcd-3 demo-etcd-4" {
		t.Errorf("a certificate ends in 29 days, and voters are %s", w.voters())
	}
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Rollout.Before.CertificatesExpiryDays = 41 })
	w.rest()
	if w.voters() != "demo-etcd-3 demo-etcd-4 demo-etcd-5" {
		t.Errorf("one ends within 41 days, and voters are %s", w.voters())
	}
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Rollout.After = metav1.NewTime(time.Now().Add(-time.Second)) })
	w.rest()
	if got := w.etcd().Status.CertificateExpiry; !got.Date.IsZero() && got.Machine == "demo-etcd-1" {
		t.Errorf("the first to expire is gone: %+v", got)
	}
}
