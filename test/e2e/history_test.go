//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/core/plan"
)

// remembered: the history of a control plane tells each step once, with why it was done, how it ended and how long it took, and who changed
// which fields of the spec. It is the same after the manager was killed, keeps to its bound whatever is done, and goes with the cluster. Of
// each step there is one event.
func remembered(t *testing.T, e *environment) {
	const name = "sierra"
	e.up(t, name, "--replicas", "1")
	e.changedBy(t, name, "alice", func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To(int32(3)) })
	eventually(t, "three voters", 2*patience, e.quorumOf(t, name, 3))
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	var told []history.Entry
	eventually(t, "the history tells how long three machines took", patience, func() string {
		told = e.history(t, name)
		for _, m := range e.machines(t, name) {
			if n := count(told, func(h history.Entry) bool { return h.Verb == plan.Create && h.Machine == m && h.Took.Duration > 0 }); n != 1 {
				return fmt.Sprintf("%d entries tell how long %s took", n, m)
			}
		}
		return ""
	})
	for _, h := range told {
		if h.Step != "" && (h.Reason == "" || h.Message == "" || h.Outcome != history.Done || h.Duration.Duration <= 0) {
			t.Errorf("the entry says too little: %+v", h)
		}
	}
	scaled := func(h history.Entry) bool {
		return h.Change != nil && h.Change.By == "alice" && strings.Contains(strings.Join(h.Change.Fields, " "), "replicas")
	}
	if n := count(told, scaled); n != 1 {
		t.Errorf("%d entries tell that alice changed the replicas: %+v", n, told)
	}
	e.oneEventEach(t, name, told)

	killDaemon(t, e)
	e.up(t, name, "--replicas", "3")
	if again := e.history(t, name); !reflect.DeepEqual(again, told) {
		t.Errorf("after the manager was killed the history is\n%+v\nand was\n%+v", again, told)
	}
	if out := e.quorate(t, "history", name, "--limit", "1"); strings.Count(strings.TrimSpace(out), "\n") != 1 {
		t.Errorf("the newest entry:\n%s", out)
	}

	for n := range history.MaxEntries + 5 {
		by := []string{"bob", "carol"}[n%2]
		e.changedBy(t, name, by, func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"example.com/round": fmt.Sprint(n)}
		})
		eventually(t, fmt.Sprintf("change %d by %s is told", n, by), patience, func() string {
			all := e.history(t, name)
			if len(all) == 0 || count(all[max(0, len(all)-5):], func(h history.Entry) bool { return h.Change != nil && h.Change.By == by }) == 0 {
				return fmt.Sprintf("%d entries, none of the newest tells of %s", len(all), by)
			}
			return ""
		})
	}
	full := e.history(t, name)
	t.Logf("FIGURE the history after %d changes: %d entries", history.MaxEntries+5, len(full))
	if len(full) != history.MaxEntries || count(full, scaled) != 0 {
		t.Errorf("%d entries, want %d, the newest: %+v", len(full), history.MaxEntries, full)
	}
	e.takeDown(t, name)
	eventually(t, "the history went with the cluster", patience, func() string {
		var left corev1.ConfigMapList
		if err := e.management(t).List(context.Background(), &left, client.InNamespace("default")); err != nil {
			return err.Error()
		}
		for i := range left.Items {
			if strings.Contains(left.Items[i].Name, name) {
				return left.Items[i].Name + " is there"
			}
		}
		return ""
	})
}

// history are the entries of a cluster's control plane.
func (e *environment) history(t *testing.T, name string) []history.Entry {
	t.Helper()
	var told report.History
	if err := json.Unmarshal([]byte(e.quorate(t, "history", name, "-o", "json")), &told); err != nil {
		t.Fatal(err)
	}
	return told.Entries
}

// count is how many entries are so.
func count(all []history.Entry, so func(history.Entry) bool) int {
	n := 0
	for _, h := range all {
		if so(h) {
			n++
		}
	}
	return n
}

// changedBy changes a control plane as somebody.
func (e *environment) changedBy(t *testing.T, name, by string, f func(*controlplanev1.KubeadmControlPlane)) {
	t.Helper()
	kcp := e.controlPlane(t, name)
	before := kcp.DeepCopy()
	f(kcp)
	if err := e.management(t).Patch(context.Background(), kcp, client.MergeFrom(before), client.FieldOwner(by)); err != nil {
		t.Fatal(err)
	}
}

// oneEventEach expects that each step that was done is told by one event, once.
func (e *environment) oneEventEach(t *testing.T, name string, told []history.Entry) {
	t.Helper()
	kcp := e.controlPlane(t, name)
	var all eventsv1.EventList
	if err := e.management(t).List(context.Background(), &all, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	for _, h := range told {
		if h.Step == "" {
			continue
		}
		n := 0
		for _, event := range all.Items {
			if event.Regarding.UID == kcp.UID && event.Type == corev1.EventTypeNormal && strings.HasPrefix(event.Note, h.Step+": ") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d events tell of %q, want 1", n, h.Step)
		}
	}
}
