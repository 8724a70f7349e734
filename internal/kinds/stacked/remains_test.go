package stacked

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestWhatRemainsIsTold: as soon as the quorum counts as lost, the status says from which member and which backup the control plane can be
// recovered, and how far behind each is; and with all members silent, from which backup.
func TestWhatRemainsIsTold(t *testing.T) {
	rest := start(t, 3)
	synctest.Test(t, func(t *testing.T) { tellsWhatRemains(t, rest.world(t)) })
}

func tellsWhatRemains(t *testing.T, w *world) {
	w.revisions(103, 102, 100)
	w.changesStatus(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Status.Backup.LastVerified = controlplanev1.VerifiedBackup{
			Name: "b1", Time: metav1.NewTime(time.Now()), Revision: 90, SizeBytes: 9,
		}
	})
	time.Sleep(10 * time.Minute)
	if p := w.settle(); strings.Contains(p.Message, "recovery") {
		t.Fatalf("with a quorum: %+v", p)
	}
	names := w.machineNames()
	w.loses()
	time.Sleep(time.Minute)
	w.settle()
	time.Sleep(time.Minute)
	p := w.settle()
	for _, want := range []string{
		"recovery is possible from the etcd member on " + names[2] + " (term 4, entry 1100, revision 100, 3 behind the last that was seen, at ",
		", or from backup b1, verified, taken at ", "(revision 90, 13 behind the last that was seen, at ", "quorate recover",
	} {
		if p.Reason != "QuorumLost" || !strings.Contains(p.Message, want) {
			t.Errorf("without a quorum, want %q in %+v", want, p)
		}
	}
	w.forwardsOnly()
	time.Sleep(time.Minute)
	w.settle()
	time.Sleep(time.Minute)
	p = w.settle()
	for _, want := range []string{
		"are lost: no member can be read: etcd is reached through the API server alone", "recovery is possible from backup b1, ",
	} {
		if p.Reason != "Unreachable" || !strings.Contains(p.Message, want) {
			t.Errorf("with no member left, want %q in %+v", want, p)
		}
	}
}

// revisions are those of the members; the last one is asked also when the others fail.
func (w *world) revisions(all ...int64) {
	defer w.locked()()
	for i := range w.members {
		m := &w.members[i]
		m.At, m.Term, m.Applied, m.Revision = m.Name, 4, uint64(1000+all[i]), all[i]
	}
}

// changesStatus changes the status of the control plane.
func (w *world) changesStatus(change func(*controlplanev1.KubeadmControlPlane)) {
	w.t.Helper()
	kcp := w.kcp()
	change(kcp)
	if err := w.client.Status().Update(context.Background(), kcp); err != nil {
		w.t.Fatal(err)
	}
}

// forwardsOnly has the controller reach members through the API server alone, which does not answer.
func (w *world) forwardsOnly() {
	defer w.locked()()
	w.r.ForwardOnly, w.forwarded, w.permissions = true, true, "none"
}
