package stacked

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

func TestDesiredMachine(t *testing.T) {
	kcp := testKCP(3)
	kcp.Labels = map[string]string{clusterv1.WatchLabel: "shard-1"}
	template := &kcp.Spec.MachineTemplate
	template.ObjectMeta = clusterv1.ObjectMeta{
		Labels:      map[string]string{"team": "a", clusterv1.ClusterNameLabel: "forged"},
		Annotations: map[string]string{"note": "b"},
	}
	template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(int32(5))
	template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Mine"}, {ConditionType: "EtcdPodHealthy"}}
	m := born(t, kcp)

	wantLabels := map[string]string{
		"team": "a", clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: "",
		clusterv1.MachineControlPlaneNameLabel: "demo-cp", clusterv1.WatchLabel: "shard-1",
	}
	if !maps.Equal(m.Labels, wantLabels) {
		t.Errorf("labels are %v", m.Labels)
	}
	if _, hook := m.Annotations["pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup"]; !hook || m.Annotations["note"] != "b" {
		t.Errorf("annotations are %v", m.Annotations)
	}
	if !metav1.IsControlledBy(m, kcp) {
		t.Errorf("owners are %v", m.OwnerReferences)
	}
	if m.Spec.Version != "v1.36.3" || m.Spec.ClusterName != "demo" || m.Spec.FailureDomain != "a" ||
		*m.Spec.Deletion.NodeDrainTimeoutSeconds != 5 {
		t.Errorf("spec is %+v", m.Spec)
	}
	if got := gates(m); got != "NodeKubeadmLabelsAndTaintsSet APIServerPodHealthy ControllerManagerPodHealthy SchedulerPodHealthy "+
		"EtcdPodHealthy EtcdMemberHealthy Mine" {
		t.Errorf("gates are %s", got)
	}
	if _, leaked := kcp.Spec.MachineTemplate.ObjectMeta.Annotations["pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup"]; leaked {
		t.Error("the hook was written into the template's own map")
	}
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://etcd:2379"}
	if got := gates(born(t, kcp)); strings.Contains(got, "EtcdMemberHealthy") {
		t.Errorf("gates with external etcd are %s", got)
	}
}

// born returns the first machine of a control plane as it is made in domain a.
func born(t *testing.T, kcp *controlplanev1.KubeadmControlPlane) *clusterv1.Machine {
	t.Helper()
	w := newWorld(t, testCluster(), kcp.DeepCopy())
	if err := w.scene().Do(context.Background(), plan.Step{Verb: plan.Create, Machine: "demo-cp-1", Number: 1, Domain: "a",
		Init: true}); err != nil {
		t.Fatal(err)
	}
	return w.machine("demo-cp-1")
}

func gates(m *clusterv1.Machine) string {
	var list []string
	for _, g := range m.Spec.ReadinessGates {
		list = append(list, g.ConditionType)
	}
	return strings.Join(list, " ")
}

func TestDesiredConfig(t *testing.T) {
	kcp := testKCP(3)
	spec := &kcp.Spec.KubeadmConfigSpec
	spec.InitConfiguration.NodeRegistration.Name = "first"
	spec.JoinConfiguration.NodeRegistration.Name = "other"
	spec.ClusterConfiguration.CertificatesDir = "/pki"
	spec.PreKubeadmCommands = []string{"true"}

	first := desiredConfig(kcp, "demo", "demo-cp-1", true)
	if first.Spec.InitConfiguration.NodeRegistration.Name != "first" || first.Spec.JoinConfiguration.NodeRegistration.Name != "" ||
		first.Spec.JoinConfiguration.ControlPlane != nil {
		t.Errorf("the first machine gets %+v", first.Spec)
	}
	other := desiredConfig(kcp, "demo", "demo-cp-2", false)
	if other.Spec.InitConfiguration.NodeRegistration.Name != "" || other.Spec.JoinConfiguration.NodeRegistration.Name != "other" ||
		other.Spec.JoinConfiguration.ControlPlane == nil {
		t.Errorf("a joining machine gets %+v", other.Spec)
	}
	for _, c := range []*bootstrapv1.KubeadmConfig{first, other} {
		if c.Spec.ClusterConfiguration.CertificatesDir != "/pki" || !slices.Equal(c.Spec.PreKubeadmCommands, []string{"true"}) {
			t.Errorf("%s lost what is for all: %+v", c.Name, c.Spec)
		}
	}
	if spec.JoinConfiguration.ControlPlane != nil {
		t.Error("the control plane's own spec was changed")
	}
}

func TestFeatureGates(t *testing.T) {
	tests := []struct {
		version string
		given   map[string]bool
		want    string
	}{
		{"v1.30.9", nil, "absent"},
		{"v1.31.0-rc.1", nil, "true"},
		{"v1.31.0", nil, "true"},
		{"v1.35.4", nil, "true"},
		{"v1.35.4", map[string]bool{kubeletLocalMode: false}, "false"},
		{"v1.36.0", nil, "absent"},
		{"what?", nil, "absent"},
	}
	for _, test := range tests {
		kcp := &controlplanev1.KubeadmControlPlane{}
		kcp.Spec.Version = test.version
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.FeatureGates = test.given
		got := "absent"
		if on, said := desiredConfig(kcp, "demo", "x", false).Spec.ClusterConfiguration.FeatureGates[kubeletLocalMode]; said {
			got = map[bool]string{true: "true", false: "false"}[on]
		}
		if got != test.want {
			t.Errorf("%s with %v: %s, want %s", test.version, test.given, got, test.want)
		}
	}
}
