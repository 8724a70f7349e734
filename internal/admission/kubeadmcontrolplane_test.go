package admission

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstreamv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

func controlPlane() *controlplanev1.KubeadmControlPlane {
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Spec.Version = "v1.36.3"
	kcp.Spec.Joins.MaxParallel = ptr.To[int32](2)
	kcp.Spec.AutoRepair = &controlplanev1.AutoRepairSpec{}
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind: "LocalMachineTemplate", Name: "demo"}
	return kcp
}

// What upstream's controller counts on is there, and what Quorate adds stays.
func TestDefault(t *testing.T) {
	kcp := controlPlane()
	kcp.Spec.Version = "1.36.3"
	if err := (&KubeadmControlPlane{}).Default(t.Context(), kcp); err != nil {
		t.Fatal(err)
	}
	s := kcp.Spec
	if ptr.Deref(s.Replicas, 0) != 1 || s.Version != "v1.36.3" || s.Rollout.Strategy.Type != upstreamv1.RollingUpdateStrategyType ||
		s.Rollout.Strategy.RollingUpdate.MaxSurge.IntValue() != 1 {
		t.Errorf("defaults are %+v", s.KubeadmControlPlaneSpec)
	}
	if ptr.Deref(s.Joins.MaxParallel, 0) != 2 || s.AutoRepair == nil {
		t.Errorf("additions are %+v", s.Additions)
	}
}

func TestControlPlane(t *testing.T) {
	type spec = controlplanev1.KubeadmControlPlaneSpec
	for _, row := range []struct {
		name            string
		change          func(*spec)
		created, update string
	}{
		{"as it is", func(*spec) {}, "", ""},
		{"no version", func(s *spec) { s.Version = "v1" }, "is not one like v1.36.3", "is not one like v1.36.3"},
		{"a version that nothing has", func(s *spec) { s.Version = "v1.36.99999" }, "is not one like v1.36.3", "is not one like v1.36.3"},
		{"a leap", func(s *spec) { s.Version = "v1.38.0" }, "", "spec.version"},
		{"a way back", func(s *spec) { s.Version = "v1.35.4" }, "", ""},
		{"another name of certificates", func(s *spec) { s.KubeadmConfigSpec.ClusterConfiguration.CertificatesDir = "/x" }, "",
			"certificatesDir"},
		{"names with two random parts", func(s *spec) { s.MachineNaming.Template = "{{ .random }}-{{ .random }}" }, "", ""},
		{"names without a random part", func(s *spec) { s.MachineNaming.Template = "x" }, "{{ .random }} is missing", "{{ .random }} is missing"},
		{"names without a number", func(s *spec) { s.MachineNaming.Template = "x{{ if false }}{{ .random }}{{ end }}" },
			"must contain {{ .random }}", "must contain {{ .random }}"},
		{"names that are none", func(s *spec) { s.MachineNaming.Template = "{{ .cluster.id }}{{ .random }}" }, "it may use .cluster.name",
			"it may use .cluster.name"},
		{"etcd on machines of its own", func(s *spec) {
			s.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster",
				Name: "demo-etcd"}
		}, "", "spec.managedExternalEtcdRef: Forbidden: it stays as it was when the control plane was made (left out)"},
		{"what Quorate adds", func(s *spec) { s.Joins.MaxParallel, s.AutoRepair = nil, nil }, "", ""},
	} {
		before := controlPlane()
		if err := (&KubeadmControlPlane{}).Default(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		after := before.DeepCopy()
		row.change(&after.Spec)
		_, err := (&KubeadmControlPlane{}).ValidateCreate(t.Context(), after)
		want(t, row.name+", created", err, row.created)
		_, err = (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), before, after)
		want(t, row.name+", updated", err, row.update)
	}
}

// A number of machines is refused once, with what is valid, and by upstream's checks never. From 0: it is new.
func TestReplicas(t *testing.T) {
	const (
		one   = "spec.replicas: Invalid value: %: replicas is %: at least one machine is needed; 1, 3, 5 or 7 are accepted with stacked etcd"
		odd   = "spec.replicas: Invalid value: %: replicas is %: a control plane with stacked etcd needs an odd number of machines (1, 3, 5 or 7)"
		most  = "spec.replicas: Invalid value: %: replicas is %: stacked etcd is supported with 1, 3, 5 or 7 members"
		other = "spec.replicas: Invalid value: %: replicas is %: at least one machine is needed; any number from 1 is accepted with external etcd"
	)
	for _, row := range []struct {
		from, to int32
		external bool
		refusal  string
	}{
		{to: 1}, {to: 3}, {to: 7},
		{to: -1, refusal: one}, {to: 2, refusal: odd}, {to: 4, refusal: odd}, {to: 8, refusal: odd}, {to: 9, refusal: most},
		{from: 3, to: 0, refusal: one}, {from: 3, to: 4, refusal: odd}, {from: 3, to: 9, refusal: most}, {from: 3, to: 5},
		// Stored before there were these checks: not worse.
		{from: 9, to: 9}, {from: 11, to: 9}, {from: 9, to: 7}, {from: 9, to: 11, refusal: most}, {from: 9, to: 8, refusal: odd},
		{from: 4, to: 4}, {from: 4, to: 2, refusal: odd}, {from: -1, to: -1}, {from: -1, to: 0, refusal: one},
		{to: 4, external: true}, {to: 9, external: true}, {to: -1, external: true, refusal: other},
		{from: 3, to: 0, external: true, refusal: other}, {from: -1, to: -1, external: true},
	} {
		before, after := sized(t, row.from, row.external), sized(t, row.to, row.external)
		_, err := (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), before, after)
		if row.from == 0 {
			_, err = (&KubeadmControlPlane{}).ValidateCreate(t.Context(), after)
		}
		text := strings.ReplaceAll(row.refusal, "%", decimal(row.to))
		want(t, decimal(row.from)+" to "+decimal(row.to), err, text)
		if err != nil && strings.Count(err.Error(), "replicas:") > 1 {
			t.Errorf("refused more than once: %v", err)
		}
	}
	// Other checks go on where the number is left as it is.
	before, after := sized(t, 2, false), sized(t, 2, false)
	none := intstr.FromInt32(0)
	after.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = &none
	_, err := (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), before, after)
	want(t, "two machines without a surplus one", err, "replica count needs to be at least 3")
}

func decimal(n int32) string { return strconv.Itoa(int(n)) }

// sized returns a control plane of so many machines.
func sized(t *testing.T, replicas int32, external bool) *controlplanev1.KubeadmControlPlane {
	t.Helper()
	kcp := controlPlane()
	if err := (&KubeadmControlPlane{}).Default(t.Context(), kcp); err != nil {
		t.Fatal(err)
	}
	kcp.Spec.Replicas = &replicas
	if external {
		kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{
			Endpoints: []string{"https://10.0.0.1:2379"}, CAFile: "/ca", CertFile: "/cert", KeyFile: "/key",
		}
	}
	return kcp
}

// Where the data are does not change: not to another etcd, nor back to the machines. Any number of machines may share it.
func TestManagedEtcd(t *testing.T) {
	ref := func(name string) controlplanev1.ManagedEtcdReference {
		return controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster", Name: name}
	}
	for _, row := range []struct {
		name    string
		change  func(*controlplanev1.KubeadmControlPlaneSpec)
		refusal string
	}{
		{"as it is", func(*controlplanev1.KubeadmControlPlaneSpec) {}, ""},
		{"an even number", func(s *controlplanev1.KubeadmControlPlaneSpec) { s.Replicas = ptr.To(int32(2)) }, ""},
		{"no machine", func(s *controlplanev1.KubeadmControlPlaneSpec) { s.Replicas = ptr.To(int32(0)) },
			"any number from 1 is accepted with external etcd"},
		{"another", func(s *controlplanev1.KubeadmControlPlaneSpec) { s.ManagedExternalEtcdRef = ref("b") },
			"it stays as it was when the control plane was made (EtcdCluster a)"},
		{"none", func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{}
		}, "it stays as it was"},
	} {
		before := sized(t, 3, false)
		before.Spec.ManagedExternalEtcdRef = ref("a")
		after := before.DeepCopy()
		row.change(&after.Spec)
		_, err := (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), before, after)
		want(t, row.name, err, row.refusal)
	}
	even := sized(t, 4, false)
	even.Spec.ManagedExternalEtcdRef = ref("a")
	_, err := (&KubeadmControlPlane{}).ValidateCreate(t.Context(), even)
	want(t, "an even number from the beginning", err, "")
	_, err = (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), even, even.DeepCopy())
	want(t, "an even number that stays", err, "")
}
