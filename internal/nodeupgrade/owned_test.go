package nodeupgrade

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// TestLies: a NodeUpgrade that names a Machine of another Cluster than it says it belongs to is refused, and touches neither cluster.
func TestLies(t *testing.T) {
	owner := func(name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: "u"}}
	}
	for name, test := range map[string]struct {
		label  string
		owners []metav1.OwnerReference
		wrong  string
	}{
		"another Cluster":        {"other", nil, `label cluster.x-k8s.io/cluster-name is "other": must be "demo"`},
		"another Machine owns":   {"demo", owner("cp-2"), `metadata.ownerReferences names Machine "cp-2": must be "cp-1"`},
		"as it is":               {"demo", owner("cp-1"), ""},
		"nothing said":           {"", nil, ""},
		"an owner of other kind": {"", []metav1.OwnerReference{{APIVersion: upgradev1.GroupVersion.String(), Kind: "ControlPlaneUpgrade", Name: "x", UID: "u"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			u := s.upgrade("cp-1")
			after := u.DeepCopy()
			after.OwnerReferences = test.owners
			if test.label != "" {
				after.Labels = map[string]string{clusterv1.ClusterNameLabel: test.label}
			}
			s.must(s.management.Patch(t.Context(), after, client.MergeFrom(u)))
			if test.wrong == "" {
				s.begun(u)
				return
			}
			for range 3 {
				s.look(u)
			}
			s.expect(s.read(u), upgradev1.Failed, test.wrong)
			if s.pod(u) != nil || len(s.machine("cp-1").Annotations) != 0 {
				t.Errorf("something was done: %v, %v", s.pod(u), s.machine("cp-1").Annotations)
			}
		})
	}
}
