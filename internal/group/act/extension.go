package act

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/inplace"
	"github.com/quorate/quorate/internal/group/observe"
)

// extensions asks Runtime Extensions of others.
func (t *Writer) extensions() observe.Extensions { return observe.Extensions{Observer: t.Observer} }

// confirmReplaced asks again before a machine goes because of what an extension said.
func (t updating) confirmReplaced(ctx context.Context, m *observe.Machine, step plan.Step) error {
	if step.Repair || t.Facts.Group.Deleting || !t.ByExtension() || m.Facts.NeedsReplacement == "" || !t.IsAsked(m) {
		return nil
	}
	replaced, unanswered := t.extensions().AnswerFor(ctx, m, t.extensions().AskNow)
	switch {
	case unanswered != "":
		return machineConflict(m.Name, "it is not known any more whether it can be changed in place: "+unanswered)
	case replaced == "":
		return machineConflict(m.Name, "it can be changed in place now")
	}
	return nil
}

// beginExtension has Cluster API update a machine by a Runtime Extension: the Machine is marked, then its objects are written and marked,
// and last the hook is noted as one to call. A step that was cut off in between goes on from what is there. The objects get what the update
// was begun for, as long as that is wanted; else what is written already, and what is wanted by then comes after.
func (t updating) beginExtension(ctx context.Context, m *observe.Machine, step plan.Step) error {
	goal, begun := inplace.ExtensionGoalOf(m.Machine)
	if !begun {
		var err error
		if goal, err = t.markFirst(ctx, m, step); err != nil {
			return err
		}
	}
	after := m.DeepCopy()
	q, template, err := t.extensions().Question(ctx, m)
	if err != nil {
		return fmt.Errorf("updating Machine %s in place: %w", m.Name, err)
	}
	if inplace.NewExtensionGoal(q.Desired, template) != goal {
		if m.Bootstrap != nil && inplace.IsMarked(m.Bootstrap) {
			after.Spec.Version = goal.Version
		}
		q.Desired = q.Current
	} else {
		after.Spec.Version = goal.Version
	}
	if err := t.markParts(ctx, m, q.Desired); err != nil {
		return err
	}
	inplace.MarkPending(after)
	return t.writeMachine(ctx, m, after)
}

// markFirst asks an extension for the last time, by what the API server has, and marks the Machine: from then on the update goes on.
func (t updating) markFirst(ctx context.Context, m *observe.Machine, step plan.Step) (inplace.ExtensionGoal, error) {
	if err := t.readAnew(ctx, m); err != nil {
		return inplace.ExtensionGoal{}, err
	}
	if err := t.aloneInPlace(ctx); err != nil {
		return inplace.ExtensionGoal{}, err
	}
	t.Memory.Template = t.ReadTemplate(ctx)
	replaced, unanswered := t.extensions().AnswerFor(ctx, m, t.extensions().AskNow)
	if why := replaced + unanswered; why != "" {
		return inplace.ExtensionGoal{}, machineConflict(m.Name, why)
	}
	q, template, err := t.extensions().Question(ctx, m)
	if err != nil {
		return inplace.ExtensionGoal{}, err
	}
	if err := t.noteReplacement(ctx, step); err != nil { // not before the last answer: what an extension refuses is replaced, and counts then
		return inplace.ExtensionGoal{}, err
	}
	goal := inplace.NewExtensionGoal(q.Desired, template)
	after := m.DeepCopy()
	inplace.Mark(after)
	after.Annotations[inplace.GoalAnnotation] = goal.String()
	return goal, t.writeMachine(ctx, m, after)
}

// readAnew reads what a machine consists of from the API server. A machine that has changed is a conflict.
func (t updating) readAnew(ctx context.Context, m *observe.Machine) error {
	live := &clusterv1.Machine{}
	if err := t.APIReader.Get(ctx, client.ObjectKeyFromObject(m.Machine), live); err != nil {
		return fmt.Errorf("reading Machine %s: %w", m.Name, err)
	}
	if live.ResourceVersion != m.ResourceVersion {
		return machineConflict(m.Name, "it has changed since it was looked at")
	}
	objects := []client.Object{m.Infrastructure, m.Bootstrap}
	for i, o := range objects {
		if reflect.ValueOf(o).IsValid() && !reflect.ValueOf(o).IsNil() {
			objects[i] = o.DeepCopyObject().(client.Object)
			if err := t.APIReader.Get(ctx, client.ObjectKeyFromObject(o), objects[i]); err != nil {
				return fmt.Errorf("reading what Machine %s consists of: %w", m.Name, err)
			}
		}
	}
	m.Infrastructure, _ = objects[0].(*unstructured.Unstructured)
	m.Bootstrap = objects[1]
	return nil
}

// aloneInPlace makes sure that no machine of the group is being updated in place, by whomever, by the API server's own word.
func (t updating) aloneInPlace(ctx context.Context) error {
	names, err := t.noneMarked(ctx)
	if err != nil {
		return err
	}
	return t.Upgrades().NoneUnderWay(ctx, names)
}

// noneMarked makes sure that no extension is updating a machine of the group, by the API server's own word, and returns the machines'
// names.
func (t updating) noneMarked(ctx context.Context) ([]string, error) {
	all, err := observe.ListMachines(ctx, t.APIReader, t.Object, t.Cluster.Name, t.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range all.Ours {
		if inplace.IsMarked(m) || inplace.IsPending(m) {
			return nil, machineConflict(m.Name, "an extension is updating it")
		}
		names = append(names, m.Name)
	}
	return names, nil
}

// markParts writes what a machine's objects become, and marks them: the infrastructure machine first, which is the likeliest to be refused.
func (t updating) markParts(ctx context.Context, m *observe.Machine, desired inplace.Parts) error {
	infrastructure := m.Infrastructure.DeepCopy()
	infrastructure.Object["spec"] = desired.Infrastructure.DeepCopy().Object["spec"]
	infrastructure.SetAnnotations(desired.Infrastructure.DeepCopy().GetAnnotations())
	if err := t.markPart(ctx, m.Infrastructure, infrastructure); err != nil {
		return err
	}
	m.Infrastructure = infrastructure
	bootstrap, err := observe.Typed(desired.Bootstrap.DeepCopy(), m.Bootstrap)
	if err != nil || bootstrap == nil {
		return err
	}
	if err := t.markPart(ctx, m.Bootstrap, bootstrap); err != nil {
		return err
	}
	m.Bootstrap = bootstrap
	return nil
}

// markPart writes one object of a machine, with its mark.
func (t updating) markPart(ctx context.Context, before, after client.Object) error {
	inplace.Mark(after)
	if err := t.Change(ctx, before, after); err != nil {
		return fmt.Errorf("marking %s for its update in place: %w", before.GetName(), err)
	}
	t.Memory.Parts.Expect(after, t.Facts.Now)
	return nil
}

// writeMachine writes a Machine that is changed in place. One that has changed since it was read is a conflict.
func (t updating) writeMachine(ctx context.Context, m *observe.Machine, after *clusterv1.Machine) error {
	if err := t.Change(ctx, m.Machine, after); err != nil {
		return fmt.Errorf("writing the update in place of Machine %s: %w", m.Name, err)
	}
	t.Replace(after)
	m.Machine = after
	t.Memory.Writes.ExpectMachine(after)
	return nil
}

// endExtension sees to the end of an update by an extension: Cluster API has taken its marks away, and ours goes.
func (t updating) endExtension(ctx context.Context, m *observe.Machine) error {
	after := m.DeepCopy()
	delete(after.Annotations, inplace.GoalAnnotation)
	return t.writeMachine(ctx, m, after)
}
