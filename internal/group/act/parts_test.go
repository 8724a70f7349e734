package act

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// observing is what looks at an object with machines, of whom three are wanted.
func observing(object observe.Object, machines ...*clusterv1.Machine) *observe.Observer {
	v := observe.NewView(grouptest.Cluster(), machines, plan.Observed{Now: time.Now(), Want: plan.Want{Replicas: 3}})
	v.Object, v.Memory = object, &observe.Memory{}
	return &observe.Observer{View: v}
}

func TestStaleRepair(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0).UTC())
	given := observe.Replacement{Machine: "m2", Timestamp: at}
	earlier := observe.Replacement{Machine: "m2", Timestamp: metav1.NewTime(at.Add(-time.Hour))}
	tests := []struct {
		name     string
		value    string
		machines []string
		of       string // the annotation remediation-for of the last machine
		d        plan.Decision
		want     bool
		outdated string // this machine is
	}{
		{"none", "", []string{"m1", "m2", "m3"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}}, false, ""},
		{"a machine is missing", given.String(), []string{"m1", "m3"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}}, false, ""},
		{"it still goes", given.String(), []string{"m1", "m2 gone=held", "m3"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}}, false, ""},
		{"its replacement is there, another is missing", given.String(), []string{"m1", "m4"}, given.String(),
			plan.Decision{Step: plan.Step{Verb: plan.Wait}}, true, ""},
		{"a replacement of another repair", given.String(), []string{"m1", "m4"}, earlier.String(),
			plan.Decision{Step: plan.Step{Verb: plan.Wait}}, false, ""},
		{"nothing is missing any more", given.String(), []string{"m1", "m3", "m4"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}}, true,
			""},
		{"nothing is missing, the one given up still goes", given.String(), []string{"m1", "m2 gone=held", "m3", "m4"}, "",
			plan.Decision{Step: plan.Step{Verb: plan.Wait}}, true, ""},
		{"it was noted, and not deleted", given.String(), []string{"m1", "m2", "m3"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}}, true,
			""},
		{"it was noted just now", given.String(), []string{"m1", "m2", "m3"}, "",
			plan.Decision{Step: plan.Step{Verb: plan.Delete, Machine: "m2", Repair: true}}, false, ""},
		{"a rollout makes another", given.String(), []string{"m1", "m3", "m4"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}}, false, "m1"},
		{"a rollout has made another", given.String(), []string{"m1", "m3", "m4", "m5"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}},
			true, "m1"},
		{"a rollout has made another for it", given.String(), []string{"m1", "m3", "m5"}, given.String(),
			plan.Decision{Step: plan.Step{Verb: plan.Wait}}, true, "m1"},
		{"what is outdated goes", given.String(), []string{"m1 gone=held", "m3", "m4", "m5"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}},
			true, "m1"},
		{"a rollout, it was noted and not deleted", given.String(), []string{"m1", "m2", "m3"}, "",
			plan.Decision{Step: plan.Step{Verb: plan.Wait}}, true, "m1"},
		{"it cannot be read", "{", []string{"m1", "m3"}, "", plan.Decision{Step: plan.Step{Verb: plan.Wait}}, true, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := grouptest.Object()
			if test.value != "" {
				object.Annotations = map[string]string{upstream.RemediationInProgressAnnotation: test.value}
			}
			machines := grouptest.Machines(test.machines...)
			if last := machines[len(machines)-1]; test.of != "" {
				last.Annotations = map[string]string{upstream.RemediationForAnnotation: test.of}
			}
			s := &Writer{Observer: observing(object, machines...)}
			s.Facts.Policy.Surge = 1
			for _, m := range s.Machines {
				if m.Name == test.outdated {
					m.Facts.Outdated = "spec 1, 2 wanted"
				}
			}
			if got := s.staleRepair(test.d); got != test.want {
				t.Errorf("stale: %t, want %t", got, test.want)
			}
		})
	}
}
