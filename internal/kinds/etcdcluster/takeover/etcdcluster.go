package takeover

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1beta1"
	"github.com/quorate/quorate/internal/conversion"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
)

// specOf returns the spec that the EtcdCluster of an EtcdadmCluster should have, or why it can have none.
func specOf(e *v1beta1.EtcdadmCluster, exists bool) (*v1alpha1.EtcdClusterSpec, *wait) {
	spec, kept, err := conversion.EtcdClusterSpec(&e.Spec)
	if err != nil {
		return nil, &wait{"SpecInvalid", err.Error()}
	}
	if other := e.Spec.InfrastructureTemplate.Namespace; other != "" && other != e.Namespace {
		return nil, &wait{"SpecInvalid", fmt.Sprintf("spec.infrastructureTemplate.namespace is %q: must be %s, or left out", other, e.Namespace)}
	}
	at := field.NewPath("spec", "etcdadmConfigSpec")
	if wrong := etcdadm.RefuseKept(kept, at); len(wrong) > 0 {
		return nil, &wait{"SpecInvalid", wrong.ToAggregate().Error()}
	}
	if spec.Version == "" && e.Status.Initialized && !exists {
		// Quorate's default is another than that of the other controller, and would replace the members.
		return nil, &wait{"VersionUnknown", at.Child("cloudInitConfig", "version").String() +
			" is empty: set it to the version of etcd that the members run (etcdctl endpoint status)"}
	}
	return &spec, nil
}

// create makes the EtcdCluster. Where the other controller had a member already, no machine may begin another etcd cluster.
func (c *Controller) create(
	ctx context.Context, e *v1beta1.EtcdadmCluster, cluster string, spec *v1alpha1.EtcdClusterSpec,
) (*v1alpha1.EtcdCluster, error) {
	made := &v1alpha1.EtcdCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, v1beta1.GroupVersion.WithKind("EtcdadmCluster"))},
		},
		Spec: *spec,
	}
	if filter, has := e.Labels[clusterv1.WatchLabel]; has {
		made.Labels[clusterv1.WatchLabel] = filter
	}
	if e.Status.Initialized {
		made.Annotations = map[string]string{controlplanev1.InitializedAnnotation: "true"}
	}
	if err := c.Client.Create(ctx, made); err != nil {
		return nil, fmt.Errorf("creating EtcdCluster %s: %w", made.Name, err)
	}
	return made, nil
}

// update writes the fields that EtcdadmCluster has an answer to. All others are for a person to set on the EtcdCluster.
func (c *Controller) update(ctx context.Context, etcd *v1alpha1.EtcdCluster, spec *v1alpha1.EtcdClusterSpec) error {
	after := etcd.DeepCopy()
	after.Spec.Replicas, after.Spec.InfrastructureTemplate, after.Spec.EtcdadmConfigSpec = spec.Replicas, spec.InfrastructureTemplate,
		spec.EtcdadmConfigSpec
	if spec.Version != "" {
		after.Spec.Version = spec.Version
	}
	if equality.Semantic.DeepEqual(etcd.Spec, after.Spec) {
		return nil
	}
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(etcd, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing EtcdCluster %s: %w", etcd.Name, err)
	}
	return nil
}

// report writes into the status what the EtcdCluster's says. What the other controller wrote stays until the EtcdCluster can be used: a
// control plane must not take it for lost meanwhile.
func report(e *v1beta1.EtcdadmCluster, etcd *v1alpha1.EtcdCluster, w *wait) {
	status := &e.Status
	ready := clusterv1beta1.Condition{Type: v1beta1.EtcdClusterReadyCondition, Status: corev1.ConditionFalse,
		Severity: clusterv1beta1.ConditionSeverityInfo}
	switch {
	case w != nil:
		ready.Reason, ready.Message = w.reason, w.message
	case etcd == nil:
		return
	case ptr.Deref(etcd.Status.Ready, false):
		ready.Status, ready.Severity = corev1.ConditionTrue, ""
		status.Ready, status.CreationComplete, status.Initialized, status.Endpoints = true, true, true, etcd.Status.Endpoints
	default:
		ready.Reason, ready.Message = "WaitingForEtcdCluster", etcd.Status.Plan.Message
	}
	if etcd != nil {
		status.Initialized = status.Initialized || ptr.Deref(etcd.Status.Initialized, false)
		status.Replicas, status.Selector, status.ObservedGeneration = ptr.Deref(etcd.Status.Replicas, 0), etcd.Status.Selector, e.Generation
		if etcd.Status.InitMachineAddress != "" {
			status.InitMachineAddress = etcd.Status.InitMachineAddress
		}
	}
	ready.LastTransitionTime = metav1.Now()
	var others clusterv1beta1.Conditions
	for _, c := range status.Conditions {
		switch {
		case c.Type != ready.Type:
			others = append(others, c)
		case c.Status == ready.Status:
			ready.LastTransitionTime = c.LastTransitionTime
		}
	}
	if etcd != nil {
		others = nil // those of the other controller are over
	}
	others = append(others, ready)
	status.Conditions = others
}
