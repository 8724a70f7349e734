// Package recorded makes what the dashboard shows of facts that were recorded: rows of the rules' tests, and moments in the lives of random
// worlds. Tests alone use it.
package recorded

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/sim"
	"github.com/quorate/quorate/internal/kinds/etcdcluster"
	"github.com/quorate/quorate/internal/kinds/stacked"
)

// Recording is all that the commands print of one cluster at one moment.
type Recording struct {
	Key         client.ObjectKey
	Cluster     report.Cluster
	Explanation report.Explanation
	Plans       []report.Plan
	History     report.History
}

// Lives calls do with moments of random worlds, one world after the other, as many as are wanted.
func Lives(seed int64, most int, do func(Recording)) {
	for n := 0; n < most; seed++ {
		world, past := sim.New(sim.Random(seed)), []history.Entry{}
		for turn := 0; turn < 40 && n < most; turn++ {
			o, _ := world.Look()
			d := plan.Next(o)
			if d.Step.Acts() {
				past = append(past, entry(o.Now, d, turn))
			}
			if turn%4 == int(seed)%4 {
				do(Of(fmt.Sprintf("life-%d-%d", seed, turn), o, past))
				n++
			}
			_ = world.Do(d) // luck may have it fail
			world.Advance(o.Now.Add(10 * time.Second))
		}
	}
}

// entry is a step as the history records it.
func entry(at time.Time, d plan.Decision, turn int) history.Entry {
	e := history.Entry{
		Time: at, Step: d.Step.String(), Verb: d.Step.Verb, Machine: d.Step.Machine, Rule: d.Rule, Reason: d.Reason, Message: d.Message,
		Outcome: history.Done, Took: metav1.Duration{Duration: time.Duration(turn) * time.Second},
	}
	if turn%7 == 3 {
		e.Outcome, e.Error, e.Count, e.Last = history.Failed, "the API server refused it", 2, at.Add(time.Second)
	}
	return e
}

// Of is the recording of what was observed of one group of a cluster.
func Of(name string, o plan.Observed, past []history.Entry) Recording {
	key := client.ObjectKey{Namespace: "default", Name: name}
	d := plan.Next(o)
	next := report.Next{Step: string(d.Step.Verb), Rule: d.Rule, Reason: d.Reason, Message: d.Message}
	r := Recording{Key: key, Cluster: facts.Describe(seen(key, o, next))}
	group := "KubeadmControlPlane " + o.Group.Name
	r.Explanation = report.Explanation{
		Cluster: name, Group: group, Decision: d, Verdicts: plan.Explain(o), Reported: next,
	}
	r.History = report.History{Cluster: name, Group: group, Entries: past}
	r.Plans = []report.Plan{report.NewPlan(key, group, o, nil, r.History)}
	return r
}

// seen is what would be read of the cluster.
func seen(key client.ObjectKey, o plan.Observed, next report.Next) facts.Seen {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "172.30.0.10", Port: 6443}
	cluster.Status.Phase = "Provisioned"
	g := &facts.Group{
		Kind: stacked.New(), Key: client.ObjectKey{Namespace: key.Namespace, Name: o.Group.Name}, Replicas: o.Want.Replicas,
		Version: "v1.37.2", Initialized: o.Group.Initialized, Next: next, HoldsQuorum: true,
		Conditions: []metav1.Condition{{Type: "Available", Status: metav1.ConditionTrue, Reason: "Available",
			LastTransitionTime: metav1.NewTime(o.Now)}},
		CertificateExpiry: report.CertificateExpiry{Date: o.Now.AddDate(0, 3, 0), Machine: o.Group.Name + "-1", Component: "kube-apiserver"},
		Recovery: report.Recovery{Wanted: true, Name: "b-" + o.Group.Name, Taken: o.Now.Add(-time.Hour), Revision: 4711, Current: true,
			Reason: "BackupCurrent"},
	}
	s := facts.Seen{
		Objects: &facts.Objects{Cluster: cluster, ControlPlane: g}, Observed: &o, EtcdObserved: map[string]*plan.Observed{},
		View: workload.View{Reachable: true},
	}
	if o.Policy.EtcdOnly {
		g.Kind = etcdcluster.New()
		s.Objects.EtcdClusters, s.EtcdObserved[o.Group.Name] = []*facts.Group{g}, &o
		s.Objects.ControlPlane, s.Observed = nil, nil
	}
	for _, m := range o.Machines {
		s.Objects.Machines = append(s.Objects.Machines, machineOf(key, m))
		if m.Host != "" {
			s.View.Nodes = append(s.View.Nodes, nodeOf(m))
		}
	}
	return s
}

func machineOf(key client.ObjectKey, of plan.Machine) clusterv1.Machine {
	m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: of.Name, CreationTimestamp: metav1.NewTime(of.Created),
		Labels: map[string]string{clusterv1.ClusterNameLabel: key.Name, clusterv1.MachineControlPlaneLabel: ""},
	}}
	if of.Deleting {
		at := metav1.NewTime(of.Created.Add(time.Minute))
		m.DeletionTimestamp = &at
	}
	m.Spec.FailureDomain, m.Spec.Version, m.Spec.ProviderID = of.Domain, "v1.37.2", "local://"+of.Name
	data := of.Name
	m.Spec.Bootstrap.DataSecretName = &data
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionTrue}}
	m.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "172.30.1." + fmt.Sprint(len(of.Name))}}
	return m
}

func nodeOf(m plan.Machine) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Host}}
	n.Spec.ProviderID = "local://" + m.Name
	status := corev1.ConditionFalse
	if m.Ready {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Message: "as recorded"}}
	return n
}
