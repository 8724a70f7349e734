package stacked

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kubeadmconfigs,verbs=get;list;watch;create;patch;delete

// Kind is the kind KubeadmControlPlane. It implements group.Kind.
type Kind struct {
	// handshakes with API servers that are asked for their certificates.
	handshakes errgroup.Group
}

// New returns the kind.
func New() *Kind {
	k := &Kind{}
	k.handshakes.SetLimit(expiriesAtOnce)
	return k
}

// memory is what is kept of one control plane between turns.
type memory struct {
	// expiries are when the certificates of the API servers expire.
	expiries observe.Expiries
}

// memoryOf returns what is kept of a turn's control plane.
func memoryOf(m *observe.Memory) *memory {
	if m.Own == nil {
		m.Own = &memory{}
	}
	return m.Own.(*memory)
}

// of returns the control plane of a turn.
func of(t *observe.View) *controlplanev1.KubeadmControlPlane {
	return t.Object.(*controlplanev1.KubeadmControlPlane)
}

// Type implements group.Kind.
func (*Kind) Type() observe.Type {
	return observe.Type{
		GroupVersionKind: controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"),
		Resource:         "kubeadmcontrolplanes",
		Finalizer:        upstream.KubeadmControlPlaneFinalizer,
		NameVariable:     machine.KubeadmControlPlaneVariable,
		Seeds:            true,
	}
}

// New implements group.Kind.
func (*Kind) New() observe.Object { return &controlplanev1.KubeadmControlPlane{} }

// Spec implements group.Kind.
func (*Kind) Spec(object observe.Object) observe.Spec {
	kcp := object.(*controlplanev1.KubeadmControlPlane)
	spec := observe.Spec{
		Approval:       kcp.Spec.Approval,
		ByExtension:    kcp.Spec.InPlace.Updater == controlplanev1.UpdaterExtension,
		Drain:          kcp.Spec.InPlace.Drain,
		Replicas:       kcp.Spec.Replicas,
		Version:        kcp.Spec.Version,
		Names:          kcp.Spec.MachineNaming.Template,
		Infrastructure: kcp.Spec.MachineTemplate.Spec.InfrastructureRef,
		ReadinessGates: kcp.Spec.MachineTemplate.Spec.ReadinessGates,
		Policy: plan.Policy{
			MaxParallel:     int(ptr.Deref(kcp.Spec.Joins.MaxParallel, 0)),
			Eager:           ptr.Deref(kcp.Spec.Joins.Eager, false),
			Overlap:         ptr.Deref(kcp.Spec.Joins.Overlap, false),
			MemberAdd:       observe.MemberAdd(kcp.Spec.Joins.TimeoutSeconds),
			Surge:           surge(kcp),
			MaxReplacements: observe.MaxReplacements(kcp.Spec.Approval),
			Repair:          observe.RepairLimits(kcp.Spec.Remediation),
			InPlace:         observe.InPlace(kcp.Spec.InPlace.Policy),
			Defragment:      observe.Defragmentation(kcp.Spec.EtcdMaintenance),
		},
		Backup:      kcp.Spec.Backup,
		Hibernate:   kcp.Spec.PowerState == controlplanev1.PowerHibernated,
		EtcdTag:     kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.Local.ImageTag,
		HoldsQuorum: managesEtcd(kcp),
		Components:  []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"},
	}
	if spec.HoldsQuorum {
		spec.Etcd = plan.EtcdOurs
		spec.Components = append([]string{"etcd"}, spec.Components...)
	}
	if auto := kcp.Spec.AutoRepair; auto != nil {
		spec.HealthCheck = &observe.HealthCheck{NodeStartupSeconds: auto.NodeStartupTimeoutSeconds,
			UnhealthySeconds: auto.UnhealthyTimeoutSeconds}
	}
	return spec
}

// Status implements group.Kind.
func (*Kind) Status(object observe.Object) observe.Status {
	status := &object.(*controlplanev1.KubeadmControlPlane).Status
	return observe.Status{
		Plan:               &status.Plan,
		ObservedGeneration: &status.ObservedGeneration,
		Selector:           &status.Selector,
		Initialized:        &status.Initialization.ControlPlaneInitialized,
		Version:            &status.Version,
		Versions:           &status.Versions,
		Replicas:           &status.Replicas,
		ReadyReplicas:      &status.ReadyReplicas,
		AvailableReplicas:  &status.AvailableReplicas,
		UpToDateReplicas:   &status.UpToDateReplicas,
		CertificateExpiry:  &status.CertificateExpiry,
		Certificates:       &status.Certificates,
		Backup:             &status.Backup,
	}
}

// surge is how many machines more than wanted a rollout may have.
func surge(kcp *controlplanev1.KubeadmControlPlane) int {
	most := kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
	if most == nil {
		return 1
	}
	return most.IntValue()
}

// Steps implements group.Kind.
func (k *Kind) Steps() act.Steps { return act.Steps{Maker: k, Chores: k, Records: k, Seeds: k} }

// Reports implements group.Kind.
func (k *Kind) Reports() observe.Reports {
	return observe.Reports{Conditions: k.Conditions, MachineConditions: k.MachineConditions, Describe: k.Describe}
}

// Want implements group.Kind.
func (k *Kind) Want(t *observe.View) observe.Own {
	kcp := of(t)
	v, err := version.Parse(kcp.Spec.Version)
	if err != nil {
		t.Refuse(plan.Refusal{Reason: "InvalidVersion", Message: "spec.version: " + err.Error(), Replaceable: true})
	}
	gate, said := kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.FeatureGates["EtcdLearnerMode"]
	t.Facts.Policy.Learners = v.Learners() && (gate || !said)
	t.Facts.Policy.EtcdCall = kubeadm.EtcdCall(&kcp.Spec.KubeadmConfigSpec)
	return observe.Own{Surroundings: k, Bootstraps: k, Wanted: k, Updates: k}
}

// Read implements group.Kind.
func (*Kind) Read(ctx context.Context, t *observe.Observer) error {
	if err := t.ReadManagedEtcd(ctx, of(t.View).Spec.ManagedExternalEtcdRef); err != nil {
		return err
	}
	return t.ReadSecrets(ctx, &buildable(t.View).Spec.KubeadmConfigSpec)
}

// Drift implements group.Kind.
func (*Kind) Drift(t *observe.View, m *observe.Machine) drift.Drift {
	return drift.Of(withGates(wantedAs(t, m)), partsOf(m), t.Facts.Now)
}

// InPlace implements group.Kind.
func (*Kind) InPlace(t *observe.View, m *observe.Machine) drift.Changes {
	return drift.InPlace(wantedAs(t, m), t.Cluster.Name, partsOf(m))
}

// Perform implements group.Kind.
func (*Kind) Perform(ctx context.Context, t *act.Writer, step plan.Step) error {
	if step.Chore == observe.ChoreCertificates {
		return t.GenerateSecrets(ctx, &buildable(t.View).Spec.KubeadmConfigSpec)
	}
	return t.WriteKubeadm(ctx, step.Chore, wantedOf(buildable(t.View), kubeadm.DataOf(t.Cluster)))
}

// buildable returns the control plane as machines of it can be made now.
func buildable(t *observe.View) *controlplanev1.KubeadmControlPlane {
	kcp := withEtcd(of(t), t.Memory.ManagedEtcd.Endpoints)
	v := t.BuildVersion()
	if v == of(t).Spec.Version {
		return kcp
	}
	kcp = kcp.DeepCopy()
	kcp.Spec.Version = v
	return kcp
}

// Sync implements group.Kind.
func (*Kind) Sync(ctx context.Context, t *act.Writer) error {
	for _, m := range t.Machines {
		if err := withdrawBootstrap(ctx, t, m); err != nil {
			return err
		}
	}
	if err := t.ControlSecrets(ctx, observe.ManagedEtcdSecrets(of(t.View).Spec.ManagedExternalEtcdRef)...); err != nil {
		return err
	}
	act.Tokens{Writer: t}.DropTokens(ctx)
	act.Tokens{Writer: t}.RenewTokens(ctx)
	return recordExpiries(ctx, t)
}

// Conditions implements group.Kind.
func (*Kind) Conditions(t *observe.View) []metav1.Condition {
	if t.Facts.Group.Deleting {
		return nil
	}
	kind := upstream.KubeadmControlPlaneCertificatesAvailableCondition
	if len(t.Lacking) > 0 {
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneCertificatesNotAvailableReason,
			strings.Join(t.Lacking, "; "))}
	}
	return []metav1.Condition{observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneCertificatesAvailableReason, "")}
}

// Describe implements group.Kind.
func (*Kind) Describe(t *observe.View, object observe.Object) {
	kcp := object.(*controlplanev1.KubeadmControlPlane)
	if last := t.LastRemediation(); last != nil {
		kcp.Status.LastRemediation = upstream.LastRemediationStatus{Machine: last.Machine, Time: last.Timestamp,
			RetryCount: ptr.To(int32(last.Retries))}
	}
	describeExpiry(t, &kcp.Status)
	describeDeprecated(kcp)
}

// kubeadmConfig is the record of what a machine was made from; nil: not known.
func kubeadmConfig(m *observe.Machine) *bootstrapv1.KubeadmConfig {
	config, _ := m.Bootstrap.(*bootstrapv1.KubeadmConfig)
	return config
}

// partsOf are the objects that a machine consists of.
func partsOf(m *observe.Machine) drift.Machine {
	return drift.Machine{Machine: m.Machine, Config: kubeadmConfig(m), Infrastructure: m.Infrastructure}
}

// Created implements group.Kind.
func (*Kind) Created(ctx context.Context, t *observe.Observer) ([]client.Object, error) {
	configs := &bootstrapv1.KubeadmConfigList{}
	if err := t.Cache.List(ctx, configs, t.MadeForGroup()...); err != nil {
		return nil, fmt.Errorf("listing the KubeadmConfigs of %s: %w", t.Object.GetName(), err)
	}
	found := make([]client.Object, len(configs.Items))
	for i := range configs.Items {
		found[i] = &configs.Items[i]
	}
	return found, nil
}

// ReadBootstrap implements group.Kind. That a machine joined shows that a cluster was
// initialised: none is made to join before.
func (*Kind) ReadBootstrap(ctx context.Context, t *observe.Observer, m *observe.Machine) error {
	name := m.Spec.Bootstrap.ConfigRef.Name
	if name == "" {
		return nil
	}
	config := &bootstrapv1.KubeadmConfig{}
	err := t.GetPart(ctx, name, config)
	switch {
	case apierrors.IsNotFound(err):
		return checkConfigGone(ctx, t, m)
	case err != nil:
		return fmt.Errorf("reading KubeadmConfig %s: %w", name, err)
	}
	m.Bootstrap = config
	if !observe.IsHeld(m) && config.Spec.JoinConfiguration.ControlPlane != nil && !config.Spec.InitConfiguration.IsDefined() {
		t.Facts.Group.Initialized, t.Facts.Group.New = true, false
	}
	return nil
}

// checkConfigGone notes that a machine gets no bootstrap data any more: it is being deleted, has
// none, and the API server has no KubeadmConfig for it. A cache may not show it yet.
func checkConfigGone(ctx context.Context, t *observe.Observer, m *observe.Machine) error {
	ref := m.Spec.Bootstrap.ConfigRef
	if m.DeletionTimestamp.IsZero() || m.Spec.Bootstrap.DataSecretName != nil || ref.Kind != "KubeadmConfig" ||
		ref.APIGroup != bootstrapv1.GroupVersion.Group {
		return nil
	}
	err := t.APIReader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, &bootstrapv1.KubeadmConfig{})
	switch {
	case apierrors.IsNotFound(err):
		m.Withdrawn = true
	case err != nil:
		return fmt.Errorf("asking whether KubeadmConfig %s is gone: %w", ref.Name, err)
	}
	return nil
}

// withdrawBootstrap deletes the KubeadmConfig of a Machine that is being deleted and has no
// bootstrap data yet. The bootstrap provider heeds the deletion of its own objects only: it would
// still let the machine join, which could not be let go of before that is seen.
func withdrawBootstrap(ctx context.Context, t *act.Writer, m *observe.Machine) error {
	config := kubeadmConfig(m)
	if m.DeletionTimestamp.IsZero() || !m.Facts.Hook || !t.Facts.Etcd.Ours() || !act.AwaitsData(m) {
		return nil
	}
	// Of this very version: the data may have come meanwhile.
	err := t.Delete(ctx, config, true)
	if t.LookAgain(err) != nil {
		return fmt.Errorf("withdrawing KubeadmConfig %s: %w", config.Name, err)
	}
	return nil
}
