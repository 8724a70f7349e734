package provider

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// living is a scene with a machine that has joined.
func living(t *testing.T) *scene {
	t.Helper()
	s := newScene(t, life("alpha", "one")...)
	s.cluster("alpha")
	s.machine("one")
	s.host.set("one", func(m *sandbox.Status) { m.Ready, m.Bootstrap.Phase = true, sandbox.BootstrapSucceeded })
	wantCondition(t, s.machine("one"), clusterv1.ReadyCondition, "True Ready")
	return s
}

// another puts another LocalMachine into the place of the one that a machine was made for, as a management cluster that was restored from a
// backup, or a move, does. Its host goes on as it was.
func (s *scene) another(change func(*infrav1.LocalMachine)) {
	s.t.Helper()
	old := get[infrav1.LocalMachine](s, "one")
	_, fresh := aMachine("one", "alpha")
	fresh.UID, fresh.Spec, fresh.Annotations = types.UID("uid-y"), old.Spec, old.Annotations
	change(fresh)
	old.Finalizers = nil
	if err := s.client.Update(s.t.Context(), old); err != nil {
		s.t.Fatal(err)
	}
	s.remove(old)
	status := fresh.Status
	s.add(fresh)
	edit(s, "one", func(lm *infrav1.LocalMachine) { lm.Status = status })
	s.restart()
}

// made is a LocalMachine that was just made, and of which nothing was ever reported.
func made(lm *infrav1.LocalMachine) { lm.Spec, lm.Annotations = infrav1.LocalMachineSpec{}, nil }

// A LocalMachine never takes a machine that was made for another.
func TestAMachineIsTakenByNobodyElse(t *testing.T) {
	for _, test := range []struct {
		name  string
		other func(*infrav1.LocalMachine)
		host  func(*sandbox.Status)
		want  string // of SandboxReady
	}{
		{"a new one of the name", made, func(*sandbox.Status) {},
			"False NameInUse \"uid-x\", and this one has UID \"uid-y\": the machine is left alone. Delete Machine one"},
		{"an older one of the name", func(lm *infrav1.LocalMachine) { lm.Annotations = map[string]string{infrav1.OwnerAnnotation: "uid-w"} },
			func(*sandbox.Status) {}, "False NameInUse the machine is left alone"},
		{"one whose own machine is gone", func(lm *infrav1.LocalMachine) {
			lm.Annotations, lm.Status.Initialization.Provisioned = nil, ptr.To(true)
		}, func(*sandbox.Status) {}, "False NameInUse machine one of this host was made for the LocalMachine with UID"},
		{"a dead one", made, func(m *sandbox.Status) { m.State = sandbox.Dead }, "False NameInUse left alone"},
		{"a new one, and the release before made the machine", made, func(m *sandbox.Status) { m.Owner = "" }, "False NameInUse left alone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := living(t)
			s.another(test.other)
			s.host.set("one", test.host)
			before := *s.host.all["one"]
			s.bootstrapData("one", map[string]string{"value": "#cloud-config\n"})
			lm := s.machine("one")
			wantCondition(t, lm, infrav1.SandboxReadyCondition, test.want)
			if len(lm.Status.Addresses) > 0 || s.host.data["one"] != "" {
				t.Errorf("addresses %v, told %q", lm.Status.Addresses, s.host.data["one"])
			}
			for _, c := range lm.Status.Conditions {
				if c.Type != infrav1.SandboxReadyCondition && c.Status == "True" {
					t.Errorf("%s is True: %s", c.Type, c.Reason)
				}
			}
			if now := *s.host.all["one"]; now.State != before.State || now.Owner != before.Owner || s.host.ensured > 1 {
				t.Errorf("the machine was %+v, and is %+v", before, now)
			}
			s.remove(lm)
			if s.machine("one") != nil || s.host.all["one"] == nil {
				t.Error("want the object gone, and the machine left alone")
			}
		})
	}
}

// A move gives a LocalMachine another UID: the machine stays its own.
func TestAMachineIsKeptInAMove(t *testing.T) {
	for _, test := range []struct {
		name  string
		after func(*infrav1.LocalMachine)
		host  func(*sandbox.Status)
		owner string // on record
	}{
		{"moved", func(*infrav1.LocalMachine) {}, func(*sandbox.Status) {}, "uid-x"},
		{"moved by the release before", func(lm *infrav1.LocalMachine) { lm.Annotations = nil }, func(m *sandbox.Status) { m.Owner = "" },
			"uid-y"},
		{"stopped and moved by the release before", func(lm *infrav1.LocalMachine) { lm.Annotations = nil },
			func(m *sandbox.Status) { m.Owner, m.State = "", sandbox.Stopped }, "uid-y"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := living(t)
			s.another(test.after)
			s.host.set("one", test.host)
			state := s.host.all["one"].State
			lm := s.machine("one")
			if now := s.host.all["one"]; now.Owner != test.owner || now.State != state || lm.Annotations[infrav1.OwnerAnnotation] != test.owner {
				t.Errorf("the machine is %+v, and the annotations are %v: want it owned by %s", now, lm.Annotations, test.owner)
			}
			wantCondition(t, lm, infrav1.BootstrapSucceededCondition, "True BootstrapSucceeded")
			s.another(func(*infrav1.LocalMachine) {}) // and back
			wantCondition(t, s.machine("one"), infrav1.BootstrapSucceededCondition, "True BootstrapSucceeded")
			s.remove(get[infrav1.LocalMachine](s, "one"))
			if s.machine("one") != nil || s.host.all["one"] != nil {
				t.Error("it is left behind")
			}
		})
	}
}
