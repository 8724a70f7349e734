package machines

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// ManagementAnnotation on a ControlPlane records that its cluster has an etcd authority, where spec.etcd.management does not
// say who keeps the members. It survives a move and a backup, and stays when the authority's secret is lost.
const ManagementAnnotation = "controlplane.cluster.x-k8s.io/quorate-etcd-management"

// management is who keeps the members of etcd on a control plane's machines.
func management(cp *v1alpha1.ControlPlane) v1alpha1.EtcdManagement {
	switch {
	case cp.Spec.Etcd.Management != "":
		return cp.Spec.Etcd.Management
	case cp.Spec.ManagedExternalEtcdRef.IsDefined():
		return v1alpha1.EtcdManagementNone
	case usesKubeadm(cp), cp.Annotations[ManagementAnnotation] != "":
		return v1alpha1.EtcdManagementMembers
	}
	return v1alpha1.EtcdManagementNone
}

// recordManagement records that the cluster has an etcd authority, where nothing says who keeps the members.
func recordManagement(ctx context.Context, t *act.Writer) error {
	if cp := of(t.View); cp.Spec.Etcd.Management != "" || cp.Spec.ManagedExternalEtcdRef.IsDefined() ||
		cp.Annotations[ManagementAnnotation] != "" || !memoryOf(t.Memory).etcd {
		return nil
	}
	return t.Annotate(ctx, map[string]string{ManagementAnnotation: string(v1alpha1.EtcdManagementMembers)})
}

// Look implements group.Kind: whether the cluster serves, and how the operator says that etcd is.
func (k *Kind) Look(ctx context.Context, t observe.Seen) error {
	o := &t.Facts
	if o.Group.Deleting || o.Group.Paused {
		return nil
	}
	if !o.Group.Initialized && o.Cluster.Reachable {
		o.Cluster.Initializing = "no machine has a Node yet"
		for _, m := range t.Machines {
			if m.Node != nil {
				o.Group.Initialized, o.Group.New, o.Cluster.Initializing = true, false, ""
			}
		}
	}
	if o.Etcd.Operated() && o.Group.Initialized {
		k.askOperator(ctx, t.Observer)
	}
	return observeFiles(ctx, t.Observer)
}

// Operators tell how the operator in a managed cluster says that etcd is.
type Operators interface {
	// Condition returns the condition of an object in a managed cluster; nil: it has none.
	Condition(ctx context.Context, config *rest.Config, ref v1alpha1.EtcdOperatorReference) (*metav1.Condition, error)
}

// operatorSays is what an operator said of etcd, and when.
type operatorSays struct {
	healthy bool
	text    string
	at      time.Time
}

// operatorAge is how long an operator's word is believed.
const operatorAge = 2 * time.Second

// askOperator refuses to begin anything while the operator does not say that etcd is healthy. A machine that broke is replaced
// nevertheless: etcd is not healthy because of it, and the operator's hooks say when it may go.
func (k *Kind) askOperator(ctx context.Context, t *observe.Observer) {
	m := memoryOf(t.Memory)
	if t.Facts.Now.Sub(m.said.at) > operatorAge {
		m.said = k.operator(ctx, t)
		m.said.at = t.Facts.Now
	}
	if !m.said.healthy {
		t.Refuse(plan.Refusal{Reason: "EtcdNotHealthy", Message: m.said.text, Replaceable: true})
	}
}

// operator asks for the operator's word.
func (k *Kind) operator(ctx context.Context, t *observe.Observer) operatorSays {
	ref := of(t.View).Spec.Etcd.Operator.WithDefaults()
	name := ref.Kind + " " + ref.Name
	config := t.Workload.Config(t.ClusterKey())
	if config == nil {
		return operatorSays{text: name + " is not known: the cluster was not reached yet"}
	}
	var from Operators = clusters{}
	if k.Etcd != nil {
		from = k.Etcd
	}
	var c *metav1.Condition
	var err error
	observe.Aside(ctx, func() { c, err = from.Condition(ctx, config, ref) })
	switch {
	case err != nil:
		return operatorSays{text: fmt.Sprintf("%s could not be read: %s", name, machine.Quote(err.Error()))}
	case c == nil:
		return operatorSays{text: fmt.Sprintf("%s has no condition %s", name, ref.ConditionType)}
	case c.Status != metav1.ConditionTrue:
		said := machine.Quote(cmp.Or(c.Message, c.Reason))
		return operatorSays{text: fmt.Sprintf("%s: condition %s is %s: %s", name, ref.ConditionType, c.Status, said)}
	}
	return operatorSays{healthy: true, text: machine.Quote(c.Message)}
}

// clusters are the managed clusters themselves.
type clusters struct{}

// Condition implements Operators.
func (clusters) Condition(ctx context.Context, config *rest.Config, ref v1alpha1.EtcdOperatorReference) (*metav1.Condition, error) {
	of := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	return workload.Condition(ctx, config, of, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, ref.ConditionType, operatorAge)
}

// operatorCondition tells what the operator said of etcd.
func operatorCondition(t *observe.View) []metav1.Condition {
	if !t.Facts.Etcd.Operated() {
		return nil
	}
	kind, said := upstream.KubeadmControlPlaneEtcdClusterHealthyCondition, memoryOf(t.Memory).said
	switch {
	case said.at.IsZero():
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionUnknown, clusterv1.InspectionFailedReason,
			"The operator was not asked yet")}
	case said.healthy:
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneEtcdClusterHealthyReason, "")}
	}
	return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse,
		upstream.KubeadmControlPlaneEtcdClusterNotHealthyReason, said.text)}
}
