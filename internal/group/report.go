package group

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// report tells what was seen, decided and done: on the Machines, on the control
// plane, by an event, a log line and metrics. What has not changed is not written again, and
// what could not be kept up does not stop the report.
func (t *Turn) report(ctx context.Context, d plan.Decision, failure error) error {
	var kept error
	if !t.Facts.Group.Paused {
		if err := t.Note(ctx, d); err != nil {
			return err
		}
		if err := t.reportMachines(ctx, d, failure); err != nil {
			return err
		}
		kept = t.Keep(ctx)
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
	err := t.ChangeStatus(ctx, t.Object, after)
	if err != nil {
		return errors.Join(kept, fmt.Errorf("writing the status of %s: %w", t.title(), err))
	}
	t.noteTold("")
	t.Memory.Writes.ExpectObject(after)
	return kept
}

// reported is what is reported of the group.
func (t *Turn) reported() Report { return Report{View: t.View, Kind: t.Kind} }

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
		err := t.ApplyConditions(ctx, before, after)
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
