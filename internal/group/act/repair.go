package act

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// noteRepair writes down that a machine is given up to be replaced, if the step says so, before it is
// deleted: the one that takes its place must know.
func (t *Writer) noteRepair(ctx context.Context, step plan.Step) error {
	if !step.Repair {
		return nil
	}
	given := observe.Replacement{Machine: step.Machine, Timestamp: metav1.NewTime(time.Now().UTC().Truncate(time.Second)), Retries: step.Retry}
	return t.Annotate(ctx, map[string]string{upstream.RemediationInProgressAnnotation: given.String()})
}

// healthCheck keeps the MachineHealthCheck that the group wants: there is one
// while its spec asks for it, and one machine can be spared.
func (t upkeep) healthCheck(ctx context.Context) error {
	want := t.desiredHealthCheck()
	has := &clusterv1.MachineHealthCheck{}
	err := t.Cache.Get(ctx, t.Key(), has)
	switch {
	case apierrors.IsNotFound(err) && want == nil:
		return nil
	case apierrors.IsNotFound(err):
		err = t.Create(ctx, want)
	case err != nil:
	case !metav1.IsControlledBy(has, t.Object):
		return nil // somebody else's, who knows what is wanted
	case want == nil:
		err = client.IgnoreNotFound(t.Delete(ctx, has, false))
	case !equality.Semantic.DeepEqual(has.Spec, want.Spec) || !reflect.DeepEqual(has.Labels, want.Labels):
		after := has.DeepCopy()
		after.Spec, after.Labels = want.Spec, want.Labels
		err = t.Merge(ctx, has, after)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("keeping MachineHealthCheck %s: %w", t.Object.GetName(), err)
	}
	return nil
}

// desiredHealthCheck returns the health check for the group's machines; nil: none.
func (t upkeep) desiredHealthCheck() *clusterv1.MachineHealthCheck {
	auto, most, cluster := t.Spec.HealthCheck, t.Spec.Spared(), t.Cluster.Name
	if auto == nil || most == 0 {
		return nil
	}
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{
		Namespace:       t.Object.GetNamespace(),
		Name:            t.Object.GetName(),
		Labels:          map[string]string{clusterv1.ClusterNameLabel: cluster},
		OwnerReferences: []metav1.OwnerReference{t.ControllerRef()},
	}}
	if filter := t.Object.GetLabels()[clusterv1.WatchLabel]; filter != "" {
		check.Labels[clusterv1.WatchLabel] = filter // controllers of that filter look at nothing else
	}
	check.Spec = clusterv1.MachineHealthCheckSpec{
		ClusterName: cluster,
		Selector:    metav1.LabelSelector{MatchLabels: machine.Labels(cluster)},
		Checks:      auto.OfNodes(),
	}
	if t.Nodeless {
		check.Spec.Selector.MatchLabels, check.Spec.Checks = t.Identity(), auto.OfMembers()
	}
	if !t.Nodeless { // a machine without a Node counts as unhealthy there, so that the limit is the rules' alone
		check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = ptr.To(intstr.FromInt32(most))
	}
	return check
}
