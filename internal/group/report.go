package group

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// report tells what was seen, decided and done: on the Machines, on the control
// plane, by an event, a log line and metrics. What has not changed is not written again, and
// what could not be kept up does not stop the report.
func (t *Turn) report(ctx context.Context, d plan.Decision, failure error) error {
	var kept error
	if !t.Facts.Group.Paused {
		if err := t.recordInitialized(ctx); err != nil {
			return err
		}
		if err := t.recordNumber(ctx); err != nil {
			return err
		}
		if err := t.endRepair(ctx, d); err != nil {
			return err
		}
		if err := t.endApproval(ctx); err != nil {
			return err
		}
		if err := t.reportMachines(ctx, d, failure); err != nil {
			return err
		}
		kept = t.syncOwned(ctx)
	}
	after := t.Object.DeepCopyObject().(Object)
	t.reported().describe(after, d, failure)
	Announce(ctx, t.Recorder, t.Object, *t.Kind.Status(t.Object).Plan, d, t.past.stepped && d.Rule == plan.SettleRule, failure)
	t.past.stepped = d.Step.Acts() && failure == nil
	t.metrics().Stands(t.Key(), t.stands(d, t.Kind.Status(after).CertificateEnd()))
	t.followEpisodes(after, d)
	// After a step the next turn comes at once, and writes what both have to say.
	if d.Step.Acts() && failure == nil || equality.Semantic.DeepEqual(t.Object, after) || t.mayWait("", t.Object, after) {
		return kept
	}
	err := t.writeStatus(ctx, t.Object, after)
	if err != nil {
		return errors.Join(kept, fmt.Errorf("writing the status of %s: %w", t.title(), err))
	}
	t.noteTold("")
	t.Memory.Writes.ExpectObject(after)
	return kept
}

// reported is what is reported of the group.
func (t *Turn) reported() Report { return Report{View: t.View, Kind: t.Kind} }

// syncOwned writes what follows the group without a step: who owns the machine template, what the
// machines carry, whose the cluster's secrets are, when certificates expire, and the health check.
func (t *Turn) syncOwned(ctx context.Context) error {
	if err := t.Kind.TakeDown(ctx, t.Writer); err != nil {
		return err
	}
	if t.Facts.Group.Deleting || len(t.Facts.Uncontrolled) > 0 {
		return nil
	}
	if template := t.Memory.Template; template.Object != nil && t.Cluster.UID != "" {
		if err := t.OwnTemplate(ctx, template.Object); err != nil {
			return err
		}
	}
	if err := t.propagate(ctx); err != nil {
		return err
	}
	return errors.Join(t.Kind.Sync(ctx, t.Writer), t.healthCheck(ctx), t.syncUpdates(ctx))
}

// reportMachines writes the conditions of the Machines. One that is gone, or has changed where that matters,
// since it was read is left to the next turn, which comes soon.
func (t *Turn) reportMachines(ctx context.Context, d plan.Decision, failure error) error {
	t.forgetTold()
	says := t.reported()
	for _, on := range t.Machines {
		before := on.Machine
		after := before.DeepCopy()
		for _, c := range says.MachineConditions(on) {
			conditions.Set(after, c)
		}
		if on.Facts.Marked != "" {
			conditions.Set(after, says.ownerRemediated(on, d, failure))
		}
		handBack(on, after)
		ForgetDeprecated(after, deprecated)
		on.Machine = after
		if equality.Semantic.DeepEqual(before.Status, after.Status) || t.mayWait(before.Name, before, after) {
			continue
		}
		err := t.writeConditions(ctx, before, after)
		if t.LookAgain(err) != nil {
			return fmt.Errorf("writing the conditions of Machine %s: %w", before.Name, err)
		}
		if err != nil {
			continue
		}
		t.noteTold(after.Name)
		t.Memory.Writes.Expect(Write{Machine: after.Name, UID: after.UID, Version: after.ResourceVersion, Wrote: after})
	}
	return nil
}

// conditionsOwner is who owns the conditions of Machines that are ours alone.
const conditionsOwner = client.FieldOwner("quorate-machine-conditions")

// writeConditions writes what of a Machine's conditions differs, and what the API server answers into after. Cluster API's controllers write the status
// as often as we do: conditions that are ours alone are applied, which no write of theirs contradicts. Where another differs, or one
// goes, the whole list is written, if nobody else has written meanwhile.
func (t *Writer) writeConditions(ctx context.Context, before, after *clusterv1.Machine) error {
	applied := before.DeepCopy()
	var ours []any
	for _, c := range after.Status.Conditions {
		if machine.OnlyControlPlaneWrites(c.Type) {
			conditions.Set(applied, c)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
			if err != nil {
				return err
			}
			ours = append(ours, content)
		}
	}
	if !equality.Semantic.DeepEqual(applied.Status, after.Status) {
		return t.writeStatus(ctx, before, after)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": before.Namespace, "name": before.Name, "uid": string(before.UID)},
		"status":   map[string]any{"conditions": ours},
	}}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	// As a patch of an object, which those who count and break writes in tests see.
	if err := t.to.Status().Patch(ctx, u, client.Apply, conditionsOwner, client.ForceOwnership); err != nil { //nolint:staticcheck // see above
		return err
	}
	*after = clusterv1.Machine{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, after)
}

// writeStatus writes the status of an object, unless somebody else has written it since it was read.
func (t *Writer) writeStatus(ctx context.Context, before, after client.Object) error {
	return t.to.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// describe writes what was seen and decided into an object's status.
func (t Report) describe(object Object, d plan.Decision, failure error) {
	conditions.Set(object, t.paused())
	status := t.Kind.Status(object)
	*status.Plan = PlanStatus(d, failure)
	if t.Facts.Group.Paused {
		return // others may be moving the object
	}
	for _, c := range t.Conditions(d, failure) {
		conditions.Set(object, c)
	}
	t.forgetConditions(object)
	*status.ObservedGeneration = object.GetGeneration()
	*status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: machine.Labels(t.Cluster.Name)})
	if t.Facts.Group.Initialized {
		*status.Initialized = ptr.To(true)
	}
	*status.Versions = machine.Versions(t.Objects())
	*status.Version = ""
	if len(*status.Versions) > 0 {
		*status.Version = (*status.Versions)[0].Version
	}
	*status.Replicas = ptr.To(int32(len(t.Machines)))
	*status.ReadyReplicas = t.count(clusterv1.MachineReadyCondition)
	*status.AvailableReplicas = t.count(clusterv1.MachineAvailableCondition)
	*status.UpToDateReplicas = t.count(clusterv1.MachineUpToDateCondition)
	t.Kind.Describe(t.View, object)
}

// count returns how many machines have a condition that is true.
func (t Report) count(kind string) *int32 {
	n := int32(0)
	for _, m := range t.Objects() {
		if conditions.IsTrue(m, kind) {
			n++
		}
	}
	return &n
}
