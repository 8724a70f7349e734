package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
)

// TestStanding: the most urgent reason counts, and a cluster with a missing value never stands as wanted.
func TestStanding(t *testing.T) {
	silent := func(n int) Etcd {
		var members []plan.Member
		for i, id := range []string{"a", "b", "c"} {
			members = append(members, member(id, "demo-cp-"+string(rune('1'+i)), func(m *plan.Member) {
				if i < n {
					m.Health = plan.Unhealthy
				}
			}))
		}
		return NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true, Members: members})
	}
	for _, test := range []struct {
		name     string
		change   func(*Cluster)
		want     Level
		why      string
		writable Level
	}{
		{"as wanted", func(*Cluster) {}, AsWanted, "all is as wanted", AsWanted},
		{"quorum lost", func(c *Cluster) { c.Etcd, c.Problem = silent(2), "no answer" }, QuorumLost, "QUORUM LOST: 1 of 3", QuorumLost},
		{"quorum lost, as is reported", func(c *Cluster) {
			c.Etcd, c.ControlPlane.Next = Etcd{Managed: true}, Next{Step: "Wait", Reason: "QuorumLost", Message: "2 of 3 are silent"}
		}, QuorumLost, "2 of 3 are silent", Unknown},
		{"quorum lost of an EtcdCluster", func(c *Cluster) {
			c.Etcd, c.EtcdClusters = Etcd{}, []EtcdCluster{{Name: "e", Current: true, Next: Next{Step: "Nothing"}, Etcd: silent(3)}}
		}, QuorumLost, "QUORUM LOST: 0 of 3", QuorumLost},
		{"being deleted", func(c *Cluster) { c.Deleting, c.Problem = true, "no answer" }, Working, "deleted", Broken},
		{"no answer", func(c *Cluster) { c.Problem = "the API server does not answer" }, Broken, "does not answer", Broken},
		{"phase Failed", func(c *Cluster) { c.Phase = "Failed" }, Broken, "Failed", AsWanted},
		{"expired", func(c *Cluster) { c.ControlPlane.CertificateExpiry.Past = true }, Broken, "has expired", AsWanted},
		{"a machine failed", func(c *Cluster) {
			c.ControlPlane.Machines[1].Failed, c.ControlPlane.Machines[1].Waiting = true, "kubeadm join"
		},
			Broken, "demo-cp-2 failed: kubeadm join", AsWanted},
		{"members disagree", func(c *Cluster) {
			c.Etcd = NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Why: "two lists", Members: c.Etcd.Members})
		}, Broken, "two lists", Unknown},
		{"an alarm", func(c *Cluster) {
			members := slices.Clone(c.Etcd.Members)
			members[1].Alarms = []string{"NOSPACE"}
			c.Etcd = NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true, Members: members})
		}, Broken, "raised the alarm NOSPACE", Unknown},
		{"an alarm of a member that is gone", func(c *Cluster) {
			c.Etcd = NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true, Members: c.Etcd.Members,
				StrayAlarms: []string{"the alarm NOSPACE of member 7 is still active"}})
		}, Broken, "of member 7", Unknown},
		{"one silent, as etcd says it", func(c *Cluster) {
			c.Etcd = silent(1)
			c.Etcd.Why = "demo-cp-1: does not answer"
		}, AtRisk, "can stand no failure; demo-cp-1: does not answer", AsWanted},
		{"no control plane", func(c *Cluster) { c.ControlPlane = ControlPlane{} }, Unknown, "no control plane", Unknown},
		{"no newest spec", func(c *Cluster) { c.ControlPlane.Current = false }, Unknown, "newest spec", AsWanted},
		{"no step", func(c *Cluster) { c.ControlPlane.Next = Next{} }, Unknown, "no step", AsWanted},
		{"no list of members", func(c *Cluster) { c.Etcd = Etcd{Managed: true, Why: "timeout"} }, Unknown, "not known: timeout", Unknown},
		{"no members", func(c *Cluster) { c.Etcd = Etcd{Managed: true, Known: true} }, Unknown, "not known", Unknown},
		{"an approval", func(c *Cluster) {
			c.ControlPlane.Next = Next{Step: "Wait", Reason: "ApprovalRequired", Message: "revision 1"}
		},
			ForPerson, "revision 1", AsWanted},
		{"an approval without words", func(c *Cluster) { c.ControlPlane.Next = Next{Step: "Wait", Reason: "ApprovalRequired"} },
			ForPerson, "ApprovalRequired", AsWanted},
		{"paused", func(c *Cluster) { c.Paused = true }, ForPerson, "paused", AsWanted},
		{"one silent", func(c *Cluster) { c.Etcd = silent(1) }, AtRisk, "can stand no failure", AsWanted},
		{"expires soon", func(c *Cluster) { c.ControlPlane.CertificateExpiry.Soon = true }, AtRisk, "expires soon", AsWanted},
		{"no backup", func(c *Cluster) { c.ControlPlane.Recovery = Recovery{Wanted: true, Reason: "NoBackup"} }, AtRisk, "no backup", AsWanted},
		{"machines join", func(c *Cluster) {
			c.ControlPlane.Next = Next{Step: "Wait", Reason: "Joining", Message: "2 machines join"}
		},
			Working, "2 machines join", AsWanted},
		{"external etcd", func(c *Cluster) { c.Etcd = Etcd{} }, AsWanted, "as wanted", Unknown},
	} {
		c := healthyCluster()
		c.ControlPlane.Machines = slices.Clone(c.ControlPlane.Machines)
		test.change(&c)
		if got := c.Standing(); got.Level != test.want || !strings.Contains(got.Why, test.why) {
			t.Errorf("%s: %s: %s, want %s: %s", test.name, got.Level, got.Why, test.want, test.why)
		}
		if got := c.Writable(); got.Level != test.writable || got.Why == "" {
			t.Errorf("%s: writable: %s: %s, want %s", test.name, got.Level, got.Why, test.writable)
		}
	}
	if len(Levels()) != len(words) || !slices.IsSorted(Levels()) {
		t.Errorf("the levels are %v", Levels())
	}
}
