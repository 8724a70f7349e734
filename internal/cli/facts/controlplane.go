package facts

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/etcdcluster"
	"github.com/quorate/quorate/internal/kinds/machines"
	"github.com/quorate/quorate/internal/kinds/stacked"
)

// Group is what a control plane of any kind, or an etcd cluster, says, in one shape.
type Group struct {
	// Kind observes it.
	Kind       observe.Kind
	Key        client.ObjectKey
	Labels     map[string]string
	Generation int64
	// Replicas are wanted.
	Replicas int
	// Version is the wanted one of Kubernetes, or, where none is, the oldest that there is; of an etcd cluster etcd's.
	Version string
	// Initialized: its cluster once answered.
	Initialized        bool
	ObservedGeneration int64
	Conditions         []metav1.Condition
	// Next is what its controller decided last.
	Next report.Next
	// CertificateExpiry is zero where the kind does not tell it.
	CertificateExpiry report.CertificateExpiry
	// Recovery is from which backup its etcd can be recovered; its age is not known here.
	Recovery report.Recovery
	// HoldsQuorum: etcd may run on its machines.
	HoldsQuorum bool
	// Components are the static pods that each machine should run; none: it may run its components in any way.
	Components []string
}

// kinds are those of control planes that are known here.
func kinds() []observe.Kind { return []observe.Kind{stacked.New(), machines.New()} }

// kindOf returns the kind that a reference is of; nil: it is not known here.
func kindOf(ref clusterv1.ContractVersionedObjectReference) observe.Kind {
	for _, kind := range kinds() {
		if t := kind.Type(); t.Group == ref.APIGroup && t.Kind == ref.Kind {
			return kind
		}
	}
	return nil
}

// recovery is what a status tells of backups, where they are wanted.
func recovery(spec observe.Spec, status observe.Status, conditions []metav1.Condition) report.Recovery {
	if spec.Backup == nil {
		return report.Recovery{}
	}
	of := status.Backup.LastVerified
	r := report.Recovery{Wanted: true, Name: of.Name, Taken: of.Time.Time, Revision: of.Revision}
	if c := meta.FindStatusCondition(conditions, observe.BackupCurrent); c != nil {
		r.Current, r.Reason, r.Message = c.Status == metav1.ConditionTrue, c.Reason, c.Message
	}
	return r
}

func viewOf(kind observe.Kind, object observe.Object) *Group {
	spec, status := kind.Spec(object), kind.Status(object)
	cp := &Group{
		Kind:               kind,
		Key:                client.ObjectKeyFromObject(object),
		Labels:             object.GetLabels(),
		Generation:         object.GetGeneration(),
		Replicas:           int(ptr.Deref(spec.Replicas, 1)),
		Version:            cmp.Or(spec.Version, *status.Version),
		Initialized:        ptr.Deref(*status.Initialized, false),
		ObservedGeneration: *status.ObservedGeneration,
		Conditions:         object.GetConditions(),
		Recovery:           recovery(spec, status, object.GetConditions()),
		Next:               report.Next{Step: status.Plan.Step, Rule: status.Plan.Rule, Reason: status.Plan.Reason, Message: status.Plan.Message},
		HoldsQuorum:        spec.HoldsQuorum,
		Components:         spec.Components,
	}
	if first := status.CertificateExpiry; first != nil && !first.Date.IsZero() {
		cp.CertificateExpiry = report.CertificateExpiry{Date: first.Date.Time, Machine: first.Machine, Component: first.Component}
	}
	return cp
}

// readControlPlane reads the cluster's control plane, if it is of a kind that is known here.
func (o *Objects) readControlPlane(ctx context.Context, c client.Reader) error {
	ref := o.Cluster.Spec.ControlPlaneRef
	kind := kindOf(ref)
	if kind == nil {
		return nil
	}
	object := kind.New()
	err := c.Get(ctx, client.ObjectKey{Namespace: o.Cluster.Namespace, Name: ref.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	o.ControlPlane = viewOf(kind, object)
	return nil
}

// readEtcdClusters reads the etcd clusters on machines of their own that belong to the cluster.
func (o *Objects) readEtcdClusters(ctx context.Context, c client.Reader) error {
	kind, list := etcdcluster.New(), &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.Type().GroupVersionKind)
	err := c.List(ctx, list, client.InNamespace(o.Cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: o.Cluster.Name})
	if err != nil {
		return fmt.Errorf("listing the EtcdClusters of cluster %s: %w", o.Cluster.Name, err)
	}
	for i := range list.Items {
		object, key := kind.New(), client.ObjectKeyFromObject(&list.Items[i])
		if err := c.Get(ctx, key, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading EtcdCluster %s: %w", key, err)
		} else if err == nil {
			o.EtcdClusters = append(o.EtcdClusters, viewOf(kind, object))
		}
	}
	return nil
}

// staticPods are those by which a control plane usually runs.
var staticPods = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// components are the static pods of a machine with this Node. Where none is required, those count that there are.
func (cp *Group) components(node string, pods []corev1.Pod) []plan.Component {
	if len(cp.Components) > 0 {
		return machine.Components(node, pods, cp.Components)
	}
	running := map[string]bool{}
	for i := range pods {
		if p := &pods[i]; p.Namespace == metav1.NamespaceSystem && p.Spec.NodeName == node {
			running[p.Name] = true
		}
	}
	var names []string
	for _, name := range staticPods {
		if running[name+"-"+node] {
			names = append(names, name)
		}
	}
	return machine.Components(node, pods, names)
}
