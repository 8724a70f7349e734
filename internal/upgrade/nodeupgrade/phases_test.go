package nodeupgrade

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/steps"
)

// TestPhases: what a control plane of whichever controller leaves to others is not done by kubeadm on its nodes, whoever made the
// NodeUpgrade, and an upgrader that would do it all the same does not begin.
func TestPhases(t *testing.T) {
	skipping := func(annotations ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: "demo-cp", Namespace: "default", Annotations: map[string]string{}}
		for _, a := range annotations {
			m.Annotations[a] = ""
		}
		return m
	}
	kcp := func(skipped []string, annotations ...string) client.Object {
		k := &controlplanev1.KubeadmControlPlane{ObjectMeta: skipping(annotations...)}
		k.Spec.KubeadmConfigSpec.InitConfiguration.SkipPhases = skipped
		return k
	}
	for name, test := range map[string]struct {
		owner   client.Object
		machine string
		made    []string
		want    []string
	}{
		"nothing":          {kcp(nil), "cp-1", nil, nil},
		"no control plane": {nil, "cp-1", nil, nil},
		"annotations": {kcp(nil, upstream.SkipKubeProxyAnnotation, upstream.SkipCoreDNSAnnotation), "cp-1", nil,
			[]string{"addon/coredns", "addon/kube-proxy"}},
		"phases": {kcp([]string{"bootstrap-token", "addon/kube-proxy", "preflight"}), "cp-1", nil,
			[]string{"addon/kube-proxy", "bootstrap-token"}},
		"the control plane's count": {kcp(nil), "cp-1", []string{"addon/kube-proxy"}, nil},
		"of a template": {&v1alpha1.ControlPlane{ObjectMeta: skipping(upstream.SkipCoreDNSAnnotation)}, "cp-1",
			[]string{"bootstrap-token"}, []string{"addon/coredns", "bootstrap-token"}},
		"without a known control plane": {nil, "cp-1", []string{"addon"}, []string{"addon"}},
		"a worker":                      {kcp(nil, upstream.SkipKubeProxyAnnotation), "worker", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			m := s.machine(test.machine)
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig",
				Name: "made-from"}
			config := &bootstrapv1.KubeadmConfig{ObjectMeta: metav1.ObjectMeta{Name: "made-from", Namespace: "default"}}
			config.Spec.InitConfiguration.SkipPhases = test.made
			objects := []client.Object{config}
			if test.owner != nil {
				ref := metav1.OwnerReference{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlane", Name: "demo-cp", UID: "cp",
					Controller: ptr.To(true)}
				if _, machines := test.owner.(*v1alpha1.ControlPlane); machines {
					ref.APIVersion, ref.Kind = v1alpha1.GroupVersion.String(), "ControlPlane"
				}
				m.OwnerReferences, objects = []metav1.OwnerReference{ref}, append(objects, test.owner)
			}
			for _, o := range objects {
				if err := s.management.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.management.Update(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			pod := s.begun(s.upgrade(test.machine))
			var told steps.Wanted
			if err := json.Unmarshal([]byte(strings.TrimPrefix(specOf(pod), "--spec=")), &told); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(told.SkipPhases, test.want) {
				t.Errorf("the steps are told to leave out %q, want %q", told.SkipPhases, test.want)
			}
			for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				if slices.Contains(c.Args, "--requires=skip-phases") != (len(test.want) > 0) {
					t.Errorf("container %s: %q", c.Name, c.Args)
				}
			}
		})
	}
}
