package facts

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/manager"
)

var start = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default", Generation: 2, CreationTimestamp: start,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
}

// controlPlanes are of each kind one that is as wanted.
func controlPlanes() map[string]observe.Object {
	conditions := func() []metav1.Condition {
		return []metav1.Condition{
			{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue},
			{Type: "MachinesUpToDate", Status: metav1.ConditionTrue},
		}
	}
	settled := controlplanev1.PlanStatus{Step: "Nothing", Message: "1 machine, all healthy"}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: named("demo-cp")}
	kcp.Spec.Replicas, kcp.Spec.Version = ptr.To[int32](1), "v1.36.3"
	kcp.Status.ObservedGeneration = 2
	kcp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	kcp.Status.Conditions, kcp.Status.Plan = conditions(), settled

	cp := &controlplanev1alpha1.ControlPlane{ObjectMeta: named("demo-cp")}
	cp.Spec.Replicas, cp.Spec.Version = ptr.To[int32](1), "v1.36.3"
	cp.Status.ObservedGeneration = 2
	cp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	cp.Status.Conditions, cp.Status.Plan = conditions(), settled
	return map[string]observe.Object{kubeadmControlPlane: kcp, controlPlane: cp}
}

// The kinds of control planes.
const (
	kubeadmControlPlane = "KubeadmControlPlane"
	controlPlane        = "ControlPlane"
)

// of is what a control plane of any kind says.
func of(o observe.Object) *Group {
	for _, kind := range kinds() {
		if reflect.TypeOf(kind.New()) == reflect.TypeOf(o) {
			return viewOf(kind, o)
		}
	}
	return nil
}

// eachKind does something with a cluster that is as wanted, once for each kind of control plane.
func eachKind(t *testing.T, do func(*testing.T, Seen)) {
	for kind, o := range controlPlanes() {
		s := complete()
		s.Objects.ControlPlane = of(o)
		t.Run(kind, func(t *testing.T) { do(t, s) })
	}
}

// complete is a cluster of one control plane machine and one worker that is as wanted.
func complete() Seen {
	deployment := clusterv1.MachineDeployment{ObjectMeta: named("demo-workers")}
	deployment.Spec.Replicas = ptr.To[int32](1)
	deployment.Spec.Template.Spec.Version = "v1.36.3"
	deployment.Status.ObservedGeneration = 2

	cluster := &clusterv1.Cluster{ObjectMeta: named("demo")}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "172.30.0.10", Port: 6443}
	cluster.Status.Phase = "Provisioned"

	cp, worker := newMachine("demo-cp-1"), newMachine("demo-worker-x")
	cp.Labels[clusterv1.MachineControlPlaneLabel] = ""
	cp.Spec.FailureDomain = "a"
	worker.Labels[clusterv1.MachineDeploymentNameLabel] = "demo-workers"
	return Seen{
		Objects: &Objects{
			Cluster: cluster, ControlPlane: of(controlPlanes()[kubeadmControlPlane]),
			Deployments: []clusterv1.MachineDeployment{deployment},
			Machines:    []clusterv1.Machine{cp, worker},
		},
		View: workload.View{
			Reachable: true,
			Nodes:     []corev1.Node{node("demo-cp-1"), node("demo-worker-x")},
			Pods:      []corev1.Pod{pod("etcd"), pod("kube-apiserver"), pod("kube-controller-manager"), pod("kube-scheduler")},
		},
		Sandboxes: map[string]sandbox.Status{"demo-cp-1": box("demo-cp-1"), "demo-worker-x": box("demo-worker-x")},
		Observed: &plan.Observed{Etcd: plan.Etcd{Owner: plan.EtcdOurs, Known: true, Members: []plan.Member{
			{ID: "a", Name: "demo-cp-1", Machine: "demo-cp-1", Leader: true, Health: plan.Healthy},
		}}},
	}
}

func newMachine(name string) clusterv1.Machine {
	m := clusterv1.Machine{ObjectMeta: named(name)}
	m.Spec.Version = "v1.36.3"
	m.Spec.ProviderID = "local://" + name
	m.Spec.Bootstrap.DataSecretName = ptr.To(name)
	m.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "172.30.1.1"}}
	return m
}

func node(name string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.ProviderID = "local://" + name
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func pod(component string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: component + "-demo-cp-1"}}
	p.Spec.NodeName = "demo-cp-1"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

func box(name string) sandbox.Status {
	return sandbox.Status{
		Spec:  sandbox.Spec{Name: name, Address: netip.MustParseAddr("172.30.1.9")},
		State: sandbox.Running, Ready: true, Bootstrap: sandbox.Bootstrap{Phase: sandbox.BootstrapSucceeded},
	}
}

func TestDescribeWhatIsAsWanted(t *testing.T) { eachKind(t, testAsWanted) }

func testAsWanted(t *testing.T, s Seen) {
	got := Describe(s)
	if cp := got.ControlPlane; cp.Name != "demo-cp" || cp.Version != "v1.36.3" || cp.Replicas != 1 {
		t.Errorf("control plane is %+v", cp)
	}
	if missing := got.Missing(); missing != "" {
		t.Errorf("missing: %s", missing)
	}
	if got.Endpoint != "172.30.0.10:6443" || got.Phase != "Provisioned" || got.ControlPlane.Next.Step != "Nothing" {
		t.Errorf("described as %+v", got)
	}
	if got.Etcd.CanStand != 0 || got.Etcd.Voters != 1 || !got.Etcd.Known {
		t.Errorf("etcd is %+v", got.Etcd)
	}
	m := got.ControlPlane.Machines
	if len(m) != 1 || m[0].Domain != "a" || m[0].Address != "172.30.1.1" || m[0].Node != "demo-cp-1" || len(m[0].Components) != 4 {
		t.Errorf("control plane machines are %+v", m)
	}
	if w := got.Workers; len(w) != 1 || len(w[0].Machines) != 1 || w[0].Machines[0].Name != "demo-worker-x" ||
		len(w[0].Machines[0].Components) != 0 {
		t.Errorf("workers are %+v", w)
	}
}

// Machines of etcd have no Node, and are nobody's workers.
func TestDescribeMachinesOfEtcd(t *testing.T) {
	s := complete()
	s.Objects.ControlPlane = of(controlPlanes()[kubeadmControlPlane])
	member := newMachine("demo-etcd-1")
	member.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo", etcdclusterv1alpha1.MachineLabel: "demo-etcd"}
	s.Objects.Machines = append(s.Objects.Machines, member)
	s.Sandboxes["demo-etcd-1"] = box("demo-etcd-1")
	w := Describe(s).Workers
	if len(w) != 2 || w[1].EtcdCluster != "demo-etcd" || len(w[1].Machines) != 1 || w[1].Machines[0].Waiting != "" {
		t.Errorf("described as %+v", w)
	}
	b := s.Sandboxes["demo-etcd-1"]
	b.State = sandbox.Stopped
	s.Sandboxes["demo-etcd-1"] = b
	if got := Describe(s).Workers[1].Machines[0].Waiting; !strings.Contains(got, "stopped") {
		t.Errorf("it waits for %q", got)
	}
}

// An etcd cluster that is known here is told with its plan, its machines and its quorum, as a control plane is.
func TestDescribeEtcdCluster(t *testing.T) {
	s := complete()
	e := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: named("demo-etcd")}
	e.Spec.Replicas, e.Status.Version = ptr.To[int32](3), "v3.5.35"
	e.Status.ObservedGeneration = 2
	e.Status.Plan = controlplanev1.PlanStatus{Step: "Wait", Rule: "settle", Reason: "Joining", Message: "demo-etcd-2 is joining"}
	cluster := clusterOf(clusterv1.ContractVersionedObjectReference{})
	other := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: named("other-etcd")}
	other.Labels[clusterv1.ClusterNameLabel] = "other"
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(e, other, cluster).Build()
	read, err := Read(t.Context(), c, client.ObjectKeyFromObject(cluster))
	if err != nil || len(read.EtcdClusters) != 1 {
		t.Fatalf("read are %+v, %v", read, err)
	}
	s.Objects.EtcdClusters = read.EtcdClusters
	for _, name := range []string{"demo-etcd-1", "demo-etcd-2"} {
		m := newMachine(name)
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo", etcdclusterv1alpha1.MachineLabel: "demo-etcd"}
		s.Objects.Machines = append(s.Objects.Machines, m)
		s.Sandboxes[name] = box(name)
	}
	s.EtcdObserved = map[string]*plan.Observed{"demo-etcd": {
		Policy:   plan.Policy{EtcdOnly: true},
		Machines: []plan.Machine{{Name: "demo-etcd-2", Created: start.Time}},
		Etcd: plan.Etcd{Owner: plan.EtcdOurs, Known: true,
			Members: []plan.Member{{ID: "a", Name: "demo-etcd-1", Machine: "demo-etcd-1", Leader: true, Health: plan.Healthy}}},
	}}
	got := Describe(s)
	if len(got.EtcdClusters) != 1 || len(got.Workers) != 1 {
		t.Fatalf("described as %+v", got)
	}
	d := got.EtcdClusters[0]
	if d.Name != "demo-etcd" || d.Version != "v3.5.35" || d.Replicas != 3 || !d.Current || d.Next.Reason != "Joining" || d.Etcd.Voters != 1 ||
		len(d.Machines) != 2 {
		t.Errorf("described as %+v", d)
	}
	if d.Machines[0].Waiting != "" || d.Machines[1].Waiting == "" {
		t.Errorf("machines wait for %q and %q", d.Machines[0].Waiting, d.Machines[1].Waiting)
	}
	seen := WithObserved(t.Context(), c, Seen{Objects: read})
	if o := seen.EtcdObserved["demo-etcd"]; seen.Observed != nil || o == nil || !o.Policy.EtcdOnly || !o.Etcd.Ours() {
		t.Errorf("observed is %+v", o)
	}
}

// What is explained is the control plane, or on request the etcd cluster.
func TestExplainEtcdCluster(t *testing.T) {
	e := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: named("demo-etcd")}
	e.Status.Plan = controlplanev1.PlanStatus{Step: "Wait", Reason: "Paused"}
	cluster := clusterOf(clusterv1.ContractVersionedObjectReference{})
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(e, cluster).Build()
	got, err := Explain(t.Context(), c, client.ObjectKeyFromObject(cluster), true)
	if err != nil || got.Group != "EtcdCluster demo-etcd" || got.Reported.Reason != "Paused" || got.Decision.Rule == "" ||
		len(got.Verdicts) == 0 {
		t.Errorf("explained is %+v, %v", got, err)
	}
	if _, err := Explain(t.Context(), c, client.ObjectKeyFromObject(cluster), false); err == nil ||
		!strings.Contains(err.Error(), "has no KubeadmControlPlane or ControlPlane yet") {
		t.Errorf("the control plane: %v", err)
	}
	c = fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(cluster).Build()
	if _, err := Explain(t.Context(), c, client.ObjectKeyFromObject(cluster), true); err == nil ||
		!strings.Contains(err.Error(), "cluster default/demo has no EtcdCluster") {
		t.Errorf("without an etcd cluster: %v", err)
	}
}

// Each change to what is as wanted is told, in these words.
func TestDescribeTellsWhatIsMissing(t *testing.T) {
	onBox := func(change func(*sandbox.Status)) func(*Seen) {
		return func(s *Seen) {
			b := s.Sandboxes["demo-cp-1"]
			change(&b)
			s.Sandboxes["demo-cp-1"] = b
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(*Seen)
		missing string
		kind    string // empty: each
	}{
		{"no control plane", func(s *Seen) { s.Objects.ControlPlane = nil }, "there is no control plane yet", ""},
		{"an old spec", func(s *Seen) { s.Objects.ControlPlane.Generation = 3 }, "has not seen the newest spec of demo-cp", ""},
		{"an old spec of workers", func(s *Seen) { s.Objects.Deployments[0].Generation = 3 }, "has not seen the newest spec of demo-workers", ""},
		{"not available", func(s *Seen) { s.Objects.ControlPlane.Conditions = nil }, "demo-cp is not available yet", ""},
		{"not up to date", func(s *Seen) {
			s.Objects.ControlPlane.Conditions[1].Status = metav1.ConditionFalse
		}, "the machines of demo-cp are not up to date yet", ""},
		{"not at rest", func(s *Seen) {
			s.Objects.ControlPlane.Next.Step, s.Objects.ControlPlane.Next.Message = "Create demo-cp-4 in a", "1 machine is outdated"
		}, "demo-cp is not at rest: Create demo-cp-4 in a: 1 machine is outdated", ""},
		{"no answer", func(s *Seen) { s.View = workload.View{Why: "connection refused"} }, "does not answer: connection refused", ""},
		{"no node", func(s *Seen) { s.View.Nodes = s.View.Nodes[1:] }, "demo-cp-1 waits for its Node to be registered", ""},
		{"a node that is not ready", func(s *Seen) {
			s.View.Nodes[0].Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "no network"}
		}, "demo-cp-1 waits for its Node to be Ready: no network", ""},
		{"a worker's node that is not ready", func(s *Seen) { s.View.Nodes[1].Status.Conditions = nil },
			"demo-worker-x waits for its Node to be Ready", ""},
		{"a component", func(s *Seen) { s.View.Pods = s.View.Pods[1:] }, "demo-cp-1 waits for etcd (there is no pod etcd-demo-cp-1)",
			kubeadmControlPlane},
		{"a component that ails", func(s *Seen) { s.View.Pods[1].Status.Conditions = nil }, "demo-cp-1 waits for kube-apiserver", ""},
		{"no sandbox", func(s *Seen) { delete(s.Sandboxes, "demo-cp-1") }, "demo-cp-1 waits for the machine to be made", ""},
		{"a sandbox that starts", onBox(func(b *sandbox.Status) {
			b.Ready, b.Problem, b.Bootstrap.Phase = false, "containerd does not answer", ""
		}), "demo-cp-1 waits for the machine to be made: containerd does not answer", ""},
		{"kubeadm", onBox(func(b *sandbox.Status) {
			b.Bootstrap = sandbox.Bootstrap{Phase: sandbox.BootstrapRunning, Command: "kubeadm join --x && echo ok > f"}
		}), "demo-cp-1 waits for kubeadm: kubeadm join --x", ""},
		{"a failure", onBox(func(b *sandbox.Status) {
			b.Bootstrap = sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Command: "kubeadm join", Output: "much\nerror: no route\n"}
		}), "demo-cp-1 waits for bootstrap: kubeadm join: error: no route", ""},
		{"a failure whose cause the provider knows", func(s *Seen) {
			s.Objects.Machines[0].Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition,
				Status: metav1.ConditionFalse, Reason: "BootstrapFailed", Message: "the clock is wrong"}}
			onBox(func(b *sandbox.Status) {
				b.Bootstrap = sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Command: "kubeadm join", Output: "error: x509"}
			})(s)
		}, "demo-cp-1 waits for the clock is wrong", ""},
		{"a kubelet that does not stay up", func(s *Seen) {
			s.Objects.Machines[0].Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition,
				Status: metav1.ConditionFalse, Reason: "BootstrapFailed", Message: "the cgroup driver"}}
		}, "demo-cp-1 waits for the cgroup driver", ""},
		{"a directive", onBox(func(b *sandbox.Status) {
			b.Bootstrap = sandbox.Bootstrap{Phase: sandbox.BootstrapFailed, Unsupported: "disk_setup"}
		}), "the bootstrap data has disk_setup, which local machines cannot carry out", ""},
		{"stopped", onBox(func(b *sandbox.Status) { b.State = sandbox.Stopped }), "stopped; `quorate machine start` starts it", ""},
		{"paused", onBox(func(b *sandbox.Status) { b.State = sandbox.Paused }), "paused; `quorate machine resume` resumes it", ""},
		{"partitioned", onBox(func(b *sandbox.Status) { b.Partitioned = true }), "its link is cut; `quorate machine heal` mends it", ""},
		{"dead", onBox(func(b *sandbox.Status) { b.State = sandbox.Dead }), "demo-cp-1 waits for the machine to run: dead", ""},
		{"no data", func(s *Seen) { s.Objects.Machines[0].Spec.Bootstrap.DataSecretName = nil }, "demo-cp-1 waits for bootstrap data", ""},
		{"leaving", func(s *Seen) {
			s.Objects.Machines[0].DeletionTimestamp = &start
			s.Objects.Machines[0].Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue,
				Message: "drains"}}
		}, "demo-cp-1 waits for drains", ""},
		{"about to leave", func(s *Seen) {
			s.Objects.Machines[0].DeletionTimestamp = &start
			s.Objects.Machines[0].Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionFalse,
				Reason: "NotDeleting"}}
		}, "demo-cp-1 waits for its turn to go", ""},
	} {
		for kind, o := range controlPlanes() {
			if tt.kind != "" && tt.kind != kind {
				continue
			}
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				s := complete()
				s.Objects.ControlPlane = of(o)
				tt.change(&s)
				if got := Describe(s).Missing(); !strings.Contains(got, tt.missing) {
					t.Errorf("missing is %q, want %q in it", got, tt.missing)
				}
			})
		}
	}
}

// A control plane that another manager keeps is judged without a plan: that one may write none, and what is there is of the past.
func TestPlanOfAnotherManagerDoesNotCount(t *testing.T) {
	eachKind(t, testPlanOfAnotherManagerDoesNotCount)
}

func testPlanOfAnotherManagerDoesNotCount(t *testing.T, s Seen) {
	s.Objects.ControlPlane.Next.Step = "Wait"
	s.Objects.ControlPlane.Labels[clusterv1.WatchLabel] = "beside"
	if missing := Describe(s).Missing(); missing != "" {
		t.Errorf("missing: %s", missing)
	}
}

// A failed machine is told from one that still waits.
func TestFailed(t *testing.T) {
	s := complete()
	b := s.Sandboxes["demo-cp-1"]
	b.Bootstrap.Phase = sandbox.BootstrapFailed
	s.Sandboxes["demo-cp-1"] = b
	var failed []string
	for _, m := range Describe(s).Machines() {
		if m.Failed {
			failed = append(failed, m.Name)
		}
	}
	if len(failed) != 1 || failed[0] != "demo-cp-1" {
		t.Errorf("failed are %v", failed)
	}
}

// Before the first machine is initialised, a cluster that does not answer is no problem.
func TestSilenceBeforeInitIsNoProblem(t *testing.T) { eachKind(t, testSilenceBeforeInitIsNoProblem) }

func testSilenceBeforeInitIsNoProblem(t *testing.T, s Seen) {
	s.View = workload.View{Why: "there is no kubeconfig yet"}
	s.Objects.ControlPlane.Initialized = false
	if got := Describe(s).Problem; got != "" {
		t.Errorf("problem is %q", got)
	}
}

// A machine that no deployment has is shown as well.
func TestMachinesOfNoDeployment(t *testing.T) {
	s := complete()
	s.Objects.Deployments = nil
	w := Describe(s).Workers
	if len(w) != 1 || w[0].Name != "" || len(w[0].Machines) != 1 || w[0].Replicas != 1 {
		t.Errorf("workers are %+v", w)
	}
}

func TestChoose(t *testing.T) {
	key := func(namespace, name string) client.ObjectKey {
		return client.ObjectKey{Namespace: namespace, Name: name}
	}
	one := []client.ObjectKey{key("default", "demo")}
	two := append(one, key("default", "other"))
	same := append(two, key("team", "demo"))
	for _, tt := range []struct {
		name, err string
		keys      []client.ObjectKey
		want      client.ObjectKey
	}{
		{"", "", one, one[0]},
		{"demo", "", two, one[0]},
		{"team/demo", "", same, same[2]},
		{"", "expected NAME, because there are 2 clusters: must be one of demo, other", two, client.ObjectKey{}},
		{"x", `no such cluster: "x"; there is demo, other`, two, client.ObjectKey{}},
		{"", "there is none at all", nil, client.ObjectKey{}},
		{"x", "there is none at all", nil, client.ObjectKey{}},
		{"demo", `2 clusters have the name "demo": must be NAMESPACE/NAME (default/demo, team/demo)`, same, client.ObjectKey{}},
	} {
		got, err := Choose(tt.name, tt.keys)
		if got != tt.want {
			t.Errorf("%q of %v is %v, want %v", tt.name, tt.keys, got, tt.want)
		}
		if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q of %v: error %v, want %q", tt.name, tt.keys, err, tt.err)
		}
	}
}

// TestOfControlPlane: a cluster is found by its control plane's name, whatever namespace that is in.
func TestOfControlPlane(t *testing.T) {
	made := func(namespace, name, controlPlane string) *clusterv1.Cluster {
		c := clusterOf(clusterv1.ContractVersionedObjectReference{Name: controlPlane})
		c.Namespace, c.Name = namespace, name
		return c
	}
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(made("a", "demo", "demo-cp"), made("b", "demo", "demo-cp"),
		made("a", "other", "cp")).Build()
	for name, want := range map[string]string{"cp": "a/other", "demo-cp": "a/demo b/demo", "b/demo-cp": "b/demo", "demo": "", "": ""} {
		keys, err := OfControlPlane(t.Context(), c, name)
		var got []string
		for _, k := range keys {
			got = append(got, k.String())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q is the control plane of %v, %v; want %s", name, got, err, want)
		}
	}
}

// TestCertificateExpiry: a warning comes thirty days before, counted from when was looked.
func TestCertificateExpiry(t *testing.T) {
	end := start.AddDate(0, 0, 100)
	for days, want := range map[int]report.CertificateExpiry{
		69:  {Date: end, Machine: "demo-cp-1", Component: "etcd"},
		70:  {Date: end, Machine: "demo-cp-1", Component: "etcd", Soon: true},
		100: {Date: end, Machine: "demo-cp-1", Component: "etcd", Soon: true, Past: true},
	} {
		s := complete()
		if got := Describe(s).ControlPlane.CertificateExpiry; got != (report.CertificateExpiry{}) {
			t.Errorf("none is known: %+v", got)
		}
		kcp := controlPlanes()[kubeadmControlPlane].(*controlplanev1.KubeadmControlPlane)
		kcp.Status.CertificateExpiry = controlplanev1.CertificateExpiryStatus{Date: metav1.NewTime(end), Machine: "demo-cp-1", Component: "etcd"}
		s.Objects.ControlPlane = of(kcp)
		s.Observed.Now = start.AddDate(0, 0, days)
		if got := Describe(s).ControlPlane.CertificateExpiry; got != want {
			t.Errorf("after %d days: %+v, want %+v", days, got, want)
		}
	}
}

// TestComponentsThatAnswer: what the controller says of a component counts while the turn of the kubelet's startup probe has not come.
func TestComponentsThatAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		ago     time.Duration
		waiting string
	}{
		"a moment ago":    {10 * time.Second, ""},
		"a long ago":      {time.Minute, "kube-apiserver"},
		"nobody found it": {0, "kube-apiserver"},
	} {
		s := complete()
		for i := range s.View.Pods {
			p := &s.View.Pods[i]
			if p.Name != "kube-apiserver-demo-cp-1" {
				continue
			}
			p.Spec.Containers = []corev1.Container{{Name: "kube-apiserver"}}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-2 * time.Minute))}}}}
		}
		if test.ago > 0 {
			s.Objects.Machines[0].Status.Conditions = append(s.Objects.Machines[0].Status.Conditions, metav1.Condition{
				Type: machine.PodConditions["kube-apiserver"], Status: metav1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(time.Now().Add(-test.ago)),
			})
		}
		if got := Describe(s).ControlPlane.Machines[0].Waiting; (test.waiting == "") != (got == "") || !strings.Contains(got, test.waiting) {
			t.Errorf("%s: it waits for %q, want %q", name, got, test.waiting)
		}
	}
}
