package nodeupgrade

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// TestPatches: the steps are told where the node has patches of kubeadm's, by what its machine was made from; while that is not known
// nothing is begun.
func TestPatches(t *testing.T) {
	s := newScene(t)
	m := s.machine("cp-1")
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig",
		Name: "made-from"}
	if err := s.management.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	u := s.upgrade("cp-1")
	for range 3 {
		s.look(u)
	}
	s.expect(s.read(u), upgradev1.WaitingForMachine, "there is no KubeadmConfig made-from")
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Name: "made-from", Namespace: "default"}}
	config.Spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
	config.Spec.JoinConfiguration.Patches.Directory = "/etc/patches"
	if err := s.management.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if pod := s.begun(u); !strings.Contains(specOf(pod), `"patches":"/etc/patches"`) {
		t.Errorf("%s", specOf(pod))
	}
}
