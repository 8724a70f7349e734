package conversion

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1beta2 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstreamv1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	upstreamv1beta2 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	data "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/randfill"

	"github.com/quorate/quorate/api/controlplane/v1beta1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
)

// rounds is how many random objects each property is tried with.
const rounds = 1000

func TestMain(m *testing.M) {
	upstream.SetAPIVersionGetter(func(_ context.Context, gk schema.GroupKind) (string, error) { return gk.Group + "/v1", nil })
	os.Exit(m.Run())
}

func fill(t *testing.T, object any) {
	t.Helper()
	data.GetFuzzer(runtime.NewScheme(), fuzzer.FuzzerFuncs(func(serializer.CodecFactory) []any {
		return []any{
			// Others cannot be read back from JSON.
			func(s *bootstrapv1beta1.BootstrapTokenString, _ randfill.Continue) {
				s.ID, s.Secret = "abcdef", "abcdef0123456789"
			},
			func(r *clusterv1.ContractVersionedObjectReference, _ randfill.Continue) {
				r.APIGroup, r.Kind, r.Name = "g.io", "Kind", "name"
			},
			func(a *v1beta2.ApprovalSpec, c randfill.Continue) {
				c.FillNoCustom(a)
				if a.FrozenUntil.IsZero() {
					a.FrozenUntil = nil
				}
			},
			func(r *corev1.ObjectReference, _ randfill.Continue) {
				r.APIVersion, r.Kind, r.Name = "g.io/v1", "Kind", "name"
			},
			func(s *bootstrapv1beta2.BootstrapTokenString, _ randfill.Continue) {
				s.ID, s.Secret = "abcdef", "abcdef0123456789"
			},
		}
	})).Fill(object)
}

func succeed(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !equality.Semantic.DeepEqual(got, want) {
		t.Fatalf("%s (- wanted, + got):\n%s", what, cmp.Diff(want, got))
	}
}

// Of a control plane that goes to v1beta1 and back nothing of ours is lost, and of upstream's no more than upstream loses.
func TestControlPlaneThereAndBack(t *testing.T) {
	for range rounds {
		var start, end v1beta2.KubeadmControlPlane
		var old v1beta1.KubeadmControlPlane
		fill(t, &start)
		before := start.DeepCopy()
		succeed(t, controlPlaneToOld(t.Context(), &start, &old))
		between := old.DeepCopy()
		succeed(t, controlPlaneFromOld(t.Context(), &old, &end))
		same(t, "what is converted", &start, before)
		same(t, "what is converted back", &old, between)
		same(t, "additions", end.Spec.Additions, before.Spec.Additions)
		same(t, "the etcd that it refers to", end.Spec.ManagedExternalEtcdRef, before.Spec.ManagedExternalEtcdRef)
		same(t, "plan", end.Status.Plan, before.Status.Plan)
		same(t, "certificates' expiry", end.Status.CertificateExpiry, before.Status.CertificateExpiry)
		same(t, "certificates", end.Status.Certificates, before.Status.Certificates)

		var theirs, theirEnd upstreamv1beta2.KubeadmControlPlane
		var theirOld upstreamv1beta1.KubeadmControlPlane
		theirs.ObjectMeta, theirs.Spec, theirs.Status = before.ObjectMeta, before.Spec.KubeadmControlPlaneSpec,
			before.Status.KubeadmControlPlaneStatus
		succeed(t, upstream.ConvertKubeadmControlPlaneHubToV1Beta1(t.Context(), theirs.DeepCopy(), &theirOld))
		same(t, "spec in v1beta1", old.Spec, theirOld.Spec)
		same(t, "status in v1beta1", old.Status, theirOld.Status)
		succeed(t, upstream.ConvertKubeadmControlPlaneV1Beta1ToHub(t.Context(), &theirOld, &theirEnd))
		same(t, "metadata", end.ObjectMeta, theirEnd.ObjectMeta)
		same(t, "upstream's spec", end.Spec.KubeadmControlPlaneSpec, theirEnd.Spec)
		same(t, "upstream's status", end.Status.KubeadmControlPlaneStatus, theirEnd.Status)
	}
}

// What was written in v1beta1 is stored and read as upstream would.
func TestOldControlPlane(t *testing.T) {
	for range rounds {
		var start, end v1beta1.KubeadmControlPlane
		var now v1beta2.KubeadmControlPlane
		fill(t, &start)
		theirs := (*upstreamv1beta1.KubeadmControlPlane)(start.DeepCopy())
		before := start.DeepCopy()
		succeed(t, controlPlaneFromOld(t.Context(), &start, &now))
		same(t, "what is converted", &start, before)
		same(t, "additions", now.Spec.Additions, v1beta2.Additions{})

		var theirNow upstreamv1beta2.KubeadmControlPlane
		var theirEnd upstreamv1beta1.KubeadmControlPlane
		succeed(t, upstream.ConvertKubeadmControlPlaneV1Beta1ToHub(t.Context(), theirs, &theirNow))
		same(t, "metadata", now.ObjectMeta, theirNow.ObjectMeta)
		same(t, "spec", now.Spec.KubeadmControlPlaneSpec, theirNow.Spec)
		same(t, "status", now.Status.KubeadmControlPlaneStatus, theirNow.Status)
		succeed(t, controlPlaneToOld(t.Context(), &now, &end), upstream.ConvertKubeadmControlPlaneHubToV1Beta1(t.Context(), &theirNow, &theirEnd))
		same(t, "spec again", end.Spec, theirEnd.Spec)
		same(t, "status again", end.Status, theirEnd.Status)
	}
}

// Templates: the same.
func TestTemplateThereAndBack(t *testing.T) {
	for range rounds {
		var start, end v1beta2.KubeadmControlPlaneTemplate
		var old v1beta1.KubeadmControlPlaneTemplate
		fill(t, &start)
		before := start.DeepCopy()
		succeed(t, templateToOld(t.Context(), &start, &old))
		between := old.DeepCopy()
		succeed(t, templateFromOld(t.Context(), &old, &end))
		same(t, "what is converted", &start, before)
		same(t, "what is converted back", &old, between)
		same(t, "additions", end.Spec.Template.Spec.Additions, before.Spec.Template.Spec.Additions)

		var theirOld upstreamv1beta1.KubeadmControlPlaneTemplate
		var theirEnd upstreamv1beta2.KubeadmControlPlaneTemplate
		succeed(t, upstream.ConvertKubeadmControlPlaneTemplateHubToV1Beta1(t.Context(), PlainTemplate(before), &theirOld))
		same(t, "spec in v1beta1", old.Spec, theirOld.Spec)
		succeed(t, upstream.ConvertKubeadmControlPlaneTemplateV1Beta1ToHub(t.Context(), &theirOld, &theirEnd))
		same(t, "metadata", end.ObjectMeta, theirEnd.ObjectMeta)
		same(t, "upstream's spec", PlainTemplate(&end).Spec, theirEnd.Spec)
	}
}

// An annotation that somebody broke is an error, not a loss.
func TestBrokenAnnotation(t *testing.T) {
	var kcp v1beta1.KubeadmControlPlane
	kcp.Annotations = map[string]string{data.DataAnnotation: "{"}
	if err := controlPlaneFromOld(t.Context(), &kcp, &v1beta2.KubeadmControlPlane{}); err == nil {
		t.Error("a broken annotation of a control plane was converted")
	}
	var template v1beta1.KubeadmControlPlaneTemplate
	template.Annotations = kcp.Annotations
	if err := templateFromOld(t.Context(), &template, &v1beta2.KubeadmControlPlaneTemplate{}); err == nil {
		t.Error("a broken annotation of a template was converted")
	}
}
