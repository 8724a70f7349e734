package maintenance

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

func drawn(lines []screen.Line) string {
	var texts []string
	for _, l := range lines {
		texts = append(texts, strings.Join(strings.Fields(l.String()), " "))
	}
	return strings.Join(texts, "\n")
}

// TestStatus: each member has a line, and those that could not be asked have a reason below.
func TestStatus(t *testing.T) {
	e := etcdOf("KubeadmControlPlane demo-cp", etcd.Survey{Known: true, Agreed: true, Why: "cp-3 does not answer", Members: []etcd.Member{
		{ID: 0x1a, Name: "cp-1", Health: plan.Healthy, Leader: true, At: "cp-1", Version: "3.6.16", Revision: 40, Applied: 50, Size: 100 << 20,
			InUse: 40 << 20, Quota: 2 << 30},
		{ID: 0x1b, Name: "cp-2", Health: plan.Healthy, At: "cp-2", Version: "3.5.20", Revision: 38, Applied: 48, Size: 1 << 30, InUse: 1 << 30,
			Alarms: []string{"NOSPACE"}},
		{ID: 0x1c, Name: "cp-3", Health: plan.Unhealthy, Why: "connection refused"},
		{ID: 0x1d, Learner: true, Why: "there is no way to ask it"},
	}})
	e.Members[0].Machine = "demo-1"
	milliseconds := 1.25
	e.Members[0].Latency = &milliseconds
	want := `KubeadmControlPlane demo-cp
MEMBER MACHINE ROLE VERSION REVISION BEHIND SIZE IN USE FREE QUOTA FULL ANSWERS IN ALARMS
cp-1 demo-1 leader 3.6.16 40 0 100.0 MiB 40.0 MiB 60% 2.0 GiB 4% 1.2 ms -
cp-2 - voter 3.5.20 38 2 1.0 GiB 1.0 GiB 0% - - - NOSPACE
cp-3 - voter - - - - - - - - - -
1d - learner - - - - - - - - - -
cp-3: connection refused
1d: there is no way to ask it`
	if got := drawn(statusTable(Status{Etcds: []Etcd{e}})); got != want {
		t.Errorf("drawn:\n%s", got)
	}
	e = etcdOf("EtcdCluster e", etcd.Survey{Why: "no member answers"})
	if got := drawn(statusTable(Status{Etcds: []Etcd{e}})); !strings.HasSuffix(got,
		"no member answers\netcd has no quorum, as far as its members can be asked") {
		t.Errorf("drawn:\n%s", got)
	}
}

// TestTop: the largest prefixes are shown, the others counted, and what is estimated or cut is said.
func TestTop(t *testing.T) {
	counted := etcd.Usage{Cut: "time was over after 3 prefixes", Prefixes: []etcd.Prefix{
		{Name: "/registry/pods", Namespace: "prod", Keys: 300, Bytes: 3 << 20, Sampled: 16},
		{Name: "/registry/nodes", Keys: 3, Bytes: 1 << 20, Sampled: 3},
		{Name: "/registry/leases", Keys: 2, Bytes: 100, Sampled: 2}}}
	u := usageOf(counted, 2)
	u.Group, u.Member, u.Size, u.InUse = "KubeadmControlPlane demo-cp", "cp-2", 20<<20, 10<<20
	want := `KubeadmControlPlane demo-cp
PREFIX NAMESPACE KEYS BYTES SHARE
/registry/pods prod 300 ~3.0 MiB 74%
/registry/nodes - 3 1.0 MiB 24%

Keys: 305, with their newest values about 4.0 MiB. Member cp-2: 10.0 MiB in use, 20.0 MiB on its disk. Prefixes that --limit leaves out: 1.
Not all keys were counted: time was over after 3 prefixes`
	if got := drawn(topTable(Top{Etcds: []Usage{u}}, true)); got != want {
		t.Errorf("drawn:\n%s", got)
	}
	if got := drawn(topTable(Top{Etcds: []Usage{u}}, false)); !strings.Contains(got, "\nPREFIX KEYS BYTES SHARE\n/registry/pods 300 ") {
		t.Errorf("drawn:\n%s", got)
	}
}

// TestFollower: a healthy follower is asked before the leader, and that before one that is not healthy; a learner never.
func TestFollower(t *testing.T) {
	leader := etcd.Member{ID: 1, At: "a", Health: plan.Healthy, Leader: true}
	follower := etcd.Member{ID: 2, At: "b", Health: plan.Healthy}
	ill := etcd.Member{ID: 3, At: "c", Health: plan.Unhealthy}
	learner := etcd.Member{ID: 4, At: "d", Health: plan.Healthy, Learner: true}
	silent := etcd.Member{ID: 5}
	for want, of := range map[uint64][]etcd.Member{
		2: {silent, learner, ill, leader, follower}, 1: {ill, leader, silent}, 3: {learner, ill}, 0: {silent, learner},
	} {
		if got, found := followerOf(etcd.Survey{Members: of}); got.ID != want || found != (want != 0) {
			t.Errorf("%d is asked, want %d", got.ID, want)
		}
	}
}
