package drift

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestDesired: a machine whose KubeadmConfig is as desired differs in nothing of it, and what is no difference stays as it is.
func TestDesired(t *testing.T) {
	args := []bootstrapv1.Arg{{Name: "v", Value: ptr("2")}}
	for _, r := range []struct {
		name   string
		was    bootstrapv1.KubeadmConfigSpec
		change func(*bootstrapv1.KubeadmConfigSpec)
		check  func(was, got bootstrapv1.KubeadmConfigSpec) bool
	}{
		{"nothing", initialised(), func(*bootstrapv1.KubeadmConfigSpec) {},
			func(was, got bootstrapv1.KubeadmConfigSpec) bool {
				return same(path{}, []any{tree(was)}, []any{tree(got)})
			}},
		{"an argument, of the machine that init made", initialised(),
			func(s *bootstrapv1.KubeadmConfigSpec) { s.ClusterConfiguration.APIServer.ExtraArgs = args },
			func(was, got bootstrapv1.KubeadmConfigSpec) bool {
				return len(got.ClusterConfiguration.APIServer.ExtraArgs) == 1 &&
					got.InitConfiguration.NodeRegistration.Name == was.InitConfiguration.NodeRegistration.Name &&
					got.ClusterConfiguration.ControlPlaneEndpoint == "10.0.0.1:6443" && got.JoinConfiguration.ControlPlane == nil
			}},
		{"a file", initialised(), func(s *bootstrapv1.KubeadmConfigSpec) { s.Files = []bootstrapv1.File{{Path: "/a"}} },
			func(_, got bootstrapv1.KubeadmConfigSpec) bool {
				return len(got.Files) == 1 && got.ClusterConfiguration.ControlPlaneEndpoint == "10.0.0.1:6443" &&
					got.JoinConfiguration.ControlPlane == nil
			}},
		{"the node's name, of the machine that init made", initialised(), func(s *bootstrapv1.KubeadmConfigSpec) {
			s.InitConfiguration.NodeRegistration.Name, s.JoinConfiguration.NodeRegistration.Name = "other", "other"
		}, func(_, got bootstrapv1.KubeadmConfigSpec) bool {
			return got.JoinConfiguration.ControlPlane != nil && got.JoinConfiguration.NodeRegistration.Name == "other" &&
				!got.InitConfiguration.IsDefined()
		}},
		{"the node's name, of a machine that joined", joinedSpec(),
			func(s *bootstrapv1.KubeadmConfigSpec) { s.JoinConfiguration.NodeRegistration.Name = "other" },
			func(_, got bootstrapv1.KubeadmConfigSpec) bool {
				return got.JoinConfiguration.NodeRegistration.Name == "other" && got.JoinConfiguration.Discovery.BootstrapToken.Token == "t"
			}},
	} {
		t.Run(r.name, func(t *testing.T) {
			kcp := &controlplanev1.KubeadmControlPlane{}
			kcp.Spec.Version = "v1.36.3"
			kcp.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration.Name = "node"
			kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.Name = "node"
			r.change(&kcp.Spec.KubeadmConfigSpec)
			m := Machine{Machine: &clusterv1.Machine{}, Config: &bootstrapv1.KubeadmConfig{Spec: r.was},
				Infrastructure: &unstructured.Unstructured{Object: map[string]any{}}}
			m.Machine.Spec.Version = "v1.36.3"
			got := Desired(kcp, m)
			if !r.check(r.was, got) {
				t.Errorf("%s", encode(got))
			}
			m.Config.Spec = got
			if d := Of(kcp, m, time.Time{}); d.Outdated() {
				t.Errorf("as desired it differs: %s", d)
			}
			if again := Desired(kcp, m); string(encode(again)) != string(encode(got)) {
				t.Errorf("once it is as desired, something else is: %s", encode(again))
			}
		})
	}
}

// initialised is the configuration of a machine that made the cluster.
func initialised() bootstrapv1.KubeadmConfigSpec {
	s := bootstrapv1.KubeadmConfigSpec{}
	s.InitConfiguration.NodeRegistration.Name = "node"
	s.ClusterConfiguration.ControlPlaneEndpoint, s.ClusterConfiguration.CertificatesDir = "10.0.0.1:6443", "/etc/kubernetes/pki"
	return s
}

// joinedSpec is the configuration of a machine that joined.
func joinedSpec() bootstrapv1.KubeadmConfigSpec {
	s := bootstrapv1.KubeadmConfigSpec{}
	s.JoinConfiguration.NodeRegistration.Name = "node"
	s.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
	s.JoinConfiguration.Discovery.BootstrapToken.Token = "t"
	return s
}
