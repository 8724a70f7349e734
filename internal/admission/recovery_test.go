package admission

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestRecoveriesAreRefused: an EtcdRecovery that could never begin is refused when it is created, with the reason. What is not there yet is
// left to the controller, and what exists is not asked about again.
func TestRecoveriesAreRefused(t *testing.T) {
	ours := controlplanev1.GroupVersion.Group
	for name, test := range map[string]struct {
		kind, group string
		change      func(*controlplanev1.KubeadmControlPlaneSpec)
		operation   admissionv1.Operation
		says        string
	}{
		"stacked etcd":                        {"KubeadmControlPlane", ours, nil, admissionv1.Create, ""},
		"a ControlPlane":                      {"ControlPlane", ours, nil, admissionv1.Create, "is ControlPlane demo-cp: its machines have"},
		"a foreign kind":                      {"AzureControlPlane", "example.com", nil, admissionv1.Create, `of kind "AzureControlPlane"`},
		"a kind of the name in another group": {"KubeadmControlPlane", "example.com", nil, admissionv1.Create, "must be KubeadmControlPlane"},
		"external etcd": {"KubeadmControlPlane", ours, func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://a:2379"}
		}, admissionv1.Create, "the etcd of KubeadmControlPlane demo-cp is external"},
		"an EtcdCluster": {"KubeadmControlPlane", ours, func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster", Name: "e"}
		}, admissionv1.Create, ""},
		"etcd of another provider": {"KubeadmControlPlane", ours, func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcd.example.com", Kind: "Etcd", Name: "e"}
		}, admissionv1.Create, "is Etcd e, which another provider keeps"},
		"ignition": {"KubeadmControlPlane", ours, func(s *controlplanev1.KubeadmControlPlaneSpec) {
			s.KubeadmConfigSpec.Format = bootstrapv1.Ignition
		}, admissionv1.Create, "format is ignition: must be cloud-config"},
		"no Cluster":        {"", "", nil, admissionv1.Create, ""},
		"one that is there": {"ControlPlane", ours, nil, admissionv1.Update, ""},
		"no control plane":  {"KubeadmControlPlane", ours, nil, "none", ""},
		"no ControlPlane":   {"ControlPlane", ours, nil, "none", ""},
	} {
		s := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, controlplanev1.AddToScheme, v1alpha1.AddToScheme} {
			if err := add(s); err != nil {
				t.Fatal(err)
			}
		}
		kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo-cp"}}
		if test.change != nil {
			test.change(&kcp.Spec)
		}
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo"}}
		cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: test.group, Kind: test.kind, Name: "demo-cp"}
		var there []client.Object
		if test.kind != "" {
			there = append(there, cluster)
		}
		if test.operation == "none" {
			test.operation = admissionv1.Create
		} else {
			there = append(there, kcp, &v1alpha1.ControlPlane{ObjectMeta: kcp.ObjectMeta})
		}
		judge := &approvalJudge{client: fake.NewClientBuilder().WithScheme(s).WithObjects(there...).Build()}
		raw, err := json.Marshal(map[string]any{"spec": map[string]any{"clusterName": "demo"}})
		if err != nil {
			t.Fatal(err)
		}
		answer := judge.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: test.operation, Namespace: "team", Name: "demo-1", Object: runtime.RawExtension{Raw: raw},
			Resource: metav1.GroupVersionResource{Group: "backup.quorate.io", Version: "v1alpha1", Resource: "etcdrecoveries"},
		}})
		said := ""
		if !answer.Allowed {
			said = answer.Result.Message
		}
		if answer.Allowed != (test.says == "") || !strings.Contains(said, test.says) {
			t.Errorf("%s: allowed %t, %q, want %q", name, answer.Allowed, said, test.says)
		}
		if !answer.Allowed && !strings.HasPrefix(said, `invalid spec.clusterName "demo": `) {
			t.Errorf("%s: %q names no field", name, said)
		}
	}
}
