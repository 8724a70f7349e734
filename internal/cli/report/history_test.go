package report

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/history"
)

func testHistory() History {
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	took := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return History{Cluster: "demo", Group: "KubeadmControlPlane demo-cp", Entries: []history.Entry{
		{Time: at(0), Note: "what was recorded before could not be read: it is not JSON"},
		{Time: at(0), Change: &history.Change{By: "quorate", Operation: "Apply", Created: true, Fields: []string{"replicas", "version"}}},
		{Time: at(1), Step: "WriteCertificates", Reason: "CertificatesMissing", Message: "ca is missing", Outcome: history.Done,
			Took: took(41400 * time.Microsecond)},
		{Time: at(2), Step: "Create demo-cp-1 in a, the first", Reason: "Initializing", Message: "demo-cp-1 initialises\nthe cluster",
			Outcome: history.Done, Took: took(34567 * time.Millisecond)},
		{Time: at(40), Count: 3, Step: "Delete demo-cp-2", Reason: "Outdated", Message: "not shown", Outcome: history.Failed,
			Error: "it is \x1b[31mrefused"},
		{Time: at(50), Count: 2, Change: &history.Change{By: "kubectl-edit", Operation: "Update", Fields: []string{"version", "replicas"}}},
		{Time: at(51), Change: &history.Change{Fields: []string{"rollout"}}},
		{Time: at(52), Approval: &history.Approval{Revision: "0123456789ab", By: "jane@example.org"}},
		{Time: at(3600), Step: "Delete demo-cp-1", Reason: "Outdated", Message: "it has v1.35.4", Outcome: history.Done,
			Took: took(83400 * time.Millisecond)},
		{Time: at(3601), Step: "Create demo-cp-4 in a", Reason: "ScalingUp", Message: "2 of 3 machines", Outcome: history.Done},
	}}
}

func TestHistory(t *testing.T) {
	h := testHistory()
	var lines []screen.Line
	for _, part := range []History{h, h.Newest(1), {Cluster: "demo", Group: "ControlPlane demo-cp"}} {
		lines = append(lines, part.Table(time.FixedZone("there", 3600))...)
	}
	golden(t, "history", text(lines))
}

func TestNewest(t *testing.T) {
	h := testHistory()
	for limit, want := range map[int]int{0: 10, 1: 1, 8: 8, 9: 9, 100: 10} {
		got := h.Newest(limit).Entries
		if len(got) != want || got[len(got)-1].Step != "Create demo-cp-4 in a" {
			t.Errorf("of %d there are %d", limit, len(got))
		}
	}
}
