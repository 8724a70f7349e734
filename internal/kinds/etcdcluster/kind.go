package etcdcluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters/status,verbs=patch
// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=etcdadmconfigs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes;controlplanes,verbs=get;delete

// Finalizer holds an EtcdCluster until its machines are gone.
const Finalizer = "etcdcluster.cluster.x-k8s.io/quorate"

const templateField = "spec.infrastructureTemplate"

// Kind is the kind EtcdCluster. It implements group.Kind.
type Kind struct{}

// New returns the kind.
func New() *Kind { return &Kind{} }

// of returns the etcd cluster of a turn.
func of(t *observe.View) *v1alpha1.EtcdCluster { return t.Object.(*v1alpha1.EtcdCluster) }

// Type implements group.Kind.
func (*Kind) Type() observe.Type {
	return observe.Type{
		GroupVersionKind: v1alpha1.GroupVersion.WithKind("EtcdCluster"),
		Resource:         "etcdclusters",
		Finalizer:        Finalizer,
		NameVariable:     machine.EtcdClusterVariable,
		TemplateField:    templateField,
		Nodeless:         true,
		Standalone:       true,
		Seeds:            true,
		Runs:             "etcd",
		Authority:        observe.ManagedEtcdAuthority,
	}
}

// New implements group.Kind.
func (*Kind) New() observe.Object { return &v1alpha1.EtcdCluster{} }

// Spec implements group.Kind.
func (*Kind) Spec(object observe.Object) observe.Spec {
	e := object.(*v1alpha1.EtcdCluster)
	spec := observe.Spec{
		Approval:       e.Spec.Approval,
		Replicas:       e.Spec.Replicas,
		Infrastructure: e.Spec.InfrastructureTemplate,
		ReadinessGates: e.Spec.MachineTemplate.Spec.ReadinessGates,
		Domains:        e.Spec.FailureDomains,
		Policy: plan.Policy{
			MaxParallel:     int(ptr.Deref(e.Spec.Joins.MaxParallel, 0)),
			Learners:        true,
			Surge:           surge(e),
			Overlap:         ptr.Deref(e.Spec.Joins.Overlap, false),
			MemberAdd:       observe.MemberAdd(e.Spec.Joins.TimeoutSeconds),
			MaxReplacements: observe.MaxReplacements(e.Spec.Approval),
			Repair:          observe.RepairLimits(upstream.KubeadmControlPlaneRemediationSpec(e.Spec.Remediation)),
			EtcdOnly:        true,
			Defragment:      observe.Defragmentation(e.Spec.EtcdMaintenance),
		},
		Backup:      e.Spec.Backup,
		Etcd:        plan.EtcdOurs,
		HoldsQuorum: true,
		Selector:    labels.SelectorFromSet(labels.Set{v1alpha1.MachineLabel: e.Name}),
	}
	if auto := e.Spec.AutoRepair; auto != nil {
		spec.HealthCheck = &observe.HealthCheck{NodeStartupSeconds: auto.StartupTimeoutSeconds, UnhealthySeconds: auto.UnhealthyTimeoutSeconds}
	}
	return spec
}

// surge is how many machines more than wanted a rollout may have.
func surge(e *v1alpha1.EtcdCluster) int {
	most := e.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
	if most == nil {
		return 1
	}
	return most.IntValue()
}

// Status implements group.Kind.
func (*Kind) Status(object observe.Object) observe.Status {
	status := &object.(*v1alpha1.EtcdCluster).Status
	return observe.Status{
		Backup:             &status.Backup,
		Plan:               &status.Plan,
		ObservedGeneration: &status.ObservedGeneration,
		Selector:           &status.Selector,
		Initialized:        &status.Initialized,
		Version:            &status.Version,
		Versions:           new([]clusterv1.StatusVersion),
		Replicas:           &status.Replicas,
		ReadyReplicas:      &status.ReadyReplicas,
		AvailableReplicas:  &status.AvailableReplicas,
		UpToDateReplicas:   &status.UpToDateReplicas,
		CertificateExpiry:  &status.CertificateExpiry,
	}
}

// Steps implements group.Kind.
func (k *Kind) Steps() act.Steps { return act.Steps{Maker: k, End: k} }

// Reports implements group.Kind.
func (k *Kind) Reports() observe.Reports {
	return observe.Reports{Describe: k.Describe}
}

// Want implements group.Kind.
func (k *Kind) Want(*observe.View) observe.Own {
	return observe.Own{Surroundings: k, Bootstraps: k, Wanted: k}
}

// Look implements group.Kind. It finds out whether members of the wanted version can join, and of which version new ones are.
// Control planes may have to follow first, and other machines to go before an EtcdCluster that is being deleted.
func (*Kind) Look(ctx context.Context, t observe.Seen) error {
	if text := leap(Version(of(t.View)), versions(t.View)); text != "" {
		t.Refuse(plan.Refusal{Reason: "InvalidVersionChange", Message: "spec.version: " + text, Replaceable: true})
	}
	t.Facts.Want.EtcdVersion = buildVersion(t.View)
	if err := needNothing(ctx, t.Observer); err != nil {
		return err
	}
	return waitForFollowers(ctx, t.Observer)
}

// wanted is what each machine should be.
func wanted(t *observe.View) drift.Wanted {
	e := of(t)
	template := e.Spec.MachineTemplate
	w := drift.Wanted{
		Name:           e.Name,
		Etcd:           true,
		Metadata:       template.ObjectMeta,
		Deletion:       template.Spec.Deletion,
		ReadinessGates: template.Spec.ReadinessGates,
		Infrastructure: e.Spec.InfrastructureTemplate,
		Fields:         drift.Fields{Infrastructure: templateField},
	}
	if filter, has := e.Labels[clusterv1.WatchLabel]; has {
		w.WatchFilter = &filter
	}
	return w
}

// Describe implements group.Kind. Machines without Nodes are never ready in Cluster API's sense: ready is whose member votes and answers.
func (*Kind) Describe(t *observe.View, object observe.Object) {
	e := object.(*v1alpha1.EtcdCluster)
	status := &e.Status
	status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.MachineLabel: e.Name}})
	complete := int32(t.Assessed.Complete())
	status.ReadyReplicas, status.AvailableReplicas = ptr.To(complete), ptr.To(complete)
	if last := t.LastRemediation(); last != nil {
		status.LastRemediation.Machine, status.LastRemediation.Time, status.LastRemediation.RetryCount = last.Machine, last.Timestamp,
			ptr.To(int32(last.Retries))
	}
	status.Version = ""
	if all := versions(t); len(all) > 0 {
		status.Version = all[0].String()
	}
	describeExpiry(t, status)
	if t.Facts.Etcd.Known && len(memberURLs(t, isMember)) > 0 {
		handOver(t, status)
	} // else what was said last is the best that is known
}

// firstAddress is the address of the oldest machine whose member votes; empty: there is none.
func firstAddress(t *observe.View) string {
	for _, m := range t.Machines {
		if ip := machine.InternalIP(m.Machine); m.Facts.Ready && ip != "" {
			return ip
		}
	}
	return ""
}
