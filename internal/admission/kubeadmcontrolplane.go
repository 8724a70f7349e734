package admission

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstreamv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/conversion"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,versions=v1beta2,name=default.kubeadmcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,versions=v1beta2,name=validation.kubeadmcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// KubeadmControlPlane defaults and validates KubeadmControlPlanes as upstream does: a controller of upstream's takes over what is
// there, and counts on its defaults. Beyond that it refuses what Quorate could not carry out, so that users need not
// look for the reason in the status. What Quorate adds needs no more than its schema.
type KubeadmControlPlane struct {
	// Reader finds the etcd that a control plane refers to; nil: whose it is is left to the controller.
	Reader client.Reader

	upstream upstream.KubeadmControlPlane
}

var (
	_ admission.Defaulter[*controlplanev1.KubeadmControlPlane] = &KubeadmControlPlane{}
	_ admission.Validator[*controlplanev1.KubeadmControlPlane] = &KubeadmControlPlane{}
)

// Default fills in what upstream fills in.
func (v *KubeadmControlPlane) Default(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) error {
	theirs := conversion.PlainControlPlane(kcp)
	if err := v.upstream.Default(ctx, theirs); err != nil {
		return err
	}
	kcp.Spec.KubeadmControlPlaneSpec = theirs.Spec
	return nil
}

// ValidateCreate refuses what upstream refuses, and what Quorate cannot carry out.
func (v *KubeadmControlPlane) ValidateCreate(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (admission.Warnings, error) {
	if err := refusal(nil, kcp); err != nil {
		return nil, err
	}
	if err := checkOwnEtcd(ctx, v.Reader, kcp, kcp.Spec.ManagedExternalEtcdRef); err != nil {
		return nil, err
	}
	return v.upstream.ValidateCreate(ctx, theirs(kcp))
}

// ValidateUpdate refuses what upstream refuses, and what Quorate cannot carry out.
func (v *KubeadmControlPlane) ValidateUpdate(
	ctx context.Context, before, after *controlplanev1.KubeadmControlPlane,
) (admission.Warnings, error) {
	if err := refusal(before, after); err != nil {
		return nil, err
	}
	was, is := theirs(before), theirs(after)
	if keepsReplicas(before, after) {
		// Upstream refuses every update of what has a number that it does not accept, the removal of a finalizer too.
		is.Spec.Replicas = acceptable(is.Spec.Replicas, hasExternalEtcd(after) && !after.Spec.ManagedExternalEtcdRef.IsDefined())
		was.Spec.Replicas = is.Spec.Replicas
	}
	return v.upstream.ValidateUpdate(ctx, was, is)
}

// theirs is a control plane as upstream's checks know one. They know no managed etcd, and would take it for one on the machines, of
// which not any number is accepted.
func theirs(kcp *controlplanev1.KubeadmControlPlane) *upstreamv1.KubeadmControlPlane {
	plain := conversion.PlainControlPlane(kcp)
	if kcp.Spec.ManagedExternalEtcdRef.IsDefined() && plain.Spec.Replicas != nil {
		plain.Spec.Replicas = acceptable(plain.Spec.Replicas, false)
	}
	return plain
}

// ValidateDelete refuses nothing.
func (v *KubeadmControlPlane) ValidateDelete(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (admission.Warnings, error) {
	return v.upstream.ValidateDelete(ctx, conversion.PlainControlPlane(kcp))
}

// refText names the object that keeps a control plane's etcd.
func refText(kcp *controlplanev1.KubeadmControlPlane) string {
	ref := kcp.Spec.ManagedExternalEtcdRef
	if !ref.IsDefined() {
		return "left out"
	}
	return ref.Kind + " " + ref.Name
}

// refusal says what Quorate cannot carry out of what is written; nil: nothing. before is nil for a new control plane. What
// was stored already is not refused again.
func refusal(before, after *controlplanev1.KubeadmControlPlane) error {
	var all field.ErrorList
	if wrong := checkReplicas(before, after); wrong != nil {
		all = append(all, wrong)
	}
	if before != nil && before.Spec.ManagedExternalEtcdRef != after.Spec.ManagedExternalEtcdRef {
		all = append(all, field.Forbidden(field.NewPath("spec", "managedExternalEtcdRef"),
			fmt.Sprintf("it stays as it was when the control plane was made (%s): the data are in the etcd that it names, or on the machines",
				refText(before))))
	}
	if before == nil || before.Spec.Version != after.Spec.Version {
		if err := machine.CheckVersion(after.Spec.Version); err != nil {
			all = append(all, field.Invalid(field.NewPath("spec", "version"), after.Spec.Version, err.Error()))
		}
	}
	if before != nil {
		all = append(all, checkNeeded(before, after, after.Spec.InPlace.Policy)...)
	}
	all = append(all, checkReferences(before, after, field.NewPath("spec"))...)
	all = append(all, checkBackup(backupOf(before), after.Spec.Backup, elsewhere(hasExternalEtcd(after)), field.NewPath("spec"))...)
	all = append(all, checkWindows(approvalOf(before), after.Spec.Approval, field.NewPath("spec"))...)
	config := &after.Spec.KubeadmConfigSpec
	if before == nil || kubeadm.JoinAddress(&before.Spec.KubeadmConfigSpec) != kubeadm.JoinAddress(config) {
		all = append(all, checkAdvertised(config, !hasExternalEtcd(after), field.NewPath("spec", "kubeadmConfigSpec"))...)
	}
	naming := after.Spec.MachineNaming.Template
	if before == nil || before.Spec.MachineNaming.Template != naming {
		all = append(all, checkNaming(naming, after.Name, after.Labels[clusterv1.ClusterNameLabel], field.NewPath("spec"))...)
	}
	if len(all) == 0 {
		return nil
	}
	return apierrors.NewInvalid(controlplanev1.GroupVersion.WithKind("KubeadmControlPlane").GroupKind(), after.Name, all)
}

// backupOf returns a control plane's backups; of nil none.
func backupOf(kcp *controlplanev1.KubeadmControlPlane) *controlplanev1.BackupSpec {
	if kcp == nil {
		return nil
	}
	return kcp.Spec.Backup
}

// checkReferences returns what is wrong with references that are new.
func checkReferences(before, after *controlplanev1.KubeadmControlPlane, spec *field.Path) field.ErrorList {
	var all field.ErrorList
	if before == nil {
		before = &controlplanev1.KubeadmControlPlane{}
	}
	if ref := after.Spec.MachineTemplate.Spec.InfrastructureRef; ref != before.Spec.MachineTemplate.Spec.InfrastructureRef {
		all = checkRef(machine.InfrastructureTemplateRef, ref, spec.Child("machineTemplate", "spec", "infrastructureRef"))
	}
	if ref := after.Spec.ManagedExternalEtcdRef; ref != before.Spec.ManagedExternalEtcdRef {
		all = append(all, checkManagedEtcd(ref, spec)...)
	}
	return all
}

// checkNaming refuses a template of machines' names that makes none.
func checkNaming(template, controlPlane, cluster string, spec *field.Path) field.ErrorList {
	// That {{ .random }} is missing is for upstream's check to say.
	if template == "" || !strings.Contains(template, "{{ .random }}") {
		return nil
	}
	if cluster == "" {
		cluster = "cluster" // which one is not known yet
	}
	if _, err := machine.NameFormat(template, controlPlane, cluster); err != nil {
		return field.ErrorList{field.Invalid(spec.Child("machineNaming", "template"), template, err.Error())}
	}
	return nil
}
