package stacked

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

func TestMatch(t *testing.T) {
	peer := func(ip string) []string { return []string{"https://" + ip + ":2380"} }
	three := []string{"m1 id=a ip=10.0.0.1", "m2 id=b ip=10.0.0.2", "m3 id=c ip=10.0.0.3"}
	nodes := []string{"n1 id=a ip=10.0.0.1", "n2 id=b ip=10.0.0.2", "n3 id=c ip=10.0.0.3"}
	tests := []struct {
		name            string
		machines, nodes []string
		members         []etcd.Member
		want            string
		contradiction   string
	}{
		{"as kubeadm makes them", three, nodes, []etcd.Member{{Name: "n1", PeerURLs: peer("10.0.0.1")}, {Name: "n2", PeerURLs: peer("10.0.0.2")},
			{PeerURLs: peer("10.0.0.3")}}, "m1 m2 m3", ""},
		{"names of their own, they live", three, nodes, []etcd.Member{{Name: "red", Health: plan.Healthy, PeerURLs: peer("10.0.0.1")},
			{Name: "blue", Health: plan.Healthy, PeerURLs: peer("10.0.0.2")}}, "m1 m2", ""},
		{"a name of its own, it answered on a Node", three, nodes,
			[]etcd.Member{{Name: "red", At: "n2", Health: plan.Unhealthy, PeerURLs: peer("172.16.0.9")}}, "m2", ""},
		{"a name of its own, and it does not live", three, nodes, []etcd.Member{{Name: "red", PeerURLs: peer("10.0.0.1")}}, "-", ""},
		{"an old member at an address that was given out again", three, nodes,
			[]etcd.Member{{Name: "n1", Health: plan.Healthy, PeerURLs: peer("10.0.0.1")},
				{Name: "old", Health: plan.Unhealthy, PeerURLs: peer("10.0.0.1")}}, "m1 -", ""},
		{"the machine has a member already", three, nodes, []etcd.Member{{Name: "n1", Health: plan.Healthy, PeerURLs: peer("10.0.0.1")},
			{Name: "old", Health: plan.Healthy, PeerURLs: peer("10.0.0.1")}}, "m1 -", ""},
		{"an address of several machines tells nothing", []string{"m1 id=a ip=10.0.2.15", "m2 id=b ip=10.0.2.15"}, []string{"n1 id=a", "n2 id=b"},
			[]etcd.Member{{Name: "red", Health: plan.Healthy, PeerURLs: peer("10.0.2.15")}}, "-", ""},
		{"the name of a Node without a machine", three, append(nodes, "n9 ip=10.0.0.9"),
			[]etcd.Member{{Name: "n9", Health: plan.Healthy, PeerURLs: peer("10.0.0.9")}}, "-", ""},
		{"no Node yet: by host name, the address is not known", []string{"m1 host=n1"}, nil,
			[]etcd.Member{{Name: "n1", PeerURLs: peer("10.0.0.1")}}, "m1", ""},
		{"no Node yet: the host name is another's at another address", []string{"m1 host=n1 ip=10.0.0.1"}, nil,
			[]etcd.Member{{Name: "n1", PeerURLs: peer("10.0.0.8")}}, "-", ""},
		{"name and address tell of two machines", three, nodes,
			[]etcd.Member{{ID: 0x1a, Name: "n1", Health: plan.Healthy, PeerURLs: peer("10.0.0.2")}}, "m1",
			"etcd member 1a has the name n1, which is that of machine m1, and is found at machine m2 (peer address https://10.0.0.2:2380): a " +
				"person must see on which of them it runs"},
		{"name and answer tell of two machines", three, nodes,
			[]etcd.Member{{ID: 0x1a, Name: "n1", At: "n2", Health: plan.Healthy, PeerURLs: peer("10.0.0.1")}}, "m1",
			"etcd member 1a has the name n1, which is that of machine m1, and is found at machine m2 (peer address https://10.0.0.1:2380): a " +
				"person must see on which of them it runs"},
		{"its answer confirms the name, whatever its address", three, nodes,
			[]etcd.Member{{Name: "n1", At: "n1", Health: plan.Healthy, PeerURLs: peer("10.0.0.2")}}, "m1", ""},
		{"it is dead", three, nodes, []etcd.Member{{Name: "n1", Health: plan.Unhealthy, PeerURLs: peer("10.0.0.2")}}, "m1", ""},
		{"one of the two is leaving", []string{three[0], three[1] + " gone=held", three[2]}, nodes,
			[]etcd.Member{{Name: "n1", Health: plan.Healthy, PeerURLs: peer("10.0.0.2")}}, "m1", ""},
		{"an address that nobody knows", three, nodes, []etcd.Member{{Name: "n1", Health: plan.Healthy, PeerURLs: peer("192.168.7.7")}}, "m1",
			""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := begin(testKCP(3), testCluster(), all(made, test.machines), nil, time.Now())
			s.See(workload.View{Reachable: true, Nodes: all(registered, test.nodes)})
			for i := range test.members {
				if test.members[i].ID == 0 {
					test.members[i].ID = uint64(i + 1)
				}
			}
			s.AddEtcd(etcd.Survey{Known: true, Agreed: true, Members: test.members}, &observe.MemberTimes{}, time.Now())
			matched := s.Match(test.members)
			var got []string
			for _, m := range test.members {
				on := matched.Hosts[m.ID]
				if on == "" {
					on = "-"
				}
				got = append(got, on)
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("found %q, want %q", text, test.want)
			}
			if e := s.Facts.Etcd; e.Agreed != (test.contradiction == "") || e.Why != test.contradiction {
				t.Errorf("agreed %t, because %q\nwant %q", e.Agreed, e.Why, test.contradiction)
			}
		})
	}
}

// TestOwnNames: members whose names are configured are no strays, and are not removed.
func TestOwnNames(t *testing.T) {
	w := grown(t, 3)
	for i, m := range w.machines() {
		m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: fmt.Sprintf("10.0.0.%d", i+1)}}
		if err := w.client.Status().Update(context.Background(), &m); err != nil {
			t.Fatal(err)
		}
		w.members[i].PeerURLs = []string{fmt.Sprintf("https://10.0.0.%d:2380", i+1)}
	}
	w.forgetEtcd()
	s := w.scene()
	survey := s.Survey
	for i := range survey.Members {
		survey.Members[i].Name = fmt.Sprintf("etcd-%d", i)
	}
	s.AddEtcd(survey, &observe.MemberTimes{}, time.Now())
	d := plan.Next(s.Facts)
	if d.Step.Verb != plan.Nothing {
		t.Errorf("decided %s; members %+v", d, s.Facts.Etcd.Members)
	}
}

// TestMachineMissingFromOneLook: a voter whose Machine a person has unlabelled has its 20 seconds.
func TestMachineMissingFromOneLook(t *testing.T) {
	w := grown(t, 3)
	seen := w.r.Memories.Of(kcpKey).Since.Seen
	for id, s := range seen {
		s.Since = s.Since.Add(-time.Hour)
		seen[id] = s
	}
	m := w.machine("demo-cp-2")
	delete(m.Labels, clusterv1.MachineControlPlaneLabel)
	if err := w.client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	w.forgetEtcd()
	w.turn()
	if len(w.members) != 3 {
		t.Errorf("its voter was removed at once: %+v, %+v", w.members, conditions.Get(w.kcp(), "EtcdClusterHealthy"))
	}
}
