package observe

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// surveys gives one survey after the other.
type surveys struct {
	give  []etcd.Survey
	given int
}

// Survey implements Surveyor.
func (s *surveys) Survey(context.Context, []etcd.Target) etcd.Survey {
	s.given++
	return s.give[s.given-1]
}

// TestAskTwice: what a member says that was asked at an address of which nobody knows whose it is counts only if it is good.
func TestAskTwice(t *testing.T) {
	is := func(h plan.Health) etcd.Survey {
		return etcd.Survey{Known: true, Members: []etcd.Member{{ID: 1, Name: "n", Health: h}}}
	}
	for _, test := range []struct {
		name, address string
		give          []etcd.Survey
		// second: asked by the second way too.
		second bool
	}{
		{"all is well", "10.0.0.1", []etcd.Survey{is(plan.Healthy)}, false},
		{"one does not answer", "10.0.0.1", []etcd.Survey{is(plan.Unhealthy), is(plan.Healthy)}, true},
		{"of one nothing is known", "10.0.0.1", []etcd.Survey{is(plan.Unknown), is(plan.Healthy)}, true},
		{"none answers", "10.0.0.1", []etcd.Survey{{Why: "no answer"}, is(plan.Healthy)}, true},
		{"no address is known", "", []etcd.Survey{is(plan.Unhealthy)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			node := &corev1.Node{}
			if test.address != "" {
				node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: test.address}}
			}
			o := &View{Machines: []*Machine{{Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, Node: node,
				Facts: &plan.Machine{Name: "m", Host: "n"}}}}
			ways := [2]int{}
			by := func(i int) Dial {
				return func(node, _ string) etcd.Target { ways[i]++; return etcd.Target{Name: node} }
			}
			got := matching{o}.askTwice(t.Context(), &surveys{give: test.give}, by(0), by(1))
			if last := test.give[len(test.give)-1]; got.Known != last.Known || got.Members[0].Health != last.Members[0].Health {
				t.Errorf("it is %+v, want %+v", got, last)
			}
			if ways[0] != 1 || (ways[1] == 1) != test.second {
				t.Errorf("asked %d times by the first way, %d times by the second", ways[0], ways[1])
			}
		})
	}
}
