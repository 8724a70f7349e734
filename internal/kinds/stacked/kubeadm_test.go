package stacked

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

const (
	missing = "ClusterRoleBinding kubeadm:apiserver-kubelet-client is missing"
	noData  = "ConfigMap kubeadm-config has no ClusterConfiguration"
)

// TestPermissionsComeFirst: before a machine of a newer version joins, permissions are there that its kubeadm expects.
func TestPermissionsComeFirst(t *testing.T) {
	w := grown(t, 3)
	w.permissions, w.config = missing, "kubernetesVersion v1.36.3, v1.37.0 wanted"
	w.change(upgrade)
	w.turn()
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "PermissionsMissing WritePermissions") ||
		!strings.Contains(heard, missing) || len(w.machines()) != 3 {
		t.Errorf("the first step is %q", heard)
	}
	if p := w.live(); p.Step != string(plan.Nothing) || w.permissions != "" || w.config != "" {
		t.Errorf("the rollout ends with %+v", p)
	}
}

// TestPermissionsAtRest: in a cluster that was rolled over without them they are made as well, also where nothing is seen of etcd because
// of them.
func TestPermissionsAtRest(t *testing.T) {
	for name, forwarded := range map[string]bool{"etcd is reached directly": false, "etcd is out of reach without them": true} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 3)
			w.permissions, w.forwarded = missing, forwarded
			w.change(func(*controlplanev1.KubeadmControlPlane) {}) // the files are looked at again
			w.forgetEtcd()
			if p := w.live(); p.Step != string(plan.Nothing) || w.permissions != "" {
				t.Errorf("it ends with %+v, missing %q", p, w.permissions)
			}
		})
	}
}

// TestKubeadmUnusable: nobody is taken away, and nobody joins, where nobody could join. What is mended is seen without a change of the
// spec.
func TestKubeadmUnusable(t *testing.T) {
	w := grown(t, 3)
	w.unusable = noData
	w.change(upgrade)
	if p := w.settle(); p.Reason != "KubeadmUnusable" || p.Message != noData || len(w.machines()) != 3 {
		t.Errorf("a rollout begins: %+v", p)
	}
	w.unusable = ""
	w.r.Memories.Of(kcpKey).Files.Read = metav1.Now().Add(-observe.SurveyAgeAtRest)
	if p := w.live(); p.Step != string(plan.Nothing) {
		t.Errorf("it ends with %+v", p)
	}
}

// TestAddonsRefused: an add-on that cannot follow is told, and holds up nothing.
func TestAddonsRefused(t *testing.T) {
	w := grown(t, 3)
	w.refused, w.addons = "coredns stays v1.13.1, v1.11.1 is wanted: it is older", "kube-proxy is v1.36.3, v1.37.0 wanted"
	w.change(upgrade)
	w.liveUntil("AddonsRefused")
	if p := w.kcp().Status.Plan; p.Reason != "AddonsRefused" || p.Message != w.refused || w.addons != "" {
		t.Errorf("it ends with %+v, behind %q", p, w.addons)
	}
	for _, m := range w.machines() {
		if m.Spec.Version != "v1.37.0" {
			t.Errorf("%s is still %s", m.Name, m.Spec.Version)
		}
	}
}

// TestWantedOf: what a control plane says of kubeadm's files.
func TestWantedOf(t *testing.T) {
	kcp := testKCP(3)
	kcp.Spec.Version = "v1.35.4"
	kcp.Spec.KubeadmConfigSpec.ClusterConfiguration = bootstrapv1.ClusterConfiguration{}
	kcp.Annotations = map[string]string{upstream.SkipCoreDNSAnnotation: ""}
	want := wantedOf(kcp, kubeadm.ClusterData{})
	if want.Version != "v1.35.4" || !want.SkipDNS || want.SkipProxy || !want.Configuration.FeatureGates[kubeletLocalMode] {
		t.Errorf("wanted is %+v", want)
	}
}
