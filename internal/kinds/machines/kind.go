package machines

import (
	"cmp"
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=controlplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=controlplanes/status,verbs=patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=controlplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=*,verbs=get;list;watch;create;patch;delete

// Finalizer holds a ControlPlane until its machines are gone.
const Finalizer = "controlplane.cluster.x-k8s.io/quorate"

// Kind is the kind ControlPlane. It implements group.Kind.
type Kind struct {
	// Etcd tells how an operator says etcd is; nil: the clusters are asked themselves.
	Etcd Operators
}

// New returns the kind.
func New() *Kind { return &Kind{} }

// of returns the control plane of a turn.
func of(t *observe.View) *v1alpha1.ControlPlane { return t.Object.(*v1alpha1.ControlPlane) }

// Type implements group.Kind.
func (*Kind) Type() observe.Type {
	return observe.Type{
		GroupVersionKind: v1alpha1.GroupVersion.WithKind("ControlPlane"),
		Resource:         "controlplanes",
		Finalizer:        Finalizer,
		NameVariable:     machine.ControlPlaneVariable,
		Standalone:       true,
	}
}

// New implements group.Kind.
func (*Kind) New() observe.Object { return &v1alpha1.ControlPlane{} }

// Spec implements group.Kind.
func (*Kind) Spec(object observe.Object) observe.Spec {
	cp := object.(*v1alpha1.ControlPlane)
	template := cp.Spec.MachineTemplate.Spec
	spec := observe.Spec{
		Approval:       cp.Spec.Approval,
		ByExtension:    cp.Spec.InPlace.Updater == controlplanev1.UpdaterExtension,
		Drain:          cp.Spec.InPlace.Drain,
		Replicas:       cp.Spec.Replicas,
		Version:        cp.Spec.Version,
		Names:          cp.Spec.MachineNaming.Template,
		Infrastructure: template.InfrastructureRef,
		ReadinessGates: template.ReadinessGates,
		Domains:        cp.Spec.FailureDomains,
		Policy: plan.Policy{
			MaxParallel:     int(ptr.Deref(cp.Spec.Joins.MaxParallel, v1alpha1.DefaultMaxParallelJoins)),
			Surge:           1,
			Overlap:         ptr.Deref(cp.Spec.Joins.Overlap, false),
			MemberAdd:       observe.MemberAdd(cp.Spec.Joins.TimeoutSeconds),
			MaxReplacements: observe.MaxReplacements(cp.Spec.Approval),
			ShrinkHealthy:   true,
			InPlace:         observe.InPlace(cp.Spec.InPlace.Policy),
			Repair:          observe.RepairLimits(upstream.KubeadmControlPlaneRemediationSpec(cp.Spec.Remediation)),
		},
		Backup:      cp.Spec.Backup,
		Etcd:        owners[management(cp)],
		HoldsQuorum: !cp.Spec.ManagedExternalEtcdRef.IsDefined(),
		Inline:      inline(cp),
	}
	if ptr.Deref(cp.Spec.EnableAutorepair, true) {
		spec.HealthCheck = &observe.HealthCheck{NodeStartupSeconds: cp.Spec.Health.NodeStartupTimeoutSeconds,
			UnhealthySeconds: cp.Spec.Health.UnhealthyTimeoutSeconds}
	}
	if spec.Inline != nil {
		spec.InlineHash = drift.Wanted{Inline: spec.Inline}.InlineHash()
	}
	if given := cp.Spec.Selector; given != nil {
		if selector, err := metav1.LabelSelectorAsSelector(given); err == nil {
			spec.Selector = selector
		} else {
			spec.Selector = labels.Nothing() // admission refuses it; none is adopted by mistake
		}
	}
	return spec
}

// owners are who keeps the members of etcd on the machines, by what the spec says of it.
var owners = map[v1alpha1.EtcdManagement]plan.EtcdOwner{
	v1alpha1.EtcdManagementMembers:  plan.EtcdOurs,
	v1alpha1.EtcdManagementOperator: plan.EtcdOperator,
}

// inline is the infrastructure machine that is given instead of a template; nil: none is, or it cannot be read.
func inline(cp *v1alpha1.ControlPlane) *unstructured.Unstructured {
	value := cp.Spec.ProviderSpec.Value
	if value == nil {
		return nil
	}
	object := map[string]any{}
	if err := json.Unmarshal(value.Raw, &object); err != nil {
		return nil
	}
	return &unstructured.Unstructured{Object: object}
}

// Status implements group.Kind.
func (*Kind) Status(object observe.Object) observe.Status {
	status := &object.(*v1alpha1.ControlPlane).Status
	return observe.Status{
		Backup:             &status.Backup,
		Certificates:       &status.Certificates,
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
	}
}

// Steps implements group.Kind.
func (k *Kind) Steps() act.Steps { return act.Steps{Maker: k, Chores: k} }

// Reports implements group.Kind.
func (k *Kind) Reports() observe.Reports {
	return observe.Reports{Conditions: operatorCondition, Describe: k.Describe}
}

// Want implements group.Kind.
func (k *Kind) Want(t *observe.View) observe.Own {
	cp := of(t)
	if text := cp.Spec.Version; text != "" {
		v, err := version.Parse(text)
		if err != nil {
			t.Refuse(plan.Refusal{Reason: "InvalidVersion", Message: "spec.version: " + err.Error(), Replaceable: true})
		}
		t.Facts.Policy.Learners = v.Learners() && usesKubeadm(cp)
	}
	t.Facts.Group.Inactive = cp.Spec.State == v1alpha1.StateInactive || cp.Spec.State == "" && wouldAdopt(t) && !wasActive(t)
	return observe.Own{Surroundings: k, Bootstraps: k, Wanted: k, Updates: k}
}

// wasActive reports whether the control plane has acted before: it controls machines, or has made one. Owner references and
// annotations survive a restart and a move. Such a control plane goes on when a user labels a Machine that has no controller.
func wasActive(t *observe.View) bool { return len(t.Machines) > 0 || t.Facts.Group.LastMachine > 0 }

// wouldAdopt reports whether there are machines without a controller.
func wouldAdopt(t *observe.View) bool {
	for _, m := range t.Others {
		if metav1.GetControllerOf(m) == nil {
			return true
		}
	}
	return false
}

// wanted is what each machine should be.
func wanted(t *observe.View) drift.Wanted {
	cp := of(t)
	template := cp.Spec.MachineTemplate
	w := drift.Wanted{
		Name:           cp.Name,
		Metadata:       template.ObjectMeta,
		Deletion:       template.Spec.Deletion,
		Taints:         template.Spec.Taints,
		ReadinessGates: template.Spec.ReadinessGates,
		RetiredGates:   drift.KubeadmGates(),
		Version:        cp.Spec.Version,
		Infrastructure: template.Spec.InfrastructureRef,
		Inline:         t.Spec.Inline,
		Bootstrap:      template.Spec.Bootstrap.ConfigRef,
		DataSecret:     ptr.Deref(template.Spec.Bootstrap.DataSecretName, ""),
	}
	if filter, has := cp.Labels[clusterv1.WatchLabel]; has {
		w.WatchFilter = &filter
	}
	if t.Facts.Etcd.Ours() {
		w.RequiredGates = []string{upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition}
	}
	return w
}

// partsOf are the objects that a machine consists of.
func partsOf(m *observe.Machine) drift.Machine {
	bootstrap, _ := m.Bootstrap.(*unstructured.Unstructured)
	return drift.Machine{Machine: m.Machine, Bootstrap: bootstrap, Infrastructure: m.Infrastructure}
}

// Drift implements group.Kind.
func (*Kind) Drift(t *observe.View, m *observe.Machine) drift.Drift {
	return drift.Drift{Reasons: append(wanted(t).Compare(partsOf(m)), etcdDrift(t, m)...)}
}

// InPlace implements group.Kind.
func (*Kind) InPlace(t *observe.View, m *observe.Machine) drift.Changes {
	return wanted(t).InPlace(t.Cluster.Name, partsOf(m))
}

// Perform implements group.Kind.
func (*Kind) Perform(ctx context.Context, t *act.Writer, step plan.Step) error {
	config, err := kubeadm.TemplateConfiguration(memoryOf(t.Memory).made)
	if err != nil {
		return err
	}
	if step.Chore == observe.ChoreCertificates {
		return t.GenerateSecrets(ctx, config)
	}
	return t.WriteKubeadm(ctx, step.Chore, filesWanted(t.View, config))
}

// Sync implements group.Kind.
func (*Kind) Sync(ctx context.Context, t *act.Writer) error {
	if usesKubeadm(of(t.View)) {
		act.Tokens{Writer: t}.DropTokens(ctx)
	}
	if template := memoryOf(t.Memory).template; template != nil {
		if err := t.OwnTemplate(ctx, template); err != nil {
			return err
		}
	}
	if err := recordManagement(ctx, t); err != nil {
		return err
	}
	return t.ControlSecrets(ctx, observe.ManagedEtcdSecrets(of(t.View).Spec.ManagedExternalEtcdRef)...)
}

// passing are reasons to refuse a spec that pass without anybody's help.
var passing = map[string]bool{"EtcdNotHealthy": true, "EtcdNotReady": true, "EtcdRollingOut": true, "TopologyPending": true}

// Describe implements group.Kind.
func (*Kind) Describe(t *observe.View, object observe.Object) {
	status := &object.(*v1alpha1.ControlPlane).Status
	status.UpdatedReplicas = status.UpToDateReplicas
	missing := max(int32(len(t.Machines)), ptr.Deref(t.Spec.Replicas, 1)) - ptr.Deref(status.AvailableReplicas, 0)
	status.UnavailableReplicas = ptr.To(max(missing, 0))
	status.FailureReason, status.FailureMessage = "", nil
	if refused := t.Facts.Want.Refused; refused.Reason != "" && !passing[refused.Reason] {
		status.FailureReason = v1alpha1.ControlPlaneStatusError(refused.Reason)
		status.FailureMessage = ptr.To(cmp.Or(refused.Message, refused.Reason))
	}
	if last := t.LastRemediation(); last != nil {
		status.LastRemediation = v1alpha1.LastRemediationStatus{Machine: last.Machine, Time: last.Timestamp,
			RetryCount: ptr.To(int32(last.Retries))}
	}
}
