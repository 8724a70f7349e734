package observe

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestSpaceOf: etcd is compacted to the newest revision that it had a minute ago or before; of another cluster nothing is remembered; a
// member that does not tell its quota has the one that the largest data took as the alarm was raised.
func TestSpaceOf(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	survey := func(revision, size int64, alarms ...string) etcd.Survey {
		return etcd.Survey{Members: []etcd.Member{
			{ID: 1, Revision: revision, Size: size, InUse: 3, Alarms: alarms},
			{ID: 2, Revision: revision - 1, Size: size - 10, InUse: 3, Quota: 500},
		}}
	}
	s := Space{}
	facts := func(now time.Time, survey etcd.Survey) plan.Etcd {
		view := &View{}
		view.Facts.Etcd.Members = []plan.Member{{ID: "1"}, {ID: "2"}}
		addSpace(view, survey, &s, now)
		return view.Facts.Etcd
	}
	for i, step := range []struct {
		at, revision int
		want         int64 // CompactTo
	}{
		{0, 10, 0}, {10, 20, 0}, {20, 30, 0}, {59, 40, 0}, {60, 40, 10}, {79, 50, 10}, {80, 50, 30}, {500, 90, 50}, {510, 90, 50}, {560, 90, 90},
		{570, 5, 0}, {630, 6, 5},
	} {
		full := survey(int64(step.revision), 100, "NOSPACE")
		s.note(full, at(step.at))
		if got := facts(at(step.at), full).CompactTo; got != step.want {
			t.Errorf("step %d, at %d s: compact to %d, want %d", i, step.at, got, step.want)
		}
	}
	s.Compacted(5, at(631))
	s.Defragmented(2, at(632))
	s.note(survey(6, 60, "NOSPACE"), at(640))
	got := facts(at(640), survey(6, 60, "NOSPACE"))
	one, two := got.Members[0], got.Members[1]
	if got.Compacted != 5 || !got.CompactedAt.Equal(at(631)) || !two.Defragmented.Equal(at(632)) || !one.Defragmented.IsZero() {
		t.Errorf("what was done is not told: %+v", got)
	}
	if one.Size != 60 || one.Quota != 100 || one.InUse != 3 || two.Quota != 500 || two.Size != 50 {
		t.Errorf("sizes are %+v and %+v", one, two)
	}
	s.note(survey(7, 60), at(660))
	if got := facts(at(660), survey(7, 60)); got.CompactTo != 0 || got.Members[0].Size != 0 {
		t.Errorf("told without an alarm: %+v", got)
	}
	s.note(survey(7, 60, "NOSPACE"), at(661))
	if got := facts(at(661), survey(7, 60, "NOSPACE")).Members[0].Quota; got != 60 {
		t.Errorf("after the alarm had ended the quota is %d, want 60", got)
	}
}

// TestRequestsOf: what a person asked for is told with what was done about it, and the sizes while a defragmentation is asked for or
// wanted. What cannot be read, and members that are not Quorate's, are asked for nothing.
func TestRequestsOf(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	survey := etcd.Survey{Members: []etcd.Member{{ID: 1, Revision: 5, Size: 60, InUse: 30, Quota: 500}}}
	s := Space{}
	s.note(survey, at.Add(-time.Hour))
	s.Disarmed(at)
	s.LeaderMoved(at.Add(1))
	s.Defragmented(1, at.Add(2))
	s.Compacted(4, at)
	facts := func(value string, owner plan.EtcdOwner, percent int) plan.Etcd {
		view := &View{Object: &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{controlplanev1.EtcdRequestsAnnotation: value}}}}
		view.Facts.Policy.Defragment.FreePercent = percent
		view.Facts.Etcd = plan.Etcd{Owner: owner, Members: []plan.Member{{ID: "1"}}}
		addSpace(view, survey, &s, at)
		return view.Facts.Etcd
	}
	none := plan.Etcd{Owner: plan.EtcdOurs, Members: []plan.Member{{ID: "1"}}}
	sized := []plan.Member{{ID: "1", Size: 60, InUse: 30, Quota: 500, Defragmented: at.Add(2)}}
	for name, test := range map[string]struct{ got, want plan.Etcd }{
		"nothing is asked": {facts("", plan.EtcdOurs, 0), none},
		"unreadable":       {facts("defragment", plan.EtcdOurs, 0), none},
		"another leader": {facts("move-leader/a=2026-01-01T00:00:00Z", plan.EtcdOurs, 0), plan.Etcd{Owner: plan.EtcdOurs,
			Members: none.Members, Requests: plan.Requests{MoveLeader: at, Lead: "a"}, Disarmed: at, LeaderMoved: at.Add(1)}},
		"a defragmentation": {facts("defragment=2026-01-01T00:00:00Z", plan.EtcdOurs, 0), plan.Etcd{Owner: plan.EtcdOurs,
			Members: sized, Requests: plan.Requests{Defragment: at}, Disarmed: at, LeaderMoved: at.Add(1)}},
		"the spec wants it": {facts("", plan.EtcdOurs, 45), plan.Etcd{Owner: plan.EtcdOurs, Members: sized}},
		"an operator's": {facts("disarm=2026-01-01T00:00:00Z", plan.EtcdOperator, 0),
			plan.Etcd{Owner: plan.EtcdOperator, Members: none.Members}},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, test.got, test.want)
		}
	}
}

// TestDefragmentation: without the field nothing is wanted; {} has the defaults.
func TestDefragmentation(t *testing.T) {
	size := resource.MustParse("1Gi")
	for name, test := range map[string]struct {
		given *controlplanev1.DefragmentSpec
		want  plan.Defragmentation
	}{
		"none":     {nil, plan.Defragmentation{}},
		"defaults": {&controlplanev1.DefragmentSpec{}, plan.Defragmentation{FreePercent: 45, MinSize: 100 << 20}},
		"all": {&controlplanev1.DefragmentSpec{FreePercent: ptr.To[int32](20), MinSize: &size, OnlyMember: controlplanev1.OnlyMemberDefragment},
			plan.Defragmentation{FreePercent: 20, MinSize: 1 << 30, Single: true}},
		"kept": {&controlplanev1.DefragmentSpec{OnlyMember: controlplanev1.OnlyMemberKeep},
			plan.Defragmentation{FreePercent: 45, MinSize: 100 << 20}},
	} {
		if got := Defragmentation(controlplanev1.EtcdMaintenanceSpec{Defragment: test.given}); got != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
