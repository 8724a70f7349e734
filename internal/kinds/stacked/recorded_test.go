package stacked

import (
	"cmp"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/admission"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/test/releases"
)

// keep records the objects of a world at rest, against which newer releases are held.
func (w *world) keep(name string) {
	w.t.Helper()
	w.forgetEtcd()
	if p := w.settle(); p.Step != string(plan.Nothing) {
		w.t.Fatalf("not at rest: %+v", p)
	}
	folder := cmp.Or(os.Getenv(releases.Environment), w.t.TempDir())
	if err := releases.Record(w.t.Context(), w.client, folder, name, "internal/kinds/stacked "+w.t.Name()+", in memory",
		clusterKey); err != nil {
		w.t.Fatal(err)
	}
}

// stored is a control plane with the defaults that an API server and the webhook give it.
func stored(t *testing.T, replicas int32, change func(*controlplanev1.KubeadmControlPlaneSpec)) *controlplanev1.KubeadmControlPlane {
	t.Helper()
	kcp := testKCP(replicas)
	change(&kcp.Spec)
	if err := releases.DefaultTyped(kcp, controlplanev1.GroupVersion.WithKind(kind)); err != nil {
		t.Fatal(err)
	}
	if err := (&admission.KubeadmControlPlane{}).Default(t.Context(), kcp); err != nil {
		t.Fatal(err)
	}
	return kcp
}

// TestRecorded records KubeadmControlPlanes at rest, as turns have made them.
func TestRecorded(t *testing.T) {
	for name, change := range map[string]func(*controlplanev1.KubeadmControlPlaneSpec){
		"kubeadm-plain": func(*controlplanev1.KubeadmControlPlaneSpec) {},
		"kubeadm-metadata": func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.MachineTemplate.ObjectMeta = clusterv1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"}}
			s.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(int32(60))
			s.MachineTemplate.Spec.Deletion.NodeDeletionTimeoutSeconds = ptr.To(int32(20))
			s.MachineTemplate.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = ptr.To(int32(30))
			s.MachineTemplate.Spec.Taints = []clusterv1.MachineTaint{{Key: "mine", Value: "yes", Effect: corev1.TaintEffectNoSchedule,
				Propagation: clusterv1.MachineTaintPropagationAlways}}
		},
		"kubeadm-configured": func(s *controlplanev1.KubeadmControlPlaneSpec) {
			c := &s.KubeadmConfigSpec
			c.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: ptr.To("2")},
				{Name: "audit-log-maxage", Value: ptr.To("7")}}
			c.ClusterConfiguration.APIServer.CertSANs = []string{"demo.example.org"}
			c.ClusterConfiguration.Etcd.Local.ExtraArgs = []bootstrapv1.Arg{{Name: "quota-backend-bytes", Value: ptr.To("4294967296")}}
			c.ClusterConfiguration.FeatureGates = map[string]bool{"ControlPlaneKubeletLocalMode": true}
			c.ClusterConfiguration.CertificateValidityPeriodDays = 90
			c.InitConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "max-pods", Value: ptr.To("50")}}
			c.InitConfiguration.NodeRegistration.Taints = ptr.To([]corev1.Taint{})
			c.JoinConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "max-pods", Value: ptr.To("50")}}
			c.JoinConfiguration.NodeRegistration.Taints = ptr.To([]corev1.Taint{})
			c.Files = []bootstrapv1.File{{Path: "/etc/motd", Content: "hello", Permissions: "0644"}}
			c.PreKubeadmCommands, c.PostKubeadmCommands = []string{"true"}, []string{"true", "sync"}
			c.Users = []bootstrapv1.User{{Name: "ops", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA ops"}}}
			c.NTP = bootstrapv1.NTP{Enabled: ptr.To(true), Servers: []string{"ntp.example.org"}}
			c.Verbosity = ptr.To(int32(4))
		},
		"kubeadm-policies": func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.Rollout.Strategy.Type = "RollingUpdate"
			s.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(0))
			s.Rollout.Before.CertificatesExpiryDays = 21
			s.Remediation.MaxRetry, s.Remediation.RetryPeriodSeconds = ptr.To(int32(3)), ptr.To(int32(600))
			s.AutoRepair = &controlplanev1.AutoRepairSpec{}
			s.Approval.Policy = controlplanev1.ApprovalRequired
		},
	} {
		t.Run(name, func(t *testing.T) {
			for replicas, suffix := range map[int32]string{1: "-1", 3: "-3"} {
				if name == "kubeadm-policies" && replicas == 1 {
					continue // without one more, a single machine is not rolled
				}
				grownOf(t, stored(t, replicas, change)).keep(name + suffix)
			}
		})
	}
}

// TestRecordedChanges records control planes that were changed after their machines were made.
func TestRecordedChanges(t *testing.T) {
	w := grownOf(t, stored(t, 3, func(*controlplanev1.KubeadmControlPlaneSpec) {}))
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"team": "b"}
		kcp.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(int32(90))
	})
	w.settle()
	w.keep("kubeadm-followed-3")

	w = grownOf(t, stored(t, 3, func(*controlplanev1.KubeadmControlPlaneSpec) {}))
	w.change(inPlacePolicy(controlplanev1.InPlaceOnly))
	for range 3 {
		w.step()
		w.endUpgrade(w.underway(), upgradev1.Done)
	}
	w.step()
	w.keep("kubeadm-in-place-3")

	w = grownOf(t, stored(t, 3, func(*controlplanev1.KubeadmControlPlaneSpec) {}))
	for _, m := range w.machines() { // as webhooks of older releases of Cluster API wrote them
		config := &bootstrapv1.KubeadmConfig{}
		if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(&m), config); err != nil {
			t.Fatal(err)
		}
		config.Spec.Format = bootstrapv1.CloudConfig
		for _, n := range []*bootstrapv1.NodeRegistrationOptions{&config.Spec.InitConfiguration.NodeRegistration,
			&config.Spec.JoinConfiguration.NodeRegistration} {
			n.ImagePullPolicy, n.ImagePullSerial = "IfNotPresent", ptr.To(true)
		}
		if err := w.client.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	w.keep("kubeadm-older-defaults-3")
}
