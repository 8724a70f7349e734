package observe

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestComparedFacts: what a comparison found of members that are there is a fact. What a process before this one reported holds until this
// one has compared.
func TestComparedFacts(t *testing.T) {
	differs := func(voters int, ids ...uint64) etcd.Comparison {
		c := etcd.Comparison{Revision: 7, Voters: voters}
		for _, id := range ids {
			c.Differ = append(c.Differ, etcd.Member{ID: id})
		}
		return c
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		seen     Compared
		members  []uint64
		unknown  bool
		reported metav1.ConditionStatus
		differ   string
		doubted  bool
	}{
		"nothing was compared": {members: []uint64{1, 2, 3}, differ: "..."},
		"all agree":            {seen: Compared{At: at, Last: differs(3)}, members: []uint64{1, 2, 3}, differ: "..."},
		"one differs":          {seen: Compared{At: at, Last: differs(3, 2)}, members: []uint64{1, 2, 3}, differ: ".x."},
		"two of five differ":   {seen: Compared{At: at, Last: differs(5, 2, 5)}, members: []uint64{1, 2, 3, 4, 5}, differ: ".x..x"},
		"who differed is gone": {seen: Compared{At: at, Last: differs(3, 2)}, members: []uint64{1, 3, 4}, differ: "..."},
		"no majority agrees": {
			seen: Compared{At: at, Last: differs(3, 1, 2, 3)}, members: []uint64{1, 2, 3}, differ: "...", doubted: true,
		},
		"one of those is left beside more": {
			seen: Compared{At: at, Last: differs(2, 1, 2)}, members: []uint64{1, 4}, differ: "..", doubted: true,
		},
		"all of those are gone":      {seen: Compared{At: at, Last: differs(2, 1, 2)}, members: []uint64{3, 4}, differ: ".."},
		"a single voter":             {seen: Compared{}, members: []uint64{1}, reported: metav1.ConditionFalse, differ: "."},
		"it was reported before":     {members: []uint64{1, 2, 3}, reported: metav1.ConditionFalse, differ: "...", doubted: true},
		"it was reported as unknown": {members: []uint64{1, 2, 3}, reported: metav1.ConditionUnknown, differ: "..."},
		"it was reported, and comparing failed": {seen: Compared{At: at, Failed: "no answer"}, members: []uint64{1, 2, 3},
			reported: metav1.ConditionFalse, differ: "..."},
		"etcd is not known": {seen: Compared{At: at, Last: differs(3, 2)}, members: []uint64{1, 2, 3}, unknown: true, differ: "..."},
	} {
		kcp := &controlplanev1.KubeadmControlPlane{}
		if test.reported != "" {
			kcp.Status.Conditions = []metav1.Condition{{Type: controlplanev1.EtcdDataConsistentCondition, Status: test.reported}}
		}
		view := &View{Object: kcp}
		view.Facts.Etcd.Known = !test.unknown
		for _, id := range test.members {
			view.Facts.Etcd.Members = append(view.Facts.Etcd.Members, plan.Member{ID: etcd.FormatID(id)})
		}
		test.seen.add(view)
		got := ""
		for _, m := range view.Facts.Etcd.Members {
			got += map[bool]string{true: "x", false: "."}[m.Differs]
		}
		if doubted := view.Facts.Etcd.Doubted != ""; got != test.differ || doubted != test.doubted {
			t.Errorf("%s: %s and %t, want %s and %t", name, got, doubted, test.differ, test.doubted)
		}
	}
}
