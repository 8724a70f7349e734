package report

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func machine(name, domain string) Machine {
	return Machine{
		Name: name, Domain: domain, Address: "172.30.1." + name[len(name)-1:], Node: name, NodeReady: true, Created: start, Since: start,
		Components: []plan.Component{
			{Name: "etcd", Health: plan.Healthy}, {Name: "kube-apiserver", Health: plan.Healthy},
			{Name: "kube-controller-manager", Health: plan.Healthy}, {Name: "kube-scheduler", Health: plan.Healthy},
		},
	}
}

func member(id, name string, change func(*plan.Member)) plan.Member {
	m := plan.Member{ID: id, Name: name, Machine: name, Health: plan.Healthy}
	if change != nil {
		change(&m)
	}
	return m
}

func healthyCluster() Cluster {
	return Cluster{
		Namespace: "default", Name: "demo", Phase: "Provisioned", Endpoint: "172.30.0.10:6443",
		ControlPlane: ControlPlane{
			Name: "demo-cp", Version: "v1.36.3", Replicas: 3, Available: true, UpToDate: true, Current: true,
			Next:              Next{Step: "Nothing", Message: "3 machines, all healthy; quorum 2 of 3"},
			CertificateExpiry: CertificateExpiry{Date: start.AddDate(1, 0, 0), Machine: "demo-cp-1", Component: "kube-apiserver"},
			Machines:          []Machine{machine("demo-cp-1", "a"), machine("demo-cp-2", "b"), machine("demo-cp-3", "c")},
		},
		Etcd: NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true, Members: []plan.Member{
			member("8e9e05c52164694d", "demo-cp-1", func(m *plan.Member) { m.Leader = true }),
			member("91bc3c398fb3c146", "demo-cp-2", nil), member("fd422379fda50e48", "demo-cp-3", nil),
		}}),
	}
}

func joiningCluster() Cluster {
	c := healthyCluster()
	c.ControlPlane.Available = false
	c.ControlPlane.Next = Next{Step: "Wait", Rule: "grow", Reason: "Joining", Message: "2 machines are joining"}
	c.ControlPlane.CertificateExpiry.Soon = true
	c.ControlPlane.Machines[1].Waiting = "kubeadm: runs kubeadm join"
	c.ControlPlane.Machines[2].Failed, c.ControlPlane.Machines[2].Waiting = true, "kubeadm join: exit status 1"
	c.ControlPlane.Machines[2].Address = ""
	c.Etcd = NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Members: []plan.Member{
		member("8e9e05c52164694d", "demo-cp-1", func(m *plan.Member) { m.Leader = true }),
		member("91bc3c398fb3c146", "", func(m *plan.Member) { m.Machine, m.Learner, m.Health = "demo-cp-2", true, plan.Unknown }),
	}})
	w := machine("demo-worker-x7k2p", "")
	w.Components = nil
	c.Workers = []Workers{{Name: "demo-workers", Version: "v1.36.3", Replicas: 1, Current: true, Machines: []Machine{w}}}
	return c
}

func lostCluster() Cluster {
	c := healthyCluster()
	c.Problem = "the API server does not answer"
	c.ControlPlane.CertificateExpiry.Soon, c.ControlPlane.CertificateExpiry.Past = true, true
	c.ControlPlane.Machines[1].Waiting = "the machine to run: stopped"
	c.ControlPlane.Machines[0].Deleting, c.ControlPlane.Machines[0].Waiting = true, "its member to leave etcd"
	c.Etcd = NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Members: []plan.Member{
		member("8e9e05c52164694d", "demo-cp-1", func(m *plan.Member) { m.Health, m.Alarms = plan.Unhealthy, []string{"NOSPACE"} }),
		member("91bc3c398fb3c146", "demo-cp-2", func(m *plan.Member) { m.Health = plan.Unhealthy }),
		member("fd422379fda50e48", "demo-cp-3", nil),
	}})
	return c
}

// operatedCluster is one of which only machines and their Nodes are known: a control plane without a version, whose components
// are no static pods, and whose etcd an operator keeps.
func operatedCluster() Cluster {
	c := healthyCluster()
	c.ControlPlane.Version, c.ControlPlane.CertificateExpiry = "", CertificateExpiry{}
	c.ControlPlane.Next = Next{Step: "Nothing", Message: "3 machines, all healthy"}
	for i := range c.ControlPlane.Machines {
		c.ControlPlane.Machines[i].Components = nil
	}
	c.Etcd = NewEtcd(plan.Etcd{Owner: plan.EtcdOperator})
	return c
}

// apartCluster keeps its data in an etcd cluster on machines of its own, of which one is being replaced.
func apartCluster() Cluster {
	c := healthyCluster()
	c.ControlPlane.Next = Next{Step: "Nothing", Message: "3 machines, all healthy"}
	c.Etcd = NewEtcd(plan.Etcd{})
	of := func(name, domain string) Machine {
		m := machine(name, domain)
		m.Node, m.Components = "", nil
		return m
	}
	c.EtcdClusters = []EtcdCluster{{
		Name: "demo-etcd", Version: "v3.6.16", Replicas: 3, Current: true,
		Next:     Next{Step: "Wait", Rule: "settle", Reason: "Joining", Message: "demo-etcd-4 is joining"},
		Machines: []Machine{of("demo-etcd-1", "a"), of("demo-etcd-2", "b"), of("demo-etcd-3", "c"), of("demo-etcd-4", "a")},
		Etcd: NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true, Members: []plan.Member{
			member("8e9e05c52164694d", "demo-etcd-1", func(m *plan.Member) { m.Leader = true }),
			member("91bc3c398fb3c146", "demo-etcd-2", nil), member("fd422379fda50e48", "demo-etcd-3", nil),
		}}),
	}}
	c.EtcdClusters[0].Machines[3].Waiting = "its member to vote"
	return c
}

// The data of a cluster are in one etcd, wherever it runs: what is missing of it is missing of the cluster.
func TestEtcdCluster(t *testing.T) {
	c := apartCluster()
	if got := c.Missing(); got != "demo-etcd has 4 machines of 3 wanted; demo-etcd-4 waits for its member to vote; demo-etcd is not at "+
		"rest: wait: demo-etcd-4 is joining" {
		t.Errorf("missing is %q", got)
	}
	if got := c.Quorum(); got.Voters != 3 || got.CanStand != 1 {
		t.Errorf("the quorum is %+v", got)
	}
	if got := healthyCluster().Quorum(); got.Voters != 3 || !got.Managed {
		t.Errorf("the quorum on the machines is %+v", got)
	}
	if got := len(c.Machines()); got != 7 {
		t.Errorf("%d machines", got)
	}
	c.EtcdClusters[0].Current = false
	if got := c.Missing(); got != "the controller has not seen the newest spec of demo-etcd yet" {
		t.Errorf("missing is %q", got)
	}
}

func TestTree(t *testing.T) {
	golden(t, "tree-etcd", text(apartCluster().Tree()))
	golden(t, "tree-operated", text(operatedCluster().Tree()))
	golden(t, "tree-healthy", text(healthyCluster().Tree()))
	golden(t, "tree-joining", text(joiningCluster().Tree()))
	golden(t, "tree-lost", text(lostCluster().Tree()))
	golden(t, "tree-new", text(Cluster{Namespace: "default", Name: "demo"}.Tree()))
}

func TestProgress(t *testing.T) {
	var b strings.Builder
	gone := healthyCluster()
	gone.Deleting, gone.ControlPlane = true, ControlPlane{}
	going := healthyCluster()
	going.Deleting = true
	told := joiningCluster()
	told.ControlPlane.Next = Next{Step: "Wait", Reason: "QuorumLost", Message: "1 of 3 voters healthy, 2 needed"}
	for _, c := range []Cluster{{Name: "demo"}, joiningCluster(), told, healthyCluster(), going, gone} {
		for _, r := range c.Progress(start.Add(75 * time.Second)) {
			b.WriteString(r.Key + " | " + r.Line.String() + " | " + r.Aside + "\n")
		}
		b.WriteString("\n")
	}
	golden(t, "progress", b.String())
}

func TestLongReasonsAreCutWhileWaiting(t *testing.T) {
	c := joiningCluster()
	c.ControlPlane.Next = Next{Step: "Wait", Message: strings.Repeat("é", 500)}
	if got := []rune(c.Progress(start)[0].Line.String()); len(got) != len("demo: ")+longestNext || got[len(got)-1] != '…' {
		t.Errorf("%d characters, the last is %q", len(got), got[len(got)-1])
	}
}

func TestExplain(t *testing.T) {
	e := Explanation{
		Cluster: "demo",
		Decision: plan.Decision{Rule: "grow", Step: plan.Step{Verb: plan.Create, Machine: "demo-cp-2", Domain: "b", Number: 2},
			Message: "1 of 3 machines"},
		Verdicts: []plan.Verdict{
			{Rule: "hold", Because: "neither the cluster nor demo-cp is paused"},
			{Rule: "grow", Decided: true, Decision: plan.Decision{Rule: "grow", Message: "1 of 3 machines"}},
			{Rule: "rest", Decided: true, Decision: plan.Decision{Rule: "rest", Message: "1 machine, all healthy"}},
		},
	}
	golden(t, "explain", text(e.Table()))
	e.Reported = Next{Step: "Create demo-cp-2 in b", Message: "1 of 3 machines"}
	if lines := text(e.Table()); strings.Contains(lines, "controller") {
		t.Errorf("the controller agrees, and is quoted:\n%s", lines)
	}
	e.Reported = Next{Step: "Wait", Reason: "ForeignMachines", Message: "the cluster has other machines"}
	if lines := text(e.Table()); !strings.Contains(lines, "controller  Wait: the cluster has other machines (ForeignMachines)") {
		t.Errorf("the controller does not agree, and is not quoted:\n%s", lines)
	}
}

func TestSentence(t *testing.T) {
	voters := func(healthy, all int) plan.Etcd {
		o := plan.Etcd{Owner: plan.EtcdOurs, Known: true}
		for i := range all {
			m := plan.Member{ID: string(rune('a' + i))}
			if i < healthy {
				m.Health = plan.Healthy
			}
			o.Members = append(o.Members, m)
		}
		return o
	}
	learner := voters(1, 1)
	learner.Members = append(learner.Members, plan.Member{ID: "z", Learner: true, Health: plan.Healthy})
	alarmed := voters(3, 3)
	alarmed.Why = "member a has an alarm"
	for _, tt := range []struct {
		etcd plan.Etcd
		want string
	}{
		{voters(3, 3), "quorum 2 of 3, can stand 1 failure"},
		{voters(5, 5), "quorum 3 of 5, can stand 2 failures"},
		{voters(2, 3), "quorum 2 of 3, can stand no failure"},
		{voters(1, 1), "quorum 1 of 1, can stand no failure"},
		{learner, "quorum 1 of 1, can stand no failure"},
		{voters(1, 3), "QUORUM LOST: 1 of 3 is healthy, 2 are needed"},
		{voters(0, 3), "QUORUM LOST: 0 of 3 are healthy, 2 are needed"},
		{alarmed, "quorum 2 of 3, can stand 1 failure; member a has an alarm"},
		{plan.Etcd{Owner: plan.EtcdOurs, Why: "nobody answers"}, "not known: nobody answers"},
		{plan.Etcd{Owner: plan.EtcdOurs}, "not known yet"},
		{plan.Etcd{}, "not on these machines"},
	} {
		if got := NewEtcd(tt.etcd).Sentence(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.etcd, got, tt.want)
		}
	}
}

// An unknown quorum is not a lost one.
func TestNoVoters(t *testing.T) {
	if e := NewEtcd(plan.Etcd{Owner: plan.EtcdOurs}); e.CanStand != 0 || e.Majority != 0 {
		t.Errorf("without voters: %+v", e)
	}
}

func TestMissing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Cluster)
		want   string
	}{
		{"up", func(*Cluster) {}, ""},
		{"no control plane", func(c *Cluster) { c.ControlPlane = ControlPlane{} }, "there is no control plane yet"},
		{"old spec", func(c *Cluster) { c.ControlPlane.Current = false }, "the controller has not seen the newest spec of demo-cp yet"},
		{"not available", func(c *Cluster) { c.ControlPlane.Available = false }, "demo-cp is not available yet"},
		{"not up to date", func(c *Cluster) { c.ControlPlane.UpToDate = false }, "the machines of demo-cp are not up to date yet"},
		{"a step", func(c *Cluster) {
			c.ControlPlane.Next = Next{Step: "Create demo-cp-4 in a", Message: "1 of 3 machines is outdated"}
		}, "demo-cp is not at rest: Create demo-cp-4 in a: 1 of 3 machines is outdated"},
		{"a wait", func(c *Cluster) { c.ControlPlane.Next = Next{Step: "Wait", Message: "2 machines join"} },
			"demo-cp is not at rest: wait: 2 machines join"},
		{"no plan, as of another controller", func(c *Cluster) { c.ControlPlane.Next = Next{} }, ""},
		{"a number that is in order", func(c *Cluster) { c.ControlPlane.Replicas = 5 }, ""},
		{"old conditions", func(c *Cluster) {
			c.ControlPlane.Current, c.ControlPlane.Available, c.ControlPlane.UpToDate = false, false, false
		}, "the controller has not seen the newest spec of demo-cp yet"},
		{"waiting", func(c *Cluster) { c.ControlPlane.Machines[1].Waiting = "etcd" }, "demo-cp-2 waits for etcd"},
		{"unreachable", func(c *Cluster) { c.Problem = "no answer" }, "no answer"},
		{"deleting", func(c *Cluster) { c.Deleting = true }, "the cluster is being deleted"},
		{"workers", func(c *Cluster) {
			c.Workers = []Workers{{Name: "w", Replicas: 1}}
		}, "the controller has not seen the newest spec of w yet; w has no machine of 1 wanted"},
		{"machines of nobody", func(c *Cluster) {
			c.Workers = []Workers{{Machines: []Machine{{Name: "x"}}}}
		}, ""},
	} {
		c := healthyCluster()
		tt.change(&c)
		if tt.name == "machines of nobody" {
			c.Workers[0].Current = true
		}
		if got := c.Missing(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWaiting(t *testing.T) {
	done := Facts{Infrastructure: true, Data: true, Bootstrap: true, Running: true, Node: true, NodeReady: true}
	for _, tt := range []struct {
		name   string
		change func(*Facts)
		want   string
		failed bool
	}{
		{"done", func(*Facts) {}, "", false},
		{"nothing yet", func(f *Facts) { *f = Facts{} }, "the machine to be made", false},
		{"infrastructure", func(f *Facts) { f.Infrastructure, f.InfrastructureWhy = false, "containerd does not\nanswer" },
			"the machine to be made: containerd does not answer", false},
		{"data", func(f *Facts) { f.Data, f.DataWhy = false, "the first machine is not initialised" },
			"bootstrap data: the first machine is not initialised", false},
		{"kubeadm", func(f *Facts) { f.Bootstrap, f.BootstrapWhy, f.Node = false, "", false }, "kubeadm", false},
		{"stopped", func(f *Facts) { f.Running, f.RunningWhy, f.NodeReady = false, "stopped", false }, "the machine to run: stopped", false},
		{"failure", func(f *Facts) { f.Failure, f.Bootstrap, f.Node = "kubeadm join: exit status 1", false, false },
			"kubeadm join: exit status 1", true},
		{"node", func(f *Facts) { f.Node, f.NodeReady = false, false }, "its Node to be registered", false},
		{"components", func(f *Facts) {
			f.NodeReady = false
			f.Components = []plan.Component{{Name: "etcd", Health: plan.Unhealthy, Why: "crashes"}, {Name: "kube-apiserver", Health: plan.Healthy},
				{Name: "kube-scheduler"}}
		}, "etcd (crashes), kube-scheduler", false},
		{"components with one reason", func(f *Facts) {
			f.Components = []plan.Component{{Name: "etcd", Why: "starts"}, {Name: "kube-apiserver"}, {Name: "kube-scheduler", Why: "starts"}}
		}, "etcd, kube-scheduler (starts), kube-apiserver", false},
		{"ready", func(f *Facts) { f.NodeReady, f.NodeWhy = false, "no network" }, "its Node to be Ready: no network", false},
		{"leaving", func(f *Facts) { f.Deleting, f.Leaving, f.Failure = true, "drains", "x" }, "drains", false},
		{"leaving, not begun", func(f *Facts) { f.Deleting = true }, "its turn to go", false},
	} {
		f := done
		tt.change(&f)
		got, failed := Waiting(f)
		if got != tt.want || failed != tt.failed {
			t.Errorf("%s: %q failed %v, want %q failed %v", tt.name, got, failed, tt.want, tt.failed)
		}
	}
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 420 * time.Millisecond: "0.4 s", 12900 * time.Millisecond: "12 s",
		59900 * time.Millisecond: "59 s", 125 * time.Second: "2 min 5 s", 3*time.Hour + 4*time.Minute: "3 h 4 min",
	} {
		if got := Elapsed(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func text(lines []screen.Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", name, got, want)
	}
}
