package maintenance

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestSuccessor: another member leads that can, the one that is behind least, or the one that is named.
func TestSuccessor(t *testing.T) {
	behind := func(n uint64) *uint64 { return &n }
	e := Etcd{Group: "KubeadmControlPlane demo-cp", Members: []Member{
		{ID: "1", Machine: "a", Health: plan.Healthy, Behind: behind(0), Leader: true},
		{ID: "2", Machine: "b", Health: plan.Healthy, Behind: behind(9)},
		{ID: "3", Machine: "c", Health: plan.Healthy, Behind: behind(3)},
		{ID: "4", Machine: "d", Health: plan.Healthy, Behind: behind(0), Learner: true},
		{ID: "5", Machine: "e", Health: plan.Unhealthy, Behind: behind(0)},
		{ID: "6", Machine: "f"},
	}}
	for given, want := range map[string]string{"": "c", "b": "b"} {
		if got, err := successor(e, given); got != want || err != nil {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
	for given, says := range map[string]string{
		"a": "the member on a leads already", "d": "cannot lead", "e": "cannot lead", "f": "cannot lead", "g": `invalid --to "g"`,
	} {
		if _, err := successor(e, given); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", given, err)
		}
	}
	e.Members = e.Members[:1]
	if _, err := successor(e, ""); err == nil || err.Error() != "no other member of KubeadmControlPlane demo-cp can lead" {
		t.Error(err)
	}
	if got := notLeading(e, "a") + "; " + notLeading(e, "b") + "; " + notLeading(Etcd{}, "b"); got != "; a leads; no member leads" {
		t.Error(got)
	}
}

// TestShrinking: a member is done when it has nothing to give back, or its data have become smaller, and stays so.
func TestShrinking(t *testing.T) {
	answered := uint64(0)
	e := func(sizes ...int64) Etcd {
		var e Etcd
		for i := 0; i < len(sizes); i += 2 {
			e.Members = append(e.Members, Member{ID: fmt.Sprint(i), Name: fmt.Sprint("m", i/2), Size: sizes[i] << 20, InUse: sizes[i+1] << 20,
				Behind: &answered})
		}
		return e
	}
	s := newShrinking()
	for _, step := range []struct {
		e    Etcd
		want string
	}{
		{Etcd{}, "no member answers"},
		{e(100, 50, 100, 96), "m0 is not defragmented yet (100.0 MiB)"},
		{e(101, 52, 100, 50), "m0 is not defragmented yet (100.0 MiB)"},
		{Etcd{Members: []Member{{Name: "m0", Why: "refused"}}}, "m0 does not answer: refused"},
		{e(99, 50, 100, 50), ""},
		{e(110, 50, 110, 50), ""},
	} {
		if got := s.left(step.e); got != step.want {
			t.Errorf("left is %q, want %q", got, step.want)
		}
	}
}

// TestAlarms: who raises NOSPACE is said, members that are gone among them.
func TestAlarms(t *testing.T) {
	e := Etcd{Members: []Member{{Name: "a", Alarms: []string{"CORRUPT"}}, {Name: "b", Alarms: []string{"NOSPACE"}}},
		StrayAlarms: []string{"the alarm NOSPACE of member 7 is still active", "the alarm CORRUPT of member 7 is still active"}}
	if got := alarms(e); got != "b raises NOSPACE; the alarm NOSPACE of member 7 is still active" {
		t.Error(got)
	}
	e.Members[1].Alarms, e.StrayAlarms = nil, nil
	if got := alarms(e) + "; " + alarms(Etcd{}); got != "; no member answers" {
		t.Error(got)
	}
}

// TestWithdraw: a command removes what it asked for, and nothing that was asked for by others or later.
func TestWithdraw(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	lead := request{asks: func(r *plan.Requests, at time.Time) { r.MoveLeader, r.Lead = at, "a" }}
	defragment := request{asks: func(r *plan.Requests, at time.Time) { r.Defragment = at }}
	disarm := request{asks: func(r *plan.Requests, at time.Time) { r.Disarm = at }}
	all := plan.Requests{Defragment: at, Disarm: at, MoveLeader: at, Lead: "b"}
	for want, r := range map[plan.Requests]request{
		{Disarm: at, MoveLeader: at, Lead: "b"}:     defragment,
		{Defragment: at, MoveLeader: at, Lead: "b"}: disarm,
		{Defragment: at, Disarm: at}:                lead,
	} {
		got := all
		if withdraw(&got, r, at); got != want {
			t.Errorf("%+v is left", got)
		}
		got = all
		if withdraw(&got, r, at.Add(-1)); got != all {
			t.Errorf("%+v is left of what was asked later", got)
		}
	}
}

// TestCompared: a comparison is told with the machines of the members, and fails where data differ or were not compared.
func TestCompared(t *testing.T) {
	on := func(id uint64) string { return map[uint64]string{2: "cp-2"}[id] }
	differ := etcd.Comparison{Revision: 8, Differ: []etcd.Member{{ID: 2, Name: "a"}, {ID: 3, Name: "b"}, {ID: 10}}}
	for _, test := range []struct {
		found         etcd.Comparison
		drawn, failed string
	}{
		{etcd.Comparison{Revision: 7}, "all voters have the same data at revision 7", "<nil>"},
		{differ, "the data differ at revision 8: those of cp-2, b, a",
			"data of members of etcd differ: see docs/runbooks/QuorateEtcdDataDiffers.md"},
		{etcd.Comparison{Why: "member 2 is not healthy"}, "the data were not compared: member 2 is not healthy", "not all data were compared"},
	} {
		c := Compared{Etcds: []Verdict{verdictOf("EtcdCluster x", etcd.Comparison{Revision: 1}, on), verdictOf("EtcdCluster e", test.found, on)}}
		want := "EtcdCluster x: all voters have the same data at revision 1\nEtcdCluster e: " + test.drawn
		if got := drawn(comparedLines(c)); got != want {
			t.Errorf("drawn:\n%s\nwant\n%s", got, want)
		}
		if got := fmt.Sprint(c.failure()); got != test.failed {
			t.Errorf("it fails with %q, want %q", got, test.failed)
		}
	}
}
