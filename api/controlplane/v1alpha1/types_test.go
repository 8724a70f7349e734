package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/api/controlplane/v1beta2"
)

// What has the same meaning for all kinds has the same fields: code for one kind takes the other's values as they are.
var (
	_ = upstream.KubeadmControlPlaneRemediationSpec(RemediationSpec{})
	_ = upstream.LastRemediationStatus(LastRemediationStatus{})
	_ = upstream.KubeadmControlPlaneInitializationStatus(InitializationStatus{})
	_ = upstream.MachineNamingSpec(MachineNamingSpec{})
	_ = v1beta2.AutoRepairSpec(HealthSpec{})

	_ conditions.Setter = &ControlPlane{}
)

// TestScheme: all kinds are registered under the group that Cluster API finds control planes in.
func TestScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ControlPlane", "ControlPlaneList", "ControlPlaneTemplate", "ControlPlaneTemplateList"} {
		if !s.Recognizes(schema.GroupVersionKind{Group: upstream.GroupVersion.Group, Version: "v1alpha1", Kind: kind}) {
			t.Errorf("%s is not registered", kind)
		}
	}
}

func TestEtcdOperatorDefaults(t *testing.T) {
	for _, row := range []struct{ given, want EtcdOperatorReference }{
		{EtcdOperatorReference{}, EtcdOperatorReference{"operator.openshift.io/v1", "Etcd", "cluster", "", "EtcdMembersAvailable"}},
		{EtcdOperatorReference{ConditionType: "Healthy"}, EtcdOperatorReference{"operator.openshift.io/v1", "Etcd", "cluster", "", "Healthy"}},
		{EtcdOperatorReference{"v1", "Service", "a", "b", "C"}, EtcdOperatorReference{"v1", "Service", "a", "b", "C"}},
	} {
		if got := row.given.WithDefaults(); got != row.want {
			t.Errorf("%+v: %+v, want %+v", row.given, got, row.want)
		}
	}
}
