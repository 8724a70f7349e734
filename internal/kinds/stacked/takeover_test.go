package stacked

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/pkg/desiredstate"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
)

// asUpstream returns a control plane as upstream's controller knows it.
func asUpstream(t *testing.T, kcp *controlplanev1.KubeadmControlPlane) *upstream.KubeadmControlPlane {
	t.Helper()
	out := &upstream.KubeadmControlPlane{}
	text, err := json.Marshal(kcp)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// upstreamMakes makes a machine by upstream's own code, lets the bootstrap provider fill
// its configuration in, and returns its name.
func (w *world) upstreamMakes(domain string, first bool) string {
	w.t.Helper()
	ctx, cluster, kcp := context.Background(), testCluster(), asUpstream(w.t, w.kcp())
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	m, err := desiredstate.ComputeDesiredMachine(kcp, cluster, domain, nil)
	must(err)
	for plan.Number(kcp.Name+"-%s", m.Name) > 0 { // at random, and a number for us: ours would go on from it
		m, err = desiredstate.ComputeDesiredMachine(kcp, cluster, domain, nil)
		must(err)
	}
	infra, err := desiredstate.ComputeDesiredInfraMachine(ctx, w.client, kcp, cluster, m.Name, nil)
	must(err)
	config, err := desiredstate.ComputeDesiredKubeadmConfig(kcp, cluster, !first, m.Name, nil)
	must(err)
	config.Spec.Format = bootstrapv1.CloudConfig
	config.Spec.ClusterConfiguration.ControlPlaneEndpoint = cluster.Spec.ControlPlaneEndpoint.String()
	if !first {
		config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = "abcdef.0123456789abcdef"
	}
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: infra.GetKind(),
		Name: m.Name}
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig",
		Name: m.Name}
	m.Spec.Bootstrap.DataSecretName = &m.Name
	for _, o := range []client.Object{infra, config, m} {
		must(w.client.Create(ctx, o))
	}
	return m.Name
}

// TestTakeOver: upstream's controller made the control plane and stopped, and Quorate begins.
func TestTakeOver(t *testing.T) {
	for _, kubernetes := range []string{"v1.36.3", "v1.35.4"} {
		t.Run(kubernetes, func(t *testing.T) {
			kcp := testKCP(3)
			kcp.Spec.Version = kubernetes
			kcp.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("2")}}
			kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("2")}}
			kcp.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/etc/motd", Content: "hello"}}
			kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"team": "a"}
			kcp.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](30)
			kcp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
			w := newWorld(t, testCluster(), kcp)
			w.init = true
			ctx := context.Background()
			if _, err := certs.Generate(ctx, w.client, testCluster(), &kcp.Spec.KubeadmConfigSpec.ClusterConfiguration, authorities,
				controllerRef(kcp)); err != nil {
				t.Fatal(err)
			}
			if err := kubeconfig.CreateSecretWithOwner(ctx, w.client, clusterKey, testCluster().Spec.ControlPlaneEndpoint.String(),
				controllerRef(kcp)); err != nil {
				t.Fatal(err)
			}
			data := w.data()
			for i, domain := range []string{"a", "b", "c"} {
				w.join(w.upstreamMakes(domain, i == 0))
			}
			before := w.machines()
			if p := w.settle(); p.Step != string(plan.Nothing) {
				t.Fatalf("it ends with %+v", p)
			}
			after := w.machines()
			if len(after) != len(before) {
				t.Fatalf("%d machines before, %d after", len(before), len(after))
			}
			for i := range before {
				a, b := before[i], after[i]
				if a.Name != b.Name || a.UID != b.UID || !reflect.DeepEqual(a.Labels, b.Labels) ||
					!reflect.DeepEqual(a.OwnerReferences, b.OwnerReferences) || !sameSpec(a.Spec, b.Spec) {
					t.Errorf("%s was changed from\n%+v\nto %s\n%+v", a.Name, a.Spec, b.Name, b.Spec)
				}
			}
			if heard := strings.Join(w.heard(), "\n"); strings.Contains(heard, "Create") || strings.Contains(heard, "Delete") ||
				strings.Contains(heard, "Adopt") {
				t.Errorf("events are\n%s", heard)
			}
			if !reflect.DeepEqual(w.data(), data) {
				t.Error("secrets were made or changed")
			}
			w.laterLife(before)
		})
	}
}

// sameSpec compares what was wanted of a Machine, but for what the webhook of Cluster API fills in.
func sameSpec(a, b clusterv1.MachineSpec) bool {
	b.Deletion.NodeDeletionTimeoutSeconds = a.Deletion.NodeDeletionTimeoutSeconds
	return reflect.DeepEqual(a, b)
}

// laterLife rolls the machines out that were taken over, one by one, under names of ours.
func (w *world) laterLife(before []clusterv1.Machine) {
	w.t.Helper()
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.Files[0].Content = "goodbye"
	})
	if p := w.live(); p.Step != string(plan.Nothing) {
		w.t.Fatalf("the rollout ends with %+v", p)
	}
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1", "demo-cp-2", "demo-cp-3"}) {
		w.t.Errorf("machines are %v, %d before", got, len(before))
	}
}
