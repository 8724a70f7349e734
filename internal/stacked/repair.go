package stacked

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quorum"
)

// The times after which a machine counts as broken, where the user says nothing.
const (
	nodeStartupSeconds = 1200
	unhealthySeconds   = 300
)

// noteRepair writes down that a machine is given up to be replaced, before it is
// deleted: the one that takes its place shall know.
func (r *Reconciler) noteRepair(ctx context.Context, s *scene, m *memory, step plan.Step) error {
	given := group.Replacement{Machine: step.Machine, Timestamp: metav1.NewTime(time.Now().UTC().Truncate(time.Second)), Retries: step.Retry}
	return r.annotate(ctx, s, m, map[string]string{upstream.RemediationInProgressAnnotation: given.String()})
}

// annotate sets annotations of the control plane, or takes those away whose value is
// empty. A control plane that has changed since it was read is a conflict.
func (r *Reconciler) annotate(ctx context.Context, s *scene, m *memory, values map[string]string) error {
	after := s.kcp.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	for name, value := range values {
		if value == "" {
			delete(after.Annotations, name)
		} else {
			after.Annotations[name] = value
		}
	}
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(s.kcp, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing annotations of KubeadmControlPlane %s: %w", s.kcp.Name, err)
	}
	s.kcp = after
	m.writes.Expect(group.Write{Version: after.ResourceVersion})
	return nil
}

// repairs says what of a control plane's repair goes on: a machine that was given up
// and not replaced yet, or machines that are marked.
func (s *scene) repairs() []string {
	var texts []string
	if given := group.ReplacementIn(s.kcp.Annotations, upstream.RemediationInProgressAnnotation); given != nil {
		texts = append(texts, "* "+given.Machine+" was given up, and is to be replaced")
	}
	for _, m := range s.Facts.Machines {
		if m.Marked != "" {
			texts = append(texts, "* "+m.Name+": "+m.Marked)
		}
	}
	return texts
}

// verdict is what a rule says of what was observed.
func (s *scene) verdict(rule string) string {
	for _, v := range plan.Explain(s.Facts) {
		if v.Rule == rule {
			return v.Because + v.Decision.Message
		}
	}
	return ""
}

// healthCheck keeps the MachineHealthCheck that the control plane wants: there is one
// while spec.autoRepair is, and one machine can be spared.
func (r *Reconciler) healthCheck(ctx context.Context, s *scene) error {
	want := desiredHealthCheck(s.kcp, s.Cluster.Name)
	has := &clusterv1.MachineHealthCheck{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(s.kcp), has)
	switch {
	case apierrors.IsNotFound(err) && want == nil:
		return nil
	case apierrors.IsNotFound(err):
		err = r.Client.Create(ctx, want)
	case err != nil:
	case !metav1.IsControlledBy(has, s.kcp):
		return nil // somebody else's, who knows what is wanted
	case want == nil:
		err = client.IgnoreNotFound(r.Client.Delete(ctx, has, client.Preconditions{UID: &has.UID}))
	case !equality.Semantic.DeepEqual(has.Spec, want.Spec) || !reflect.DeepEqual(has.Labels, want.Labels):
		after := has.DeepCopy()
		after.Spec, after.Labels = want.Spec, want.Labels
		err = r.Client.Patch(ctx, after, client.MergeFrom(has))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("keeping MachineHealthCheck %s: %w", s.kcp.Name, err)
	}
	return nil
}

// desiredHealthCheck returns the health check for a control plane's machines; nil: none.
func desiredHealthCheck(kcp *controlplanev1.KubeadmControlPlane, cluster string) *clusterv1.MachineHealthCheck {
	auto, most := kcp.Spec.AutoRepair, spared(kcp)
	if auto == nil || most == 0 {
		return nil
	}
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{
		Namespace:       kcp.Namespace,
		Name:            kcp.Name,
		Labels:          map[string]string{clusterv1.ClusterNameLabel: cluster},
		OwnerReferences: []metav1.OwnerReference{controllerRef(kcp)},
	}}
	if filter := kcp.Labels[clusterv1.WatchLabel]; filter != "" {
		check.Labels[clusterv1.WatchLabel] = filter // controllers of that filter look at nothing else
	}
	timeout := ptr.To(ptr.Deref(auto.UnhealthyTimeoutSeconds, unhealthySeconds))
	check.Spec = clusterv1.MachineHealthCheckSpec{
		ClusterName: cluster,
		Selector:    metav1.LabelSelector{MatchLabels: machine.Labels(cluster)},
		Checks: clusterv1.MachineHealthCheckChecks{
			NodeStartupTimeoutSeconds: ptr.To(ptr.Deref(auto.NodeStartupTimeoutSeconds, nodeStartupSeconds)),
			UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: timeout},
				{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: timeout},
			},
		},
	}
	check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromInt32(most))
	return check
}

// spared is how many machines may be broken at once and the rest keeps the quorum:
// none of one, one of three, two of five. Without a quorum of ours, all but one.
func spared(kcp *controlplanev1.KubeadmControlPlane) int32 {
	replicas := ptr.Deref(kcp.Spec.Replicas, 1)
	if !managesEtcd(kcp) {
		return replicas - 1
	}
	return replicas - int32(quorum.Majority(int(replicas)))
}
