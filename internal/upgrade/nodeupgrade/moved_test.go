package nodeupgrade

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// move has a NodeUpgrade be as in the management cluster that it was moved to: it has another UID, and no status.
func (s *scene) move(u *upgradev1.NodeUpgrade, uid types.UID) {
	s.Helper()
	is := s.read(u)
	is.Finalizers = nil
	if err := s.management.Update(s.Context(), is); err != nil {
		s.Fatal(err)
	}
	moved := s.read(u)
	if err := s.management.Delete(s.Context(), moved); err != nil {
		s.Fatal(err)
	}
	moved.UID, moved.ResourceVersion, moved.Status = uid, "", upgradev1.NodeUpgradeStatus{}
	if err := s.management.Create(s.Context(), moved); err != nil {
		s.Fatal(err)
	}
}

// TestMovedWhenDone: what is done is not begun again where the status was lost, and says again that it is done.
func TestMovedWhenDone(t *testing.T) {
	for name, change := range map[string]func(*upgradev1.NodeUpgrade){
		"as it was": func(*upgradev1.NodeUpgrade) {},
		"recorded, and made by an older version": func(u *upgradev1.NodeUpgrade) {
			u.Annotations = map[string]string{upgradev1.RecordedAnnotation: "2026-11-23T04:05:06Z"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			u := s.upgrade("cp-1")
			s.begun(u)
			s.end(u, steps.Done)
			is := s.look(u)
			change(is)
			if err := s.management.Update(t.Context(), is); err != nil {
				t.Fatal(err)
			}
			s.move(u, "another")
			for range 3 {
				s.look(u)
			}
			if is = s.read(u); !ptr.Deref(is.Status.Completed, false) || len(is.Finalizers) != 0 || s.pod(u) != nil {
				t.Errorf("finalizers %v, %+v", is.Finalizers, is.Status)
			}
			s.expect(is, upgradev1.Done, "")
		})
	}
}

// TestMovedWhenBegun: an upgrade that was begun goes on where the status was lost, and its node knows it as before. No other one begins
// meanwhile, and a copy for another version is one of its own.
func TestMovedWhenBegun(t *testing.T) {
	s := newScene(t)
	u := s.upgrade("cp-2")
	s.move(u, "first")
	if pod := s.begun(u); !strings.Contains(specOf(pod), `"id":"first"`) {
		t.Fatalf("%s", specOf(pod))
	}
	s.move(u, "second")
	other := s.upgrade("cp-1")
	for range 3 {
		s.look(other)
	}
	s.expect(s.read(other), upgradev1.WaitingForNode, "Machine cp-2 comes first")
	s.end(u, steps.Interrupted)
	s.look(u)
	s.look(u)
	pod := s.begun(u)
	if !strings.Contains(specOf(pod), `"id":"first"`) || pod.Labels[upgradepod.AttemptLabel] != "2" {
		t.Errorf("%v %s", pod.Labels, specOf(pod))
	}
	s.end(u, steps.Done)
	s.look(u)

	copied := s.read(u)
	copied.ObjectMeta = metav1.ObjectMeta{Name: "copy", Namespace: "default", UID: "third", Annotations: copied.Annotations}
	copied.Spec.KubernetesVersion, copied.Status = "v1.36.4", upgradev1.NodeUpgradeStatus{}
	if err := s.management.Delete(t.Context(), s.read(other)); err != nil {
		t.Fatal(err)
	}
	s.look(other)
	if err := s.management.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if pod := s.begun(copied); !strings.Contains(specOf(pod), `"id":"third"`) {
		t.Errorf("%s", specOf(pod))
	}
}

// TestMovedWhileAway: of an upgrade that was begun nothing is known while the managed cluster does not answer, and it has not failed.
func TestMovedWhileAway(t *testing.T) {
	s := newScene(t)
	u := s.upgrade("cp-1")
	s.move(u, "first")
	s.begun(u)
	s.move(u, "second")
	s.away = errors.New("refused")
	s.look(u)
	s.look(u)
	s.expect(s.look(u), upgradev1.Running, "does not answer")
}
