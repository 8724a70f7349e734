package observe

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
)

// Object is the object of a group: a KubeadmControlPlane, a ControlPlane.
type Object interface {
	client.Object
	conditions.Setter
}

// Type names a kind of groups.
type Type struct {
	schema.GroupVersionKind
	// Resource is the name of the kind in requests: kubeadmcontrolplanes.
	Resource string
	// Finalizer holds an object until its machines are gone.
	Finalizer string
	// NameVariable stands for the object in templates of machines' names.
	NameVariable string
	// Nodeless: its machines have no Nodes. They run a member of etcd and nothing else.
	Nodeless bool
	// TemplateField is the field that refers to the template of infrastructure machines. Defaults to
	// spec.machineTemplate.spec.infrastructureRef.
	TemplateField string
	// Seeds: one of its machines can be made by the seed of an EtcdRecovery.
	Seeds bool
	// Standalone: an object belongs to the Cluster that its label names, where no Cluster owns it. It is not the Cluster's control plane.
	Standalone bool
	// Runs is what spec.version is the version of. Defaults to Kubernetes.
	Runs string
	// Authority is the purpose of the secret with the authority of etcd. Defaults to that of a control plane's etcd.
	Authority secret.Purpose
}

// Kind is what one kind of groups has of its own when it is looked at. What can be asked without a group stands here; all else is
// reached through what Want returns, so that it comes first.
type Kind interface {
	// Type names the kind; New returns an empty object of it.
	Type() Type
	New() Object
	// Spec is what all kinds' specs say, in one shape; Status points to what all kinds' statuses have.
	Spec(object Object) Spec
	Status(object Object) Status
	// Want adds what this kind wants, from the object, its Cluster and its Machines alone.
	Want(t *View) Own
}

// Own is what one kind of groups has of its own once it is known what it wants. What a kind lacks is nil.
type Own struct {
	Surroundings
	Bootstraps
	Wanted
	// Updates is nil where machines of this kind are never changed in place.
	Updates Updates
}

// Surroundings looks around the machines of a group.
type Surroundings interface {
	// Read adds what the management cluster knows, unless the group is paused or deleted.
	Read(ctx context.Context, t *Observer) error
	// Look adds what the managed cluster knows beside Nodes, static pods and etcd.
	Look(ctx context.Context, t Seen) error
}

// Bootstraps reads the bootstrap objects of a group.
type Bootstraps interface {
	// ReadBootstrap adds the bootstrap object of a machine.
	ReadBootstrap(ctx context.Context, t *Observer, m *Machine) error
	// Created lists the bootstrap objects of the group.
	Created(ctx context.Context, t *Observer) ([]client.Object, error)
	// Unadoptable says what a Machine's bootstrap and version have against its adoption; empty: nothing.
	Unadoptable(ctx context.Context, t *Observer, m *clusterv1.Machine) (string, error)
}

// Wanted compares machines with what is wanted.
type Wanted interface {
	// Drift says in what a machine is not as wanted.
	Drift(t *View, m *Machine) drift.Drift
	// InPlace returns what the objects of a machine should carry; of an empty one, what a new one is made with.
	InPlace(t *View, m *Machine) drift.Changes
}

// Updates says what machines become that are changed in place.
type Updates interface {
	// Goal is what machines are brought to where they are changed in place.
	Goal(t *View) drift.Goal
	// Desired is the bootstrap object of a machine as it is once the machine is as wanted; the one that it has where none of that can be said,
	// or it has none.
	Desired(t *View, m *Machine) client.Object
}

// Reports is what one kind of groups has of its own in what is reported. What a kind lacks is nil.
type Reports struct {
	// Conditions and MachineConditions are those that only this kind has.
	Conditions        func(t *View) []metav1.Condition
	MachineConditions func(t *View, m *Machine) []metav1.Condition
	// Describe completes the status of an object.
	Describe func(t *View, object Object)
}

// Spec is what all kinds' specs say.
type Spec struct {
	// Replicas is how many machines are wanted; nil: the spec does not name a number.
	Replicas *int32
	// Version is the one of Kubernetes; empty: the bootstrap provider knows it.
	Version string
	// Names is the template of the machines' names; empty: the object's name and a number.
	Names string
	// Infrastructure is the template of the infrastructure machines.
	Infrastructure clusterv1.ContractVersionedObjectReference
	// ReadinessGates are the user's.
	ReadinessGates []clusterv1.MachineReadinessGate
	// Domains are the failure domains to use; nil: the Cluster's for control planes.
	Domains []string
	// Policy is how machines join, are replaced and go.
	Policy plan.Policy
	// ByExtension: Runtime Extensions of others change machines in place, and Quorate does not.
	ByExtension bool
	// Drain is how nodes are drained before they are upgraded in place.
	Drain controlplanev1.InPlaceDrainSpec
	// Approval reports whether a person must approve before machines are replaced or changed in place, and when that may begin.
	Approval controlplanev1.ApprovalSpec
	// HealthCheck is the MachineHealthCheck that the group owns; nil: none.
	HealthCheck *HealthCheck
	// Etcd is who keeps the members of etcd on the machines, as far as the object alone tells. HoldsQuorum: some may run
	// there, kept by any controller.
	Etcd        plan.EtcdOwner
	HoldsQuorum bool
	// Components are the static pods that each machine should run, sorted by name; none: what can be told of a machine is
	// whether its Node is ready.
	Components []string
	// Selector selects the Machines that belong to the control plane; nil: those with the label for it.
	Selector labels.Selector
	// Inline is an infrastructure machine that is given instead of a template; nil: none.
	Inline *unstructured.Unstructured
	// InlineHash is drift.Wanted.InlineHash of it.
	InlineHash string
	// Backup says when etcd is backed up; nil: never.
	Backup *controlplanev1.BackupSpec
	// Hibernate: no machine is to run.
	Hibernate bool
	// EtcdTag is the tag of etcd's image that the spec sets; empty: the version chooses it.
	EtcdTag string
}

// HealthCheck says when a machine counts as broken.
type HealthCheck struct {
	// NodeStartupSeconds, in which a machine has its Node, or votes where it has none, defaults to 1200, UnhealthySeconds to 300.
	NodeStartupSeconds, UnhealthySeconds *int32
}

// Status points to what all kinds' statuses have.
type Status struct {
	Plan               *controlplanev1.PlanStatus
	ObservedGeneration *int64
	Selector           *string
	Initialized        **bool
	Version            *string
	Versions           *[]clusterv1.StatusVersion
	Replicas           **int32
	ReadyReplicas      **int32
	AvailableReplicas  **int32
	UpToDateReplicas   **int32
	// CertificateExpiry is the first certificate of the group to expire; nil: the kind does not tell it.
	CertificateExpiry *controlplanev1.CertificateExpiryStatus
	// Certificates is a summary of the group's certificates; nil: the kind does not tell it.
	Certificates *controlplanev1.CertificatesStatus
	// Backup is what came of backups.
	Backup *controlplanev1.BackupStatus
}

// CertificateEnds are when the first certificate of each name expires, as far as that is known.
func (s Status) CertificateEnds() map[string]time.Time {
	ends := map[string]time.Time{}
	if s.Certificates != nil {
		for _, c := range s.Certificates.First {
			ends[c.Name] = c.Date.Time
		}
	}
	if first := s.CertificateExpiry; first != nil && !first.Date.IsZero() {
		name := EtcdServerCertificate
		if first.Component == apiServer {
			name = APIServerCertificate
		}
		if end, known := ends[name]; !known || first.Date.Time.Before(end) {
			ends[name] = first.Date.Time
		}
	}
	return ends
}

// The names of the certificates that servers of machines show, as kubeadm names their files.
const (
	APIServerCertificate  = "apiserver"
	EtcdServerCertificate = "etcd-server"
)

// InPlace is the user's policy of what is changed in place.
func InPlace(given controlplanev1.InPlacePolicy) plan.InPlace {
	if given == controlplanev1.InPlaceNever {
		return plan.InPlaceNever
	}
	return plan.InPlace(given)
}

// RepairLimits are those of the user, and upstream's defaults. Other kinds have the same fields.
func RepairLimits(given upstream.KubeadmControlPlaneRemediationSpec) plan.RepairLimits {
	limits := plan.RepairLimits{Most: -1, Healthy: time.Hour}
	if given.MaxRetry != nil {
		limits.Most = int(*given.MaxRetry)
	}
	limits.Period = time.Duration(ptr.Deref(given.RetryPeriodSeconds, 0)) * time.Second
	if given.MinHealthyPeriodSeconds != nil {
		limits.Healthy = time.Duration(*given.MinHealthyPeriodSeconds) * time.Second
	}
	return limits
}
