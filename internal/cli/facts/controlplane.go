package facts

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/machines"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/stacked"
)

// ControlPlane is what a control plane of any kind says, in one shape.
type ControlPlane struct {
	// Kind observes it.
	Kind       group.Kind
	Key        client.ObjectKey
	Labels     map[string]string
	Generation int64
	// Replicas are wanted.
	Replicas int
	Version  string
	// Initialized: its cluster once answered.
	Initialized        bool
	ObservedGeneration int64
	Conditions         []metav1.Condition
	Plan               controlplanev1.PlanStatus
	// CertificateExpiry is zero where the kind does not tell it.
	CertificateExpiry controlplanev1.CertificateExpiryStatus
	// HoldsQuorum: etcd may run on its machines.
	HoldsQuorum bool
	// Components are the static pods that each machine should run; none: it may run its components in any way.
	Components []string
}

// kinds are those of control planes that are known here.
func kinds() []group.Kind { return []group.Kind{stacked.New(), machines.New()} }

// kindOf returns the kind that a reference is of; nil: it is not known here.
func kindOf(ref clusterv1.ContractVersionedObjectReference) group.Kind {
	for _, kind := range kinds() {
		if t := kind.Type(); t.Group == ref.APIGroup && t.Kind == ref.Kind {
			return kind
		}
	}
	return nil
}

func viewOf(kind group.Kind, object group.Object) *ControlPlane {
	spec, status := kind.Spec(object), kind.Status(object)
	cp := &ControlPlane{
		Kind:               kind,
		Key:                client.ObjectKeyFromObject(object),
		Labels:             object.GetLabels(),
		Generation:         object.GetGeneration(),
		Replicas:           int(ptr.Deref(spec.Replicas, 1)),
		Version:            spec.Version,
		Initialized:        ptr.Deref(*status.Initialized, false),
		ObservedGeneration: *status.ObservedGeneration,
		Conditions:         object.GetConditions(),
		Plan:               *status.Plan,
		HoldsQuorum:        spec.HoldsQuorum,
		Components:         spec.Components,
	}
	if kcp, is := object.(*controlplanev1.KubeadmControlPlane); is {
		cp.CertificateExpiry = kcp.Status.CertificateExpiry
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

// staticPods are those by which a control plane usually runs.
var staticPods = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// components are the static pods of a machine with this Node. Where none is required, those count that there are.
func (cp *ControlPlane) components(node string, pods []corev1.Pod) []plan.Component {
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
