package observe

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
)

// at gives a Machine an address.
func at(m *clusterv1.Machine, ip string) *clusterv1.Machine {
	m.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: ip}}
	return m
}

// TestMemberTargets: who has an address is asked, but for who has left.
func TestMemberTargets(t *testing.T) {
	machines := append([]*clusterv1.Machine{at(grouptest.Machines("z")[0], "10.0.0.9"), grouptest.Machines("no-address")[0]},
		at(grouptest.Machines("stays")[0], "10.0.0.1"), at(grouptest.Machines("held gone=held")[0], "10.0.0.2"),
		at(grouptest.Machines("released gone=held")[0], "10.0.0.3"), at(grouptest.Machines("left gone=held")[0], "10.0.0.4"))
	o := NewView(grouptest.Cluster(), machines, plan.Observed{})
	o.Nodeless, o.Left = true, "left"
	for i, m := range machines {
		o.Facts.Machines[i].Deleting, o.Facts.Machines[i].Hook = m.DeletionTimestamp != nil, m.Name != "released"
	}
	var got []string
	for _, target := range o.Targets(func(name, ip string) etcd.Target { return etcd.Target{Name: name + "@" + ip} }) {
		got = append(got, target.Name)
	}
	if want := "held@10.0.0.2 stays@10.0.0.1 z@10.0.0.9"; strings.Join(got, " ") != want {
		t.Errorf("asked are %v, want %s", got, want)
	}
	o.Left = "stays" // a machine that stays may have a member again
	if n := len(o.Targets(dialDirectly)); n != 4 {
		t.Errorf("%d are asked, want 4", n)
	}
}

// TestNodelessMatch: a member has its machine's name, or its address before it has one.
func TestNodelessMatch(t *testing.T) {
	o := NewView(grouptest.Cluster(), []*clusterv1.Machine{at(grouptest.Machines("a")[0], "10.0.0.1"),
		at(grouptest.Machines("b")[0], "10.0.0.2")}, plan.Observed{})
	o.Nodeless = true
	for want, m := range map[string]etcd.Member{
		"a": {ID: 1, Name: "a", PeerURLs: []string{"https://10.0.0.1:2380"}},
		"b": {ID: 2, PeerURLs: []string{"https://10.0.0.2:2380"}},
		"":  {ID: 3, Name: "c", PeerURLs: []string{"https://10.0.0.3:2380"}},
	} {
		if got := o.MachineOf(m); got != want {
			t.Errorf("%+v runs on %q, want %q", m, got, want)
		}
	}
}

// TestNodelessSurveys: members are asked as soon as there is a machine, as only they tell whether a cluster was begun.
func TestNodelessSurveys(t *testing.T) {
	for _, test := range []struct {
		name     string
		machines []*clusterv1.Machine
		change   func(*View)
		want     bool
	}{
		{"a machine", grouptest.Machines("a"), func(*View) {}, true},
		{"no machine", nil, func(*View) {}, false},
		{"with Nodes", grouptest.Machines("a"), func(o *View) { o.Nodeless = false }, false},
		{"paused", grouptest.Machines("a"), func(o *View) { o.Facts.Group.Paused = true }, false},
		{"nobody's members", grouptest.Machines("a"), func(o *View) { o.Facts.Etcd.Owner = plan.EtcdElsewhere }, false},
		{"begun, all machines lost", nil, func(o *View) { o.Facts.Group.Initialized = true }, true},
		{"being deleted, needed", grouptest.Machines("a"), func(o *View) { o.Facts.Group.Deleting, o.Facts.Workers = true, []string{"w"} }, true},
		{"being deleted", grouptest.Machines("a"), func(o *View) { o.Facts.Group.Deleting = true }, false},
	} {
		o := NewView(grouptest.Cluster(), test.machines, plan.Observed{Etcd: plan.Etcd{Owner: plan.EtcdOurs}})
		o.Nodeless = true
		if test.change(o); o.Surveys() != test.want {
			t.Errorf("%s: asked is %t", test.name, o.Surveys())
		}
	}
}

// TestListMachinesBesideEtcd: a machine of etcd is no worker of a control plane, for which that would wait, and none that it could
// adopt; to etcd all others are workers, which must go first.
func TestListMachinesBesideEtcd(t *testing.T) {
	of := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "etcd", UID: "etcd-uid"}}
	mine := grouptest.MachineOf("demo", "etcd-1", map[string]string{etcdclusterv1alpha1.MachineLabel: "etcd"})
	mine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of, etcdclusterv1alpha1.GroupVersion.WithKind("EtcdCluster"))}
	c := fake.NewClientBuilder().WithScheme(grouptest.Scheme(t)).WithObjects(mine,
		grouptest.MachineOf("demo", "etcd-2", map[string]string{etcdclusterv1alpha1.MachineLabel: "etcd"}),
		grouptest.MachineOf("demo", "cp-1", map[string]string{clusterv1.MachineControlPlaneLabel: ""}),
		grouptest.MachineOf("demo", "worker", nil), grouptest.MachineOf("other", "stranger", nil)).Build()
	text := func(list Machines) string {
		var ours, others []string
		for _, m := range list.Ours {
			ours = append(ours, m.Name)
		}
		for _, m := range list.Others {
			others = append(others, m.Name)
		}
		return strings.Join(ours, " ") + " | " + strings.Join(others, " ") + " | " + strings.Join(list.Workers, " ")
	}
	for _, test := range []struct {
		of       client.Object
		selector labels.Selector
		want     string
	}{
		{grouptest.Object(), nil, " | cp-1 | worker"},
		{of, labels.SelectorFromSet(labels.Set{etcdclusterv1alpha1.MachineLabel: "etcd"}), "etcd-1 | etcd-2 | cp-1 worker"},
	} {
		list, err := ListMachines(t.Context(), c, test.of, "demo", test.selector)
		if err != nil || text(list) != test.want {
			t.Errorf("%T: %s, want %s; %v", test.of, text(list), test.want, err)
		}
	}
}

// TestMembersAreHosts: whoever adds what members say, in a turn or for one look, knows by it which machines without Nodes are up.
func TestMembersAreHosts(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd-1"}
	o := NewView(&clusterv1.Cluster{}, []*clusterv1.Machine{{ObjectMeta: meta}}, plan.Observed{})
	o.Nodeless = true
	o.AddEtcd(etcd.Survey{Known: true, Agreed: true, Members: []etcd.Member{{ID: 1, Name: meta.Name, Health: plan.Healthy}}}, &MemberTimes{},
		time.Now())
	if m := o.Machines[0].Facts; m.Host != meta.Name || !m.Ready || !o.Facts.Group.Initialized {
		t.Errorf("a member votes, and its machine is %+v", m)
	}
}
