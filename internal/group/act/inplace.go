package act

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/inplace"
	"github.com/quorate/quorate/internal/group/observe"
)

// updating changes machines in place, or has an extension do so, and records what became of them.
type updating struct{ *Writer }

// store also writes them.
func (t updating) store() inplace.Store {
	all := t.Upgrades()
	all.To = t.Client
	return all
}

// do carries out a step.
func (t updating) do(ctx context.Context, step plan.Step) error {
	switch step.Verb {
	case plan.RecordUpdate:
		return t.recordUpdate(ctx, step)
	case plan.DropUpdate:
		return t.dropUpdate(ctx, step)
	}
	return t.updateInPlace(ctx, step)
}

// outdated names the machines that differ from what is wanted.
func (t updating) outdated() []string {
	var behind []string
	for _, m := range t.Machines {
		if m.Drift != nil && m.Drift.Outdated() {
			behind = append(behind, m.Name)
		}
	}
	return behind
}

// updateInPlace begins the upgrade of a machine.
func (t updating) updateInPlace(ctx context.Context, step plan.Step) error {
	if m := t.Machine(step.Machine); m != nil && t.IsByExtension(m) {
		return t.beginExtension(ctx, m, step)
	}
	all, err := t.noneMarked(ctx)
	if err != nil {
		return err
	}
	if err := t.noteReplacement(ctx, step); err != nil {
		return err
	}
	behind := t.outdated()
	g := t.UpdateGroup()
	if m := t.Machine(step.Machine); m != nil {
		config, _ := m.Bootstrap.(*bootstrapv1.KubeadmConfig)
		parts := drift.Machine{Machine: m.Machine, Config: config}
		g.Kubelet, _ = g.Goal.KubeletArgs(parts)
		g.Files, _ = g.Goal.Files(parts)
	}
	return t.store().Begin(ctx, g, all, behind, step.Machine, step.First)
}

// dropUpdate forgets a failed upgrade that is not wanted any more, with its pod.
func (t updating) dropUpdate(ctx context.Context, step plan.Step) error {
	u := t.Updates.Of(step.Machine)
	if u == nil {
		return fmt.Errorf("forgetting the update of Machine %s: there is none", step.Machine)
	}
	if err := t.doubtFiles(ctx, u); err != nil {
		return err
	}
	return t.store().Delete(ctx, u)
}

// doubtFiles has the machine of an upgrade that failed after the node was changed say that its files may be those of the upgrade.
func (t updating) doubtFiles(ctx context.Context, u *inplace.NodeUpgrade) error {
	m := t.Machine(u.Spec.Machine.Name)
	if m == nil || !inplace.Changed(u) {
		return nil
	}
	config, ok := m.Bootstrap.(*bootstrapv1.KubeadmConfig)
	if !ok {
		return nil
	}
	goal, whole := t.Updates.GoalOf(u, t.Own.Updates.Goal(t.View))
	after := config.DeepCopy()
	if !whole || !goal.DoubtFiles(&after.Spec) {
		return nil
	}
	if err := t.Change(ctx, config, after); err != nil {
		return fmt.Errorf("noting in the KubeadmConfig of Machine %s that its files are not known: %w", m.Name, err)
	}
	m.Bootstrap = after
	t.Memory.Parts.Expect(after, t.Facts.Now)
	return nil
}

// recordUpdate has a machine's objects say what its upgrade made of it. The Machine itself comes last, after the infrastructure's and
// the bootstrap object, so that a controller that restarts in between finds it outdated, and goes on. Then the NodeUpgrade decides nothing
// any more.
func (t updating) recordUpdate(ctx context.Context, step plan.Step) error {
	m := t.Machine(step.Machine)
	if m == nil {
		return fmt.Errorf("recording the update of Machine %s: it is not one of %s", step.Machine, t.Object.GetName())
	}
	if _, ours := inplace.ExtensionGoalOf(m.Machine); ours {
		return t.endExtension(ctx, m)
	}
	goal, whole := t.Own.Updates.Goal(t.View), true
	u := t.Updates.Of(m.Name)
	if u != nil {
		goal, whole = t.Updates.GoalOf(u, goal)
	}
	after := m.DeepCopy()
	if whole {
		if err := t.recordTemplate(ctx, m, goal); err != nil {
			return err
		}
		if records := t.performer.Steps().Records; records != nil {
			if err := records.Record(ctx, t.Writer, m, after, goal); err != nil {
				return err
			}
		}
	}
	if goal.Version != "" {
		after.Spec.Version = goal.Version
	}
	if err := t.Change(ctx, m.Machine, after); err != nil {
		return fmt.Errorf("recording the update of Machine %s: %w", m.Name, err)
	}
	t.Replace(after)
	t.Memory.Writes.ExpectMachine(after)
	t.Memory.Files = observe.FilesSeen{} // with the last machine kubeadm has updated the add-ons
	return t.markRecorded(ctx, u)
}

// markRecorded notes on a NodeUpgrade that the machine's objects say what it made of it; nil: there is none.
func (t updating) markRecorded(ctx context.Context, u *inplace.NodeUpgrade) error {
	if u == nil {
		return nil
	}
	recorded, err := t.store().MarkRecorded(ctx, u, t.Facts.Now)
	if err == nil {
		t.Memory.Parts.Expect(recorded, t.Facts.Now)
	}
	return err
}

// recordTemplate has an infrastructure machine say that it was made from the template that is wanted. Where an extension changes
// infrastructure machines it has yet to be asked about that.
func (t updating) recordTemplate(ctx context.Context, m *observe.Machine, goal drift.Goal) error {
	ref := goal.Infrastructure()
	if m.Infrastructure == nil || !ref.IsDefined() || t.ByExtension() {
		return nil
	}
	if was, cloned := m.Infrastructure.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]; !cloned || was == ref.Name {
		return nil
	}
	after := m.Infrastructure.DeepCopy()
	annotations := after.GetAnnotations()
	annotations[clusterv1.TemplateClonedFromNameAnnotation] = ref.Name
	annotations[clusterv1.TemplateClonedFromGroupKindAnnotation] = schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}.String()
	after.SetAnnotations(annotations)
	if err := t.Merge(ctx, m.Infrastructure, after); err != nil {
		return fmt.Errorf("recording the template of %s %s: %w", after.GetKind(), after.GetName(), err)
	}
	m.Infrastructure = after
	t.Memory.Parts.Expect(after, t.Facts.Now)
	return nil
}

// syncUpdates keeps what tells people and others of upgrades in place: the status of each ControlPlaneUpgrade, and on the object that
// somebody else is to upgrade its machines.
func (t updating) syncUpdates(ctx context.Context) error {
	if t.Own.Updates == nil {
		return nil
	}
	var machines []inplace.Machine
	outdated := false
	for _, m := range t.Machines {
		if m.Drift == nil {
			return nil // it was not looked at
		}
		outdated = outdated || m.Drift.Outdated()
		machines = append(machines, inplace.Machine{Name: m.Name, Behind: m.Drift.Outdated() && m.Drift.OnNode()})
	}
	if err := t.store().Sync(ctx, t.Updates, t.UpdateGroup(), machines, t.Facts.Group.Paused || t.Facts.Group.UpdatesPaused); err != nil {
		return err
	}
	return t.requestUpdates(ctx, outdated)
}

// requestUpdates notes on the group's object, where somebody else upgrades machines in place, that some are outdated, or takes the note
// off.
func (t updating) requestUpdates(ctx context.Context, outdated bool) error {
	wanted := ""
	if outdated && t.Facts.Policy.InPlace == plan.InPlaceExternal {
		wanted = t.Spec.Version
	}
	if t.Object.GetAnnotations()[inplace.NeededAnnotation] == wanted {
		return nil
	}
	return t.Annotate(ctx, map[string]string{inplace.NeededAnnotation: wanted})
}
