package stacked

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/observe"
)

// made returns a Machine from words: its name, then "node=", "id=", "ip=" and "host=".
func made(words string) *clusterv1.Machine {
	name, rest, _ := strings.Cut(words, " ")
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, word := range strings.Fields(rest) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "node":
			m.Status.NodeRef.Name = value
		case "id":
			m.Spec.ProviderID = value
		case "ip":
			m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: value})
		case "gone":
			m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			if value == "held" {
				m.Annotations = map[string]string{machine.Hook: ""}
			}
		case "host":
			m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: value})
		}
	}
	return m
}

// registered returns a Node from words: its name, then "id=" and "ip=".
func registered(words string) corev1.Node {
	name, rest, _ := strings.Cut(words, " ")
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, word := range strings.Fields(rest) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "id":
			n.Spec.ProviderID = value
		case "ip":
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: value})
		}
	}
	return n
}

func all[T, S any](of func(S) T, words []S) []T {
	var out []T
	for _, w := range words {
		out = append(out, of(w))
	}
	return out
}

func TestNodesOf(t *testing.T) {
	tests := []struct {
		name            string
		machines, nodes []string
		want            string
	}{
		{"by reference, whatever else agrees", []string{"m1 node=n1 id=x"}, []string{"n2 id=x", "n1"}, "m1:n1"},
		{"a reference to a Node that is gone finds no other", []string{"m1 node=n1 id=x ip=10.0.0.1"}, []string{"m1 id=x ip=10.0.0.1"}, ""},
		{"by provider ID before the reference is set", []string{"m1 id=x", "m2 id=y"}, []string{"n2 id=y", "n1 id=x"}, "m1:n1 m2:n2"},
		{"no provider ID is none in common", []string{"m1"}, []string{"n1"}, ""},
		{"by name", []string{"m1"}, []string{"m1"}, "m1:m1"},
		{"by host name", []string{"m1 host=ip-10-0-0-1"}, []string{"ip-10-0-0-1"}, "m1:ip-10-0-0-1"},
		{"by address", []string{"m1 ip=10.0.0.1", "m2 ip=10.0.0.2"}, []string{"n2 ip=10.0.0.2"}, "m2:n2"},
		{"by address in another spelling", []string{"m1 ip=fd00::1"}, []string{"n1 ip=fd00:0::1"}, "m1:n1"},
		{"not by name against the provider ID", []string{"m1 id=new"}, []string{"m1 id=old"}, ""},
		{"not by address against the provider ID", []string{"m1 id=new ip=10.0.0.1"}, []string{"n1 id=old ip=10.0.0.1"}, ""},
		{"a Node has one machine, the surer one", []string{"m1 ip=10.0.0.1", "m2 node=n1"}, []string{"n1 ip=10.0.0.1"}, "m2:n1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := machine.Nodes(all(made, test.machines), all(registered, test.nodes))
			mine := observe.Mine(all(made, test.machines)...)
			var got []string
			for _, m := range slices.Sorted(maps.Keys(found)) {
				got = append(got, m+":"+found[m].Name)
				if node := found[m]; !mine.Names[node.Name] && !mine.ProviderIDs[node.Spec.ProviderID] &&
					!mine.Addresses[workload.NormalAddress(machine.NodeIP(node))] {
					t.Errorf("Node %s, which belongs to machine %s, would be left out of the view", node.Name, m)
				}
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("found %q, want %q", text, test.want)
			}
		})
	}
}

func TestMachineFacts(t *testing.T) {
	born, joined := time.Unix(1000, 0), time.Unix(2000, 0)
	node := testNode("n1")
	node.CreationTimestamp = metav1.NewTime(joined)
	silent := *node.DeepCopy()
	silent.Status.Conditions[0].Status = corev1.ConditionUnknown
	unready := *node.DeepCopy()
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	up := workload.View{Reachable: true, Pods: testPods("n1")}
	down := workload.View{Pods: testPods("n1")}
	without := workload.View{Reachable: true, Pods: testPods("n1")[1:]}
	tests := []struct {
		name    string
		machine *clusterv1.Machine
		node    *corev1.Node
		view    workload.View
		stacked bool
		want    string
	}{
		{"no Node", made("m1"), nil, up, true, "node= since=0 ready=false etcd?:the machine has no Node kube-apiserver?:the machine has no " +
			"Node kube-controller-manager?:the machine has no Node kube-scheduler?:the machine has no Node"},
		{"all up", made("m1"), &node, up, true,
			"node=n1 since=2000 ready=true etcd=Healthy kube-apiserver=Healthy kube-controller-manager=Healthy kube-scheduler=Healthy"},
		{"external etcd", made("m1"), &node, up, false,
			"node=n1 since=2000 ready=true kube-apiserver=Healthy kube-controller-manager=Healthy kube-scheduler=Healthy"},
		{"what was last seen is not believed", made("m1"), &node, down, false, "node=n1 since=2000 ready=false kube-apiserver?:the API server " +
			"is not reachable kube-controller-manager?:the API server is not reachable kube-scheduler?:the API server is not reachable"},
		{"a silent kubelet's pods are not believed", made("m1"), &silent, up, false, "node=n1 since=2000 ready=false kube-apiserver?:Node n1 " +
			"does not report kube-controller-manager?:Node n1 does not report kube-scheduler?:Node n1 does not report"},
		{"components count although the Node is not ready", made("m1"), &unready, up, false,
			"node=n1 since=2000 ready=false kube-apiserver=Healthy kube-controller-manager=Healthy kube-scheduler=Healthy"},
		{"a missing pod", made("m1"), &node, without, true, "node=n1 since=2000 ready=true etcd?:there is no pod etcd-n1 " +
			"kube-apiserver=Healthy kube-controller-manager=Healthy kube-scheduler=Healthy"},
		{"a Node that is gone keeps its name", made("m1 node=n1"), nil, up, false, "node=n1 since=0 ready=false kube-apiserver?:the machine " +
			"has no Node kube-controller-manager?:the machine has no Node kube-scheduler?:the machine has no Node"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.machine.CreationTimestamp = metav1.NewTime(born)
			got := observe.MachineFacts(test.machine, test.node, test.view, pods(test.stacked))
			if !got.Created.Equal(born) {
				t.Errorf("created at %v", got.Created)
			}
			since := int64(0)
			if !got.UpSince.IsZero() {
				since = got.UpSince.Unix()
			}
			text := fmt.Sprintf("node=%s since=%d ready=%v", got.Host, since, got.Ready)
			for _, c := range got.Components {
				text += " " + c.Name + map[bool]string{true: "?:" + c.Why, false: "=" + string(c.Health)}[c.Health == plan.Unknown]
			}
			if text != test.want {
				t.Errorf("facts are\n%s\nwant\n%s", text, test.want)
			}
		})
	}
}

func TestDeletingFacts(t *testing.T) {
	m := made("m1")
	m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	m.Annotations = map[string]string{"pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""}
	got := observe.MachineFacts(m, nil, workload.View{}, pods(true))
	if !got.Deleting || !got.Hook || got.HookDue {
		t.Errorf("deleting %v, hook %v, due %v, want true, true, false", got.Deleting, got.Hook, got.HookDue)
	}
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue,
		Reason: clusterv1.MachineDeletingWaitingForPreTerminateHookReason}}
	if got = observe.MachineFacts(m, nil, workload.View{}, pods(true)); !got.HookDue {
		t.Error("the hook is due, and the facts do not say so")
	}
}

func TestMachineOf(t *testing.T) {
	peer := func(ip string) []string { return []string{"https://" + ip + ":2380"} }
	tests := []struct {
		name     string
		machines []string
		nodes    []string
		member   etcd.Member
		want     string
	}{
		{"by the Node's name", []string{"m1 node=n1"}, []string{"n1"}, etcd.Member{Name: "n1"}, "m1"},
		{"not started: by address", []string{"m1 ip=10.0.0.1", "m2 ip=10.0.0.2"}, nil, etcd.Member{PeerURLs: peer("10.0.0.2")}, "m2"},
		{"not started, Node registered: by the Node's address", []string{"m1 id=x"}, []string{"n1 id=x ip=10.0.0.1"},
			etcd.Member{PeerURLs: peer("10.0.0.1")}, "m1"},
		{"started before its Node is registered: by address", []string{"m1 ip=10.0.0.1"}, nil,
			etcd.Member{Name: "n1", PeerURLs: peer("10.0.0.1")}, "m1"},
		{"and by its host name", []string{"m1 ip=10.0.0.1 host=n1"}, nil, etcd.Member{Name: "n1", PeerURLs: peer("10.0.0.1")}, "m1"},
		{"an address that was given out again", []string{"m2 ip=10.0.0.1 host=m2"}, nil, etcd.Member{Name: "m1", PeerURLs: peer("10.0.0.1")}, ""},
		{"the same with the Node registered", []string{"m2 id=x ip=10.0.0.1"}, []string{"n2 id=x"},
			etcd.Member{Name: "n1", PeerURLs: peer("10.0.0.1")}, ""},
		{"IPv6", []string{"m1 ip=fd00::1"}, nil, etcd.Member{PeerURLs: peer("[fd00:0:0::1]")}, "m1"},
		{"nobody's", []string{"m1 ip=10.0.0.1"}, nil, etcd.Member{Name: "n9", PeerURLs: peer("10.0.0.9")}, ""},
		{"without an address nobody's", []string{"m1"}, nil, etcd.Member{PeerURLs: []string{"https://:2380", "%"}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := begin(testKCP(3), testCluster(), all(made, test.machines), nil, time.Now())
			s.See(workload.View{Reachable: true, Nodes: all(registered, test.nodes)})
			if got := s.MachineOf(test.member); got != test.want {
				t.Errorf("runs on %q, want %q", got, test.want)
			}
		})
	}
}

func TestMemberTimes(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	learner := plan.Member{ID: "1", Learner: true}
	started := plan.Member{ID: "1", Name: "n1", Learner: true}
	healthy := plan.Member{ID: "1", Name: "n1", Learner: true, Health: plan.Healthy}
	voter := plan.Member{ID: "1", Name: "n1", Health: plan.Healthy}
	leader := plan.Member{ID: "1", Name: "n1", Health: plan.Healthy, Leader: true}
	placed := plan.Member{ID: "1", Name: "n1", Health: plan.Healthy, Machine: "m1"}
	tests := []struct {
		name   string
		member *plan.Member
		want   int
	}{
		{"first seen", &learner, 0},
		{"the same", &learner, 0},
		{"has a name", &started, 2},
		{"is healthy", &healthy, 3},
		{"votes", &voter, 4},
		{"leads, which is no new state", &leader, 4},
		{"gone", nil, 0},
		{"back", &voter, 7},
		{"its machine is found", &placed, 8},
		{"the same there", &placed, 8},
		{"its machine is missing from one look", &voter, 10},
	}
	times := &observe.MemberTimes{}
	for i, test := range tests {
		members := []plan.Member{}
		if test.member != nil {
			members = append(members, *test.member)
		}
		times.Stamp(members, at(i))
		if test.member != nil && !members[0].Since.Equal(at(test.want)) {
			t.Errorf("%s: since %d, want %d", test.name, members[0].Since.Unix(), test.want)
		}
	}
}

func TestAddEtcdSortsAndTimes(t *testing.T) {
	s := begin(testKCP(3), testCluster(), nil, nil, time.Now())
	times := &observe.MemberTimes{}
	s.AddEtcd(etcd.Survey{Known: true, Members: []etcd.Member{{ID: 0xb}, {ID: 0xa}}}, times, time.Unix(5, 0))
	if got := s.Facts.Etcd.Members; got[0].ID != "a" || got[1].ID != "b" || got[0].Since.Unix() != 5 {
		t.Errorf("members are %+v", got)
	}
	s.AddEtcd(etcd.Survey{Members: []etcd.Member{{ID: 0xa}}}, times, time.Unix(6, 0))
	if got := s.Facts.Etcd.Members[0]; !got.Since.IsZero() {
		t.Errorf("a list that is not known dates its members: %+v", got)
	}
	s.AddEtcd(etcd.Survey{Known: true, Members: []etcd.Member{{ID: 0xa}}}, times, time.Unix(7, 0))
	if got := s.Facts.Etcd.Members[0]; got.Since.Unix() != 5 {
		t.Errorf("since %d, want 5: a list that is not known must not make anybody forget", got.Since.Unix())
	}
}

func TestTargets(t *testing.T) {
	to := func(node, ip string) etcd.Target { return etcd.Target{Name: node + "@" + ip} }
	names := func(targets []etcd.Target) string {
		var list []string
		for _, t := range targets {
			list = append(list, t.Name)
		}
		return strings.Join(list, " ")
	}
	stray := registered("n9 ip=10.0.0.9")
	known := registered("n1 ip=10.0.1.1")
	stray.Labels = map[string]string{machine.NodeLabel: ""}
	known.Labels = stray.Labels
	s := begin(testKCP(3), testCluster(),
		all(made, []string{"m1 node=n1 ip=10.0.0.1", "m2 node=n2 ip=10.0.0.2", "m3 ip=10.0.0.3", "m4 ip=10.0.0.4",
			"m5 node=n5 ip=10.0.0.5 gone=held", "m6 node=n6 ip=10.0.0.6 gone=released", "m7 node=n7 ip=10.0.0.7 gone=held"}), nil, time.Now())
	released := registered("n6 ip=10.0.0.6")
	released.Labels = stray.Labels
	s.See(workload.View{Nodes: []corev1.Node{known, registered("worker ip=10.0.0.8"), stray, released}})
	s.Left = "m7" // its member was just removed; its hook is still there
	targets := s.Targets(to)
	if got, want := names(targets), "n1@10.0.1.1 n2@10.0.0.2 n5@10.0.0.5 n9@10.0.0.9"; got != want {
		t.Errorf("targets are %q, want %q", got, want)
	}
	s.Left = "m2" // a machine that stays may have a member again
	if got, want := names(s.Targets(to)), "n1@10.0.1.1 n2@10.0.0.2 n5@10.0.0.5 n7@10.0.0.7 n9@10.0.0.9"; got != want {
		t.Errorf("targets are %q, want %q", got, want)
	}
	survey := etcd.Survey{Members: []etcd.Member{
		{ID: 1, Name: "n1@10.0.1.1"}, // has a target already
		{ID: 2, Name: "m3", PeerURLs: []string{"https://10.0.0.3:2380"}},
		{ID: 3, PeerURLs: []string{"https://10.0.0.4:2380"}}, // has not started
		{ID: 4, Name: "gone", PeerURLs: []string{"https://10.0.0.7:2380"}},
	}}
	if got, want := names(s.Unregistered(survey, to, targets)), "m3@10.0.0.3"; got != want {
		t.Errorf("targets without a Node are %q, want %q", got, want)
	}
}

func TestNewestFact(t *testing.T) {
	at := func(n int64) metav1.Time { return metav1.NewTime(time.Unix(n, 0)) }
	base := func() *group.Turn {
		kcp, m := testKCP(1), made("m1")
		kcp.CreationTimestamp, m.CreationTimestamp = at(10), at(11)
		return begin(kcp, testCluster(), []*clusterv1.Machine{m}, nil, time.Now())
	}
	tests := []struct {
		name string
		add  func(*group.Turn)
		want int64
	}{
		{"the Machine", func(*group.Turn) {}, 11},
		{"its deletion", func(s *group.Turn) { now := at(12); s.Machines[0].DeletionTimestamp = &now }, 12},
		{"its deletion's progress", func(s *group.Turn) {
			s.Machines[0].Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, LastTransitionTime: at(13)}}
		}, 13},
		{"its Node", func(s *group.Turn) { s.Facts.Machines[0].UpSince = time.Unix(14, 0) }, 14},
		{"its Node's readiness", func(s *group.Turn) {
			s.Machines[0].Node = &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
				LastTransitionTime: at(18)}}}}
		}, 18},
		{"a pod", func(s *group.Turn) {
			s.Inside.Pods = []corev1.Pod{
				{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, LastTransitionTime: at(15)}}}}}
		}, 15},
		{"a member", func(s *group.Turn) { s.Facts.Etcd.Members = []plan.Member{{Since: time.Unix(16, 0)}} }, 16},
		{"the infrastructure", func(s *group.Turn) {
			s.Cluster.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterInfrastructureReadyCondition, LastTransitionTime: at(17)}}
		}, 17},
	}
	for _, test := range tests {
		s := base()
		test.add(s)
		if got := s.NewestFact(of(s.View)).Unix(); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestDomainsAndWants(t *testing.T) {
	kcp := testKCP(5)
	one := int32(1)
	kcp.Spec.Joins.MaxParallel, kcp.Spec.Joins.Overlap = &one, ptr.To(true)
	kcp.Spec.Joins.TimeoutSeconds = ptr.To[int32](7200)
	kcp.Annotations = map[string]string{"controlplane.cluster.x-k8s.io/quorate-last-machine": "7"}
	o := begin(kcp, testCluster(), nil, []string{"w"}, time.Unix(1, 0)).Facts
	if got := strings.Join(o.Want.Domains, " "); got != "a b c" {
		t.Errorf("domains are %q, want those for control planes, sorted", got)
	}
	if o.Want.Replicas != 5 || o.Policy.MaxParallel != 1 || !o.Policy.Overlap || o.Policy.MemberAdd != 2*time.Hour ||
		o.Group.LastMachine != 7 || o.Want.NameFormat != "demo-cp-%s" || !o.Policy.Learners || !o.Etcd.Ours() {
		t.Errorf("wants are %+v, policy %+v, group %+v", o.Want, o.Policy, o.Group)
	}
	if o.Cluster.Endpoint != "172.30.0.10:6443" || !o.Cluster.Infrastructure || cmp.Or(o.Workers...) != "w" {
		t.Errorf("cluster is %+v", o.Cluster)
	}
	kcp.Spec.Replicas = nil
	kcp.Spec.Version = "v1.28.9"
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://etcd:2379"}
	cluster := testCluster()
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "only-a-host"}
	o = begin(kcp, cluster, nil, nil, time.Unix(1, 0)).Facts
	if o.Want.Replicas != 1 || o.Policy.Learners || o.Etcd.Ours() || o.Cluster.Endpoint != "" {
		t.Errorf("wants are %+v, etcd %+v, endpoint %q", o.Want, o.Etcd, o.Cluster.Endpoint)
	}
	kcp.Spec.Version = "v1.30.0"
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.FeatureGates = map[string]bool{"EtcdLearnerMode": false}
	if begin(kcp, cluster, nil, nil, time.Unix(1, 0)).Facts.Policy.Learners {
		t.Error("learners, although the user turned them off")
	}
	if o.Policy.EtcdCall != 0 {
		t.Errorf("kubeadm's limit for etcd is %s, and the spec sets none", o.Policy.EtcdCall)
	}
	kcp.Spec.KubeadmConfigSpec.JoinConfiguration.Timeouts.EtcdAPICallSeconds = ptr.To[int32](300)
	if limit := begin(kcp, cluster, nil, nil, time.Unix(1, 0)).Facts.Policy.EtcdCall; limit != 5*time.Minute {
		t.Errorf("kubeadm's limit for etcd is %s, the spec says 300 s", limit)
	}
}

func TestHolds(t *testing.T) {
	kcp := testKCP(3)
	kcp.Spec.Version = "latest"
	if s := begin(kcp, testCluster(), nil, nil, time.Now()); s.Facts.Want.Refused.Reason != "InvalidVersion" {
		t.Errorf("with a version that is none: %+v", s.Facts.Want.Refused)
	}
	kcp = testKCP(3)
	kcp.Spec.MachineNaming.Template = "{{ .cluster.name }}"
	if s := begin(kcp, testCluster(), nil, nil, time.Now()); s.Facts.Want.Refused.Reason != "InvalidMachineNaming" {
		t.Errorf("with names that are all the same: %+v", s.Facts.Want.Refused)
	}
	// Stored before the schema and the webhook refused it.
	kcp = testKCP(0)
	if s := begin(kcp, testCluster(), nil, nil, time.Now()); s.Facts.Want.Refused.Reason != "InvalidReplicas" ||
		!strings.Contains(s.Facts.Want.Refused.Message, "spec.replicas is 0") {
		t.Errorf("with no machine wanted: %+v", s.Facts.Want.Refused)
	}
}

// pods are the components of a machine with etcd on it, or without.
func pods(etcd bool) []string {
	kcp := testKCP(3)
	if !etcd {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://etcd:2379"}
	}
	return New().Spec(kcp).Components
}
