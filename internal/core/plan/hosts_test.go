package plan

import (
	"testing"
	"time"
)

// TestMembersAsHosts: a machine without a Node is up when its member votes, and ready when that answers.
func TestMembersAsHosts(t *testing.T) {
	answers := Member{Name: "a", Machine: "a", Health: Healthy}
	for _, test := range []struct {
		name string
		// deleting: the machine is. known: it is on record that the group is not new.
		deleting, known bool
		member          Member
		// up, ready and begun tell of the machine, and of its group.
		up, ready, begun bool
	}{
		{"votes and answers", false, false, answers, true, true, true},
		{"votes on a machine that is deleted while it begins", true, false, answers, true, true, false},
		{"votes on a machine that is deleted, in a group that is not new", true, true, answers, true, true, true},
		{"votes and is silent", false, false, Member{Name: "a", Machine: "a", Health: Unhealthy, Why: "refused"}, true, false, true},
		{"votes and was not asked", false, false, Member{Name: "a", Machine: "a", Health: Unknown}, true, false, true},
		{"learns", false, false, Member{Name: "a", Machine: "a", Health: Healthy, Learner: true}, false, false, false},
		{"has not started", false, false, Member{Machine: "a"}, false, false, false},
		{"is on another machine", false, false, Member{Name: "b", Machine: "b", Health: Healthy}, false, false, false},
	} {
		created := time.Unix(100, 0)
		o := Observed{Group: Group{New: !test.known}, Machines: []Machine{{Name: "a", Created: created, Deleting: test.deleting}},
			Etcd: Etcd{Members: []Member{test.member}}}
		o.AddMembersAsHosts()
		facts := o.Machines[0]
		if (facts.Host == "a") != test.up || facts.Ready != test.ready || o.Group.Initialized != test.begun || o.Group.New == test.begun {
			t.Errorf("%s: the machine is %+v, the group %+v", test.name, facts, o.Group)
		}
		if !test.up {
			continue
		}
		want := Component{Name: "etcd", Health: test.member.Health, Why: test.member.Why}
		if !facts.UpSince.Equal(created) || len(facts.Components) != 1 || facts.Components[0] != want {
			t.Errorf("%s: up since %s with %+v", test.name, facts.UpSince, facts.Components)
		}
	}
}
