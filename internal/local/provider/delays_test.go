package provider

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/sandbox"
)

func (s *scene) annotate(name, annotation, value string) {
	s.t.Helper()
	edit(s, name, func(lm *infrav1.LocalMachine) {
		if lm.Annotations == nil {
			lm.Annotations = map[string]string{}
		}
		lm.Annotations[annotation] = value
	})
}

// A machine may take its time to come, as one of a cloud does.
func TestAMachineThatIsMadeLater(t *testing.T) {
	s := newScene(t, life("alpha", "one")...)
	s.cluster("alpha")
	edit(s, "one", func(lm *infrav1.LocalMachine) { lm.CreationTimestamp = metav1.Now() })
	s.annotate("one", infrav1.ProvisioningDelayAnnotation, "90s")
	lm := s.machine("one")
	wantCondition(t, lm, clusterv1.ReadyCondition, "False Delayed annotation "+infrav1.ProvisioningDelayAnnotation+" is 1m30s")
	if s.host.all["one"] != nil {
		t.Error("it is made at once")
	}
	result, err := s.settle(s.machines, "one")
	if err != nil || result.RequeueAfter < 60*time.Second || result.RequeueAfter > 90*time.Second {
		t.Errorf("result %+v, %v: want another look in 90 s", result, err)
	}
	s.annotate("one", infrav1.ProvisioningDelayAnnotation, "soon")
	wantCondition(t, s.machine("one"), clusterv1.ReadyCondition, "False SpecInvalid want a duration such as 90s")
	s.annotate("one", infrav1.ProvisioningDelayAnnotation, "1ns")
	if s.machine("one"); s.host.all["one"] == nil {
		t.Error("it is not made when the time is over")
	}
}

// While its infrastructure takes its time to go, a machine lives: its kubelet, and its member of etcd.
func TestAMachineThatGoesLater(t *testing.T) {
	for value, lives := range map[string]bool{"60s": true, "1ns": false, "soon": false, "-1m": false} {
		s := newScene(t, life("alpha", "one")...)
		s.cluster("alpha")
		s.machine("one")
		s.host.set("one", func(m *sandbox.Status) { m.Ready = true })
		s.annotate("one", infrav1.DeletionDelayAnnotation, value)
		s.machine("one")
		s.remove(get[infrav1.LocalMachine](s, "one"))
		result, err := s.settle(s.machines, "one")
		if err != nil {
			t.Fatal(err)
		}
		if there := s.host.all["one"] != nil; there != lives {
			t.Errorf("%s: the machine is there: %v, want %v", value, there, lives)
		}
		if !lives {
			continue
		}
		if result.RequeueAfter < 30*time.Second || result.RequeueAfter > time.Minute {
			t.Errorf("result %+v: want another look in 60 s", result)
		}
		wantCondition(t, get[infrav1.LocalMachine](s, "one"), clusterv1.ReadyCondition, "False Deleting lives until")
		s.annotate("one", infrav1.DeletionDelayAnnotation, "0s")
		if s.machine("one") != nil || s.host.all["one"] != nil {
			t.Error("it does not go when the delay is taken back")
		}
	}
	if !strings.HasPrefix(infrav1.DeletionDelayAnnotation, infrav1.GroupVersion.Group+"/") {
		t.Errorf("%s is none of the group's annotations", infrav1.DeletionDelayAnnotation)
	}
}
