package etcdcluster

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// grown is a world whose etcd cluster has so many members and is at rest.
func grown(t *testing.T, replicas int32, objects ...client.Object) *world {
	t.Helper()
	w := newWorld(t, append(objects, testEtcd(replicas))...)
	w.rest()
	if len(w.members) != int(replicas) {
		t.Fatalf("members are %s", w.voters())
	}
	w.most, w.told, w.done = 0, []string{w.etcd().Status.Endpoints}, nil
	return w
}

// TestLife: one member begins, the others learn until they have caught up, and nobody goes who leads.
func TestLife(t *testing.T) {
	w := newWorld(t, testEtcd(1))
	w.rest()
	if w.names() != "demo-etcd-1" || w.voters() != "demo-etcd-1" || len(w.done) > 0 {
		t.Fatalf("machines %s, voters %s, done %v", w.names(), w.voters(), w.done)
	}
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = ptr.To(int32(3)) })
	w.lagging["demo-etcd-2"] = true
	if w.settle(); w.voters() != "demo-etcd-1" || len(w.members) != 2 {
		t.Fatalf("a learner has not caught up, and voters are %s", w.voters())
	}
	w.lagging = map[string]bool{}
	for _, to := range []int32{3, 5, 3} {
		w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = &to })
		if w.rest(); len(strings.Fields(w.voters())) != int(to) || len(w.machines()) != int(to) {
			t.Fatalf("to %d: machines %s, voters %s", to, w.names(), w.voters())
		}
		w.done = append(w.done, "at rest")
	}
	want := "promote demo-etcd-2, promote demo-etcd-3, at rest, promote demo-etcd-4, promote demo-etcd-5, at rest, " +
		"lead demo-etcd-5, remove demo-etcd-1, remove demo-etcd-2, at rest"
	if got := strings.Join(w.done, ", "); got != want {
		t.Errorf("done\n%s, want\n%s", got, want)
	}
	if w.most != 5 {
		t.Errorf("there were %d machines at once", w.most)
	}
}

// TestRollout: each machine is replaced once, one more than wanted at most, and the leader goes last.
func TestRollout(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*v1alpha1.EtcdCluster)
		most   int
	}{
		{"version", func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.15" }, 4},
		{"configuration", func(e *v1alpha1.EtcdCluster) { e.Spec.EtcdadmConfigSpec.PostEtcdadmCommands = []string{"true"} }, 4},
		{"template", func(e *v1alpha1.EtcdCluster) { e.Spec.InfrastructureTemplate.Name = "larger" }, 4},
		{"surge 0", func(e *v1alpha1.EtcdCluster) {
			e.Spec.Version = "3.6.15"
			e.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
		}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := grown(t, 3)
			w.change(test.change)
			w.rest()
			if got := w.voters(); got != "demo-etcd-4 demo-etcd-5 demo-etcd-6" || w.most != test.most || w.gone[2] != "demo-etcd-1" {
				t.Errorf("voters are %s, there were %d machines, gone are %v", got, w.most, w.gone)
			}
			if len(w.told) != 2 || w.told[1] != "https://10.0.0.4:2379,https://10.0.0.5:2379,https://10.0.0.6:2379" {
				t.Errorf("a control plane would be rolled out for each of %v", w.told)
			}
		})
	}
}

// TestAsked: a machine that a person named is replaced, a new one first, and the others stay.
func TestAsked(t *testing.T) {
	w := grown(t, 3)
	w.change(func(e *v1alpha1.EtcdCluster) {
		e.Annotations[controlplanev1.ReplaceAnnotation] = "demo-etcd-2=" + time.Now().UTC().Format(time.RFC3339)
	})
	w.rest()
	if got := w.voters(); got != "demo-etcd-1 demo-etcd-3 demo-etcd-4" || w.most != 4 {
		t.Errorf("voters are %s, there were %d machines", got, w.most)
	}
}

// TestDowngrade: etcd is lowered before the first member of the older version, which starts when the downgrade has ended.
func TestDowngrade(t *testing.T) {
	w := grown(t, 3)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.5.35" })
	w.rest()
	want := "enable 3.5, cancel, promote demo-etcd-4, remove demo-etcd-2, promote demo-etcd-5, remove demo-etcd-3, promote demo-etcd-6, " +
		"lead demo-etcd-6, remove demo-etcd-1"
	if got := strings.Join(w.done, ", "); got != want || w.most != 4 {
		t.Errorf("done with up to %d machines\n%s, want\n%s", w.most, got, want)
	}
	if got := w.etcd().Status.Version; got != "v3.5.35" {
		t.Errorf("the version is %s", got)
	}
	w.done = nil
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.16" })
	if w.rest(); strings.Contains(strings.Join(w.done, " "), "enable") || w.keeps() != "3.6" {
		t.Errorf("up again is %v, data are of %s", w.done, w.keeps())
	}
}

// TestDowngradeTakenBack: in the middle, before and after the first member of the older version votes.
func TestDowngradeTakenBack(t *testing.T) {
	w := grown(t, 3)
	w.lagging["all"] = true // nobody joins
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.5.35" })
	w.settle()
	if got := strings.Join(w.done, ", "); got != "enable 3.5" || w.keeps() != "3.5" || len(w.machines()) != 4 {
		t.Fatalf("done is %s, data are of %s, machines %s", got, w.keeps(), w.names())
	}
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.16" })
	w.rest()
	if got := strings.Join(w.done, ", "); got != "enable 3.5, cancel" || w.keeps() != "3.6" || w.voters() != "demo-etcd-1 demo-etcd-2 "+
		"demo-etcd-3" {
		t.Errorf("done is %s, data are of %s, voters %s", got, w.keeps(), w.voters())
	}
	w.lagging = map[string]bool{}
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.5.35" })
	for !strings.Contains(w.voters(), "demo-etcd-5") {
		w.around()
	}
	w.restart()
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Version = "3.6.16" })
	if w.rest(); w.keeps() != "3.6" || len(w.machines()) != 3 || strings.Contains(w.voters(), "demo-etcd-5") {
		t.Errorf("data are of %s, voters %s", w.keeps(), w.voters())
	}
}

// TestMade: what a machine consists of says whose it is, and no control plane's.
func TestMade(t *testing.T) {
	e := testEtcd(1)
	e.Labels[clusterv1.WatchLabel] = "mine"
	e.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"rack": "7"}
	e.Spec.EtcdadmConfigSpec.PreEtcdadmCommands = []string{"true"}
	w := newWorld(t, e)
	w.rest()
	m, config, local := &clusterv1.Machine{}, &bootstrapv1alpha1.EtcdadmConfig{}, &infrav1.LocalMachine{}
	for _, o := range []client.Object{m, config, local} {
		w.get("demo-etcd-1", o)
		has := o.GetLabels()
		if has[v1alpha1.MachineLabel] != "demo-etcd" || has[clusterv1.ClusterNameLabel] != "demo" || has["rack"] != "7" ||
			has[clusterv1.WatchLabel] != "mine" || has[clusterv1.MachineControlPlaneNameLabel] != "" {
			t.Errorf("%T has the labels %v", o, has)
		}
	}
	if machine.IsControlPlane(m) || !metav1.IsControlledBy(m, w.etcd()) || !machine.HasHook(m) || m.Spec.Version != "" ||
		m.Spec.ClusterName != "demo" {
		t.Errorf("the Machine is %+v, %+v", m.ObjectMeta, m.Spec)
	}
	if ref := m.Spec.Bootstrap.ConfigRef; ref.Kind != "EtcdadmConfig" || ref.APIGroup != bootstrapv1alpha1.GroupVersion.Group ||
		ref.Name != m.Name {
		t.Errorf("its bootstrap is %+v", ref)
	}
	if config.Spec.Version != "v3.6.16" || len(config.Spec.PreEtcdadmCommands) != 1 {
		t.Errorf("its configuration is %+v", config.Spec)
	}
	if owner := w.etcd().OwnerReferences; len(owner) != 1 || owner[0].Kind != "Cluster" || owner[0].UID != "cluster-uid" {
		t.Errorf("owners are %v: it would not move with its Cluster", owner)
	}
}

// TestMetadataInPlace: labels, annotations and timeouts replace nobody.
func TestMetadataInPlace(t *testing.T) {
	w := grown(t, 1)
	w.change(func(e *v1alpha1.EtcdCluster) {
		e.Spec.MachineTemplate.ObjectMeta = clusterv1.ObjectMeta{Labels: map[string]string{"rack": "7"},
			Annotations: map[string]string{"note": "x"}}
		e.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(int32(60))
		e.Spec.MachineTemplate.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Mine"}}
	})
	w.settle()
	m, config, local := &clusterv1.Machine{}, &bootstrapv1alpha1.EtcdadmConfig{}, &infrav1.LocalMachine{}
	for _, o := range []client.Object{m, config, local} {
		if w.get("demo-etcd-1", o); o.GetLabels()["rack"] != "7" || o.GetAnnotations()["note"] != "x" {
			t.Errorf("%T has %v and %v", o, o.GetLabels(), o.GetAnnotations())
		}
	}
	if ptr.Deref(m.Spec.Deletion.NodeDrainTimeoutSeconds, 0) != 60 {
		t.Errorf("timeouts are %+v", m.Spec.Deletion)
	}
	if gates := m.Spec.ReadinessGates; len(gates) != 1 || gates[0].ConditionType != "Mine" {
		t.Errorf("gates are %+v", gates)
	}
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.MachineTemplate = v1alpha1.MachineTemplate{} })
	w.rest()
	if w.get("demo-etcd-1", config); config.Labels["rack"] != "" || w.names() != "demo-etcd-1" {
		t.Errorf("labels are %v, machines %s", config.Labels, w.names())
	}
}

// TestSaidWhyOutdated: the condition names the fields in which machines differ.
func TestSaidWhyOutdated(t *testing.T) {
	w := grown(t, 1)
	w.change(func(e *v1alpha1.EtcdCluster) {
		e.Spec.Version = "3.6.15"
		e.Spec.EtcdadmConfigSpec.PostEtcdadmCommands = []string{"true"}
		e.Spec.InfrastructureTemplate.Name = "larger"
	})
	w.around()
	w.lagging["all"] = true
	w.settle()
	said := conditions.Get(w.etcd(), "MachinesUpToDate")
	for _, part := range []string{"spec.version", "v3.6.16", "v3.6.15", "spec.etcdadmConfigSpec", "spec.infrastructureTemplate"} {
		if said == nil || !strings.Contains(said.Message, part) {
			t.Errorf("told is %+v, which does not name %s", said, part)
		}
	}
}

// TestMemberBehindItsBack: a machine whose member somebody removed is replaced, and nothing stands still.
func TestMemberBehindItsBack(t *testing.T) {
	w := grown(t, 3)
	w.members = w.members[:2]
	w.lagging["all"] = true // what was removed does not come back by itself
	p := w.settle()
	if w.etcd().Status.Endpoints != w.told[0] || ptr.Deref(w.etcd().Status.ReadyReplicas, 0) != 2 || !ptr.Deref(w.etcd().Status.Ready, false) {
		t.Errorf("the status is %+v", w.etcd().Status)
	}
	if !strings.Contains(p.Message+p.Step, "demo-etcd-3") {
		t.Errorf("told is %+v", p)
	}
	m := &clusterv1.Machine{}
	w.get("demo-etcd-3", m)
	mark(m)
	w.updateStatus(m)
	w.lagging = map[string]bool{"demo-etcd-3": true}
	w.rest()
	if w.voters() != "demo-etcd-1 demo-etcd-2 demo-etcd-4" {
		t.Errorf("voters are %s", w.voters())
	}
}

// mark says that a machine is to be replaced, as a MachineHealthCheck does.
func mark(m *clusterv1.Machine) {
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: "Broken",
		Message: "broken"})
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: "WaitingForRemediation"})
}

// TestRepair: a machine whose member is silent is replaced when it is marked, and told of.
func TestRepair(t *testing.T) {
	w := grown(t, 3)
	w.silence("demo-etcd-1")
	m := &clusterv1.Machine{}
	w.get("demo-etcd-1", m)
	mark(m)
	w.updateStatus(m)
	w.rest()
	status := w.etcd().Status
	if w.voters() != "demo-etcd-2 demo-etcd-3 demo-etcd-4" || w.most > 4 || status.LastRemediation.Machine != "demo-etcd-1" {
		t.Errorf("voters are %s, at most %d machines, the last repair is %+v", w.voters(), w.most, status.LastRemediation)
	}
	if got := status.InitMachineAddress; got != "10.0.0.1" {
		t.Errorf("the first member's address became %q", got)
	}
}

// TestPaused: nothing is done, and nothing is told but that.
func TestPaused(t *testing.T) {
	w := grown(t, 1)
	cluster := testCluster()
	w.get("demo", cluster)
	cluster.Spec.Paused = ptr.To(true)
	w.update(cluster)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = ptr.To(int32(3)) })
	if p := w.settle(); p.Reason != "Paused" || len(w.machines()) != 1 || !conditions.IsTrue(w.etcd(), clusterv1.PausedCondition) {
		t.Errorf("told is %+v, machines are %s", p, w.names())
	}
}

// TestAdoption: machines that lost their etcd cluster are taken back, and none is replaced for how its version is written.
func TestAdoption(t *testing.T) {
	w := grown(t, 3)
	for _, m := range w.machines() {
		m.OwnerReferences = nil
		delete(m.Annotations, machine.Hook)
		w.update(&m)
		config := &bootstrapv1alpha1.EtcdadmConfig{}
		w.get(m.Name, config)
		config.Labels, config.Spec.Version = map[string]string{"mine": ""},
			map[string]string{"demo-etcd-1": "3.6.16", "demo-etcd-2": "v3.6.16"}[m.Name]
		w.update(config)
	}
	w.restart()
	w.rest()
	if w.names() != "demo-etcd-1 demo-etcd-2 demo-etcd-3" || w.etcd().Status.Version != "v3.6.16" {
		t.Fatalf("machines are %s, the version is %q", w.names(), w.etcd().Status.Version)
	}
	for _, m := range w.machines() {
		config := &bootstrapv1alpha1.EtcdadmConfig{}
		if w.get(m.Name, config); !metav1.IsControlledBy(&m, w.etcd()) || !machine.HasHook(&m) ||
			config.Labels[v1alpha1.MachineLabel] != "demo-etcd" || m.Labels[v1alpha1.MachineLabel] != "demo-etcd" {
			t.Errorf("Machine %s has %+v, its configuration %v", m.Name, m.ObjectMeta, config.Labels)
		}
	}
}

// TestUnadoptable: beside a machine that cannot be adopted nothing is begun, and the message says why.
func TestUnadoptable(t *testing.T) {
	w := grown(t, 1)
	other := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo", v1alpha1.MachineLabel: "demo-etcd"}}}
	other.Spec.ClusterName = "demo"
	other.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig",
		Name: "other"}
	w.create(other)
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = ptr.To(int32(3)) })
	if p := w.settle(); len(w.machines()) != 2 || !strings.Contains(p.Message, "other") || !strings.Contains(p.Message, "EtcdadmConfig") {
		t.Errorf("told is %+v, machines are %s", p, w.names())
	}
}

// TestFailedChange: what etcd refused is told, and tried again.
func TestFailedChange(t *testing.T) {
	w := grown(t, 1)
	w.failing = errRefused
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = ptr.To(int32(3)) })
	failed := false
	for range 20 {
		w.core()
		w.etcdadm()
		failed = failed || w.turn() != nil
	}
	if p := w.etcd().Status.Plan; !failed || len(w.members) < 2 {
		t.Fatalf("told is %+v, members are %+v", p, w.members)
	}
	w.failing = nil
	w.rest()
}

// TestNoTemplate: the message names the field of this kind.
func TestNoTemplate(t *testing.T) {
	e := testEtcd(1)
	e.Spec.InfrastructureTemplate.Name = "nowhere"
	w := newWorld(t, e)
	if p := w.settle(); len(w.machines()) > 0 ||
		!strings.Contains(p.Message, `spec.infrastructureTemplate: there is no LocalMachineTemplate "nowhere"`) {
		t.Errorf("told is %+v", p)
	}
}

// TestNamesAreNewToTheMembers: after a backup of the management cluster was restored, only etcd knows of the members that came later. No
// machine gets the name of one of these, not even when that is gone meanwhile.
func TestNamesAreNewToTheMembers(t *testing.T) {
	w := grown(t, 3)
	other := w.members[2]
	other.ID, other.Name = 99, "demo-etcd-7"
	w.members = append(w.members, other)
	w.settle()
	w.members = w.members[:3]
	w.change(func(e *v1alpha1.EtcdCluster) { e.Spec.Replicas = ptr.To[int32](5) })
	w.rest()
	if got, want := w.names(), "demo-etcd-1 demo-etcd-2 demo-etcd-3 demo-etcd-8 demo-etcd-9"; got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
}
