// Package conversion turns Quorate's kinds of v1beta2 into upstream's of v1beta1 and back. Upstream's fields are converted by
// upstream's code; what Quorate adds lies in the annotation in which upstream's own lie that v1beta1 has no field for. It
// knows the types, not how the API server asks.
package conversion

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstreamv1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	upstreamv1beta2 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	data "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/quorate/quorate/api/controlplane/v1beta1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
)

// ControlPlane converts KubeadmControlPlanes. Upstream's SetAPIVersionGetter must have been called.
var ControlPlane = conversion.NewHubSpokeConverter(&v1beta2.KubeadmControlPlane{},
	conversion.NewSpokeConverter(&v1beta1.KubeadmControlPlane{}, controlPlaneToOld, controlPlaneFromOld))

// Template converts KubeadmControlPlaneTemplates.
var Template = conversion.NewHubSpokeConverter(&v1beta2.KubeadmControlPlaneTemplate{},
	conversion.NewSpokeConverter(&v1beta1.KubeadmControlPlaneTemplate{}, templateToOld, templateFromOld))

func controlPlaneToOld(ctx context.Context, src *v1beta2.KubeadmControlPlane, dst *v1beta1.KubeadmControlPlane) error {
	// Upstream's code shares maps between what it reads and what it writes: it is given a copy.
	if err := upstream.ConvertKubeadmControlPlaneHubToV1Beta1(ctx, PlainControlPlane(src),
		(*upstreamv1beta1.KubeadmControlPlane)(dst)); err != nil {
		return fmt.Errorf("converting the KubeadmControlPlane %s to v1beta1: %w", src.Name, err)
	}
	return keep(src, dst)
}

func controlPlaneFromOld(ctx context.Context, src *v1beta1.KubeadmControlPlane, dst *v1beta2.KubeadmControlPlane) error {
	var kept v1beta2.KubeadmControlPlane
	if err := recall(src, &kept); err != nil {
		return err
	}
	plain := &upstreamv1beta2.KubeadmControlPlane{}
	if err := upstream.ConvertKubeadmControlPlaneV1Beta1ToHub(ctx, (*upstreamv1beta1.KubeadmControlPlane)(src.DeepCopy()), plain); err != nil {
		return fmt.Errorf("converting the KubeadmControlPlane %s from v1beta1: %w", src.Name, err)
	}
	dst.ObjectMeta = plain.ObjectMeta
	dst.Spec = v1beta2.KubeadmControlPlaneSpec{KubeadmControlPlaneSpec: plain.Spec, Additions: kept.Spec.Additions}
	dst.Status = v1beta2.KubeadmControlPlaneStatus{KubeadmControlPlaneStatus: plain.Status, Plan: kept.Status.Plan,
		CertificateExpiry: kept.Status.CertificateExpiry, Certificates: kept.Status.Certificates, Backup: kept.Status.Backup}
	return nil
}

func templateToOld(ctx context.Context, src *v1beta2.KubeadmControlPlaneTemplate, dst *v1beta1.KubeadmControlPlaneTemplate) error {
	if err := upstream.ConvertKubeadmControlPlaneTemplateHubToV1Beta1(ctx, PlainTemplate(src),
		(*upstreamv1beta1.KubeadmControlPlaneTemplate)(dst)); err != nil {
		return fmt.Errorf("converting the KubeadmControlPlaneTemplate %s to v1beta1: %w", src.Name, err)
	}
	return keep(src, dst)
}

func templateFromOld(ctx context.Context, src *v1beta1.KubeadmControlPlaneTemplate, dst *v1beta2.KubeadmControlPlaneTemplate) error {
	var kept v1beta2.KubeadmControlPlaneTemplate
	if err := recall(src, &kept); err != nil {
		return err
	}
	plain := &upstreamv1beta2.KubeadmControlPlaneTemplate{}
	if err := upstream.ConvertKubeadmControlPlaneTemplateV1Beta1ToHub(ctx, (*upstreamv1beta1.KubeadmControlPlaneTemplate)(src.DeepCopy()),
		plain); err != nil {
		return fmt.Errorf("converting the KubeadmControlPlaneTemplate %s from v1beta1: %w", src.Name, err)
	}
	dst.ObjectMeta = plain.ObjectMeta
	dst.Spec.Template.ObjectMeta = plain.Spec.Template.ObjectMeta
	dst.Spec.Template.Spec = v1beta2.KubeadmControlPlaneTemplateResourceSpec{
		KubeadmControlPlaneTemplateResourceSpec: plain.Spec.Template.Spec, Additions: kept.Spec.Template.Spec.Additions,
	}
	return nil
}

// PlainControlPlane returns a copy of a control plane as upstream's type, which lacks Quorate's additions.
func PlainControlPlane(c *v1beta2.KubeadmControlPlane) *upstreamv1beta2.KubeadmControlPlane {
	c = c.DeepCopy()
	return &upstreamv1beta2.KubeadmControlPlane{
		TypeMeta: c.TypeMeta, ObjectMeta: c.ObjectMeta,
		Spec: c.Spec.KubeadmControlPlaneSpec, Status: c.Status.KubeadmControlPlaneStatus,
	}
}

// PlainTemplate returns a copy of a template as upstream's type, which lacks Quorate's additions.
func PlainTemplate(t *v1beta2.KubeadmControlPlaneTemplate) *upstreamv1beta2.KubeadmControlPlaneTemplate {
	t = t.DeepCopy()
	return &upstreamv1beta2.KubeadmControlPlaneTemplate{
		TypeMeta: t.TypeMeta, ObjectMeta: t.ObjectMeta,
		Spec: upstreamv1beta2.KubeadmControlPlaneTemplateSpec{Template: upstreamv1beta2.KubeadmControlPlaneTemplateResource{
			ObjectMeta: t.Spec.Template.ObjectMeta,
			Spec:       t.Spec.Template.Spec.KubeadmControlPlaneTemplateResourceSpec,
		}},
	}
}

// keep puts all of src, in which all of upstream's is, in place of what upstream put into the annotation.
func keep(src, dst metav1.Object) error {
	if err := data.MarshalData(src, dst); err != nil {
		return fmt.Errorf("keeping what v1beta1 has no fields for: %w", err)
	}
	return nil
}

// recall reads the annotation and leaves it, as upstream reads it too.
func recall(src metav1.Object, into any) error {
	if _, err := data.UnmarshalData(&metav1.ObjectMeta{Annotations: maps.Clone(src.GetAnnotations())}, into); err != nil {
		return fmt.Errorf("recalling what v1beta1 has no fields for: %w", err)
	}
	return nil
}
