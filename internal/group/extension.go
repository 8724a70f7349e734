package group

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/inplace"
)

// byExtension reports whether Runtime Extensions of others change the group's machines in place.
func (t *View) byExtension() bool {
	return !t.Nodeless && t.Spec.ByExtension && t.Facts.Policy.InPlace.Ours()
}

// addAnswers adds what Runtime Extensions of others say of the machines that are outdated.
func (t *Observer) addAnswers(ctx context.Context) {
	if !t.byExtension() {
		return
	}
	t.Memory.Answers.Only(t.Objects())
	ask := t.Memory.Answers.Of
	if t.Once {
		ask = t.askNow
	}
	for _, m := range t.Machines {
		if t.isAsked(m) {
			m.Facts.NeedsReplacement, m.Facts.Unanswered = t.answerFor(ctx, m, ask)
		}
	}
}

// isAsked reports whether an extension is asked about a machine: it is outdated, has come up, stays, and nobody changes it.
func (t *View) isAsked(m *Machine) bool {
	f := m.Facts
	return m.Read && m.Drift != nil && m.Drift.Outdated() && f.Host != "" && !f.Deleting && f.Update == plan.Update{} && f.Updating == ""
}

// askWith returns the answer to a question.
type askWith = func(context.Context, inplace.Question, time.Time) (inplace.Answer, error)

// answerFor says what of a machine an extension does not change in place, or why that is not known; both empty: it changes all.
func (t *Observer) answerFor(ctx context.Context, m *Machine, ask askWith) (replaced, unanswered string) {
	q, _, err := t.question(ctx, m)
	if err != nil {
		return "", Cut(err.Error(), longestDrift)
	}
	if rest := t.restOf(m, q.Desired); rest.Outdated() {
		return Cut(rest.String()+" (no Runtime Extension is asked about that)", longestDrift), ""
	}
	var answer inplace.Answer
	Aside(ctx, func() { answer, err = ask(ctx, q, t.Facts.Now) })
	if err != nil {
		return "", Cut(err.Error(), longestDrift)
	}
	return Cut(t.judge(m, answer), longestDrift), ""
}

// judge says what of a machine an answer does not cover; empty: it covers all.
func (t *Observer) judge(m *Machine, answer inplace.Answer) string {
	if answer.Refused != "" {
		return "the API server refuses what is wanted of " + m.Infrastructure.GetKind() + " " + m.Infrastructure.GetName() + ": " + answer.Refused
	}
	patched := answer.Patched
	fields := inplace.Covers(patched.Infrastructure, answer.Desired.Infrastructure)
	var texts []string
	for _, field := range fields {
		texts = append(texts, m.Infrastructure.GetKind()+" "+field)
	}
	// What a machine was made from is said by annotations, and these are written with the spec. Here they stand for it.
	patched.Infrastructure = patched.Infrastructure.DeepCopy()
	patched.Infrastructure.SetAnnotations(answer.Desired.Infrastructure.GetAnnotations())
	texts = append(texts, t.restOf(m, patched).Texts()...)
	if len(texts) == 0 {
		return ""
	}
	return "Runtime Extension " + answer.Handler + " does not change " + strings.Join(texts, "; ")
}

// restOf says in what a machine would still differ from what is wanted if its parts were these.
func (t *Observer) restOf(m *Machine, parts inplace.Parts) drift.Drift {
	as := *m
	as.Machine, as.Infrastructure = parts.Machine, parts.Infrastructure
	if bootstrap, err := typed(parts.Bootstrap, m.Bootstrap); err == nil {
		as.Bootstrap = bootstrap
	}
	return t.Kind.Drift(t.View, &as)
}

// question is what is asked about a machine, and the template of infrastructure machines that is wanted; nil: none is. An error says why nothing can be asked yet.
func (t *Observer) question(ctx context.Context, m *Machine) (inplace.Question, *unstructured.Unstructured, error) {
	none := inplace.Question{}
	switch {
	case m.Infrastructure == nil:
		return none, nil, fmt.Errorf("the infrastructure object of %s is not there", m.Name)
	case m.Bootstrap == nil && m.Spec.Bootstrap.ConfigRef.IsDefined():
		return none, nil, fmt.Errorf("the bootstrap object of %s is not there", m.Name)
	}
	current := inplace.Parts{Machine: m.Machine, Infrastructure: m.Infrastructure}
	desired := inplace.Parts{Machine: m.DeepCopy()}
	if v := t.Kind.Goal(t.View).Version; v != "" {
		desired.Machine.Spec.Version = v
	}
	var err error
	if current.Bootstrap, err = untyped(m.Bootstrap); err != nil {
		return none, nil, err
	}
	if desired.Bootstrap, err = untyped(t.Kind.Desired(t.View, m)); err != nil {
		return none, nil, err
	}
	template := t.Memory.Template.Object
	if desired.Infrastructure, err = t.desiredInfrastructure(ctx, m, template); err != nil {
		return none, nil, err
	}
	asker := inplace.Asker{Reader: t.APIReader, Writer: t.DryRun}
	return inplace.Question{
		Current: current, Desired: desired,
		Ask:   asker.Ask,
		Ended: func(ctx context.Context) { t.wake(ctx, t.Key()) },
	}, template, nil
}

// desiredInfrastructure returns an infrastructure machine as it is once it follows the wanted template. It stays as it is where it was made from that one, from
// none, or from one of another kind.
func (t *Observer) desiredInfrastructure(ctx context.Context, m *Machine, template *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	annotations := m.Infrastructure.GetAnnotations()
	name, kind := annotations[clusterv1.TemplateClonedFromNameAnnotation], schema.ParseGroupKind(annotations[clusterv1.TemplateClonedFromGroupKindAnnotation])
	if template == nil || t.Spec.Inline != nil || name == "" || name == template.GetName() || kind != template.GroupVersionKind().GroupKind() {
		return m.Infrastructure, nil
	}
	was, err := t.Find(ctx, machine.InfrastructureTemplateRef, clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: name})
	switch {
	case err != nil:
		return nil, err
	case was == nil:
		return m.Infrastructure, nil // what of the machine came from it nobody knows: another takes its place
	}
	after, err := inplace.Merge(m.Infrastructure, was, template)
	if err != nil {
		return nil, err
	}
	annotations = after.GetAnnotations()
	annotations[clusterv1.TemplateClonedFromNameAnnotation] = template.GetName()
	after.SetAnnotations(annotations)
	return after, nil
}

// untyped returns an object with its kind and its fields as they are in JSON; nil: there is none.
func untyped(o client.Object) (*unstructured.Unstructured, error) {
	if o == nil {
		return nil, nil
	}
	if is, ok := o.(*unstructured.Unstructured); ok {
		return is, nil
	}
	if _, is := o.(*bootstrapv1.KubeadmConfig); !is {
		return nil, fmt.Errorf("no Runtime Extension is asked about a %T", o)
	}
	gvk := bootstrapv1.GroupVersion.WithKind("KubeadmConfig")
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	out := &unstructured.Unstructured{Object: fields}
	out.SetGroupVersionKind(gvk)
	return out, nil
}

// typed returns an object in the form that another has; nil: there is none.
func typed(o *unstructured.Unstructured, as client.Object) (client.Object, error) {
	if as == nil || o == nil {
		return nil, nil
	}
	if _, is := as.(*unstructured.Unstructured); is {
		return o, nil
	}
	out := reflect.New(reflect.TypeOf(as).Elem()).Interface().(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return out, nil
}

// askNow asks a question anew, and keeps the answer.
func (t *Observer) askNow(ctx context.Context, q inplace.Question, now time.Time) (inplace.Answer, error) {
	most := inplace.AnswerTimeout
	if t.Once {
		most = onceTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	answer, err := q.Ask(ctx, q.Current, q.Desired)
	t.Memory.Answers.Keep(q, answer, err, now)
	return answer, err
}

// confirmReplaced asks anew before a machine goes because of what an extension said.
func (t *Writer) confirmReplaced(ctx context.Context, m *Machine, step plan.Step) error {
	if step.Repair || t.Facts.Group.Deleting || !t.byExtension() || m.Facts.NeedsReplacement == "" || !t.isAsked(m) {
		return nil
	}
	replaced, unanswered := t.answerFor(ctx, m, t.askNow)
	switch {
	case unanswered != "":
		return machineConflict(m.Name, "it is not known any more whether it can be changed in place: "+unanswered)
	case replaced == "":
		return machineConflict(m.Name, "it can be changed in place now")
	}
	return nil
}

// beginExtension has Cluster API update a machine by a Runtime Extension: the Machine is marked, then its objects are written and marked, and last the hook is
// noted as one to call. Whoever is cut off in between goes on from what is there. The objects get what the update was begun for, as long as that is
// wanted; else what is written already, and what is wanted by then comes after.
func (t *Writer) beginExtension(ctx context.Context, m *Machine, step plan.Step) error {
	goal, begun := inplace.ExtensionGoalOf(m.Machine)
	if !begun {
		var err error
		if goal, err = t.markFirst(ctx, m, step); err != nil {
			return err
		}
	}
	after := m.DeepCopy()
	q, template, err := t.question(ctx, m)
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
func (t *Writer) markFirst(ctx context.Context, m *Machine, step plan.Step) (inplace.ExtensionGoal, error) {
	if err := t.readAnew(ctx, m); err != nil {
		return inplace.ExtensionGoal{}, err
	}
	if err := t.aloneInPlace(ctx); err != nil {
		return inplace.ExtensionGoal{}, err
	}
	t.Memory.Template = t.readTemplate(ctx)
	replaced, unanswered := t.answerFor(ctx, m, t.askNow)
	if why := replaced + unanswered; why != "" {
		return inplace.ExtensionGoal{}, machineConflict(m.Name, why)
	}
	q, template, err := t.question(ctx, m)
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
func (t *Writer) readAnew(ctx context.Context, m *Machine) error {
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
func (t *Writer) aloneInPlace(ctx context.Context) error {
	names, err := t.noneMarked(ctx)
	if err != nil {
		return err
	}
	return t.upgrades().NoneUnderWay(ctx, names)
}

// noneMarked makes sure that no extension is updating a machine of the group, by the API server's own word, and returns the machines' names.
func (t *Writer) noneMarked(ctx context.Context) ([]string, error) {
	all, err := ListMachines(ctx, t.APIReader, t.Object, t.Cluster.Name, t.Spec.Selector)
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
func (t *Writer) markParts(ctx context.Context, m *Machine, desired inplace.Parts) error {
	infrastructure := m.Infrastructure.DeepCopy()
	infrastructure.Object["spec"] = desired.Infrastructure.DeepCopy().Object["spec"]
	infrastructure.SetAnnotations(desired.Infrastructure.DeepCopy().GetAnnotations())
	if err := t.markPart(ctx, m.Infrastructure, infrastructure); err != nil {
		return err
	}
	m.Infrastructure = infrastructure
	bootstrap, err := typed(desired.Bootstrap.DeepCopy(), m.Bootstrap)
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
func (t *Writer) markPart(ctx context.Context, before, after client.Object) error {
	inplace.Mark(after)
	if err := t.Change(ctx, before, after); err != nil {
		return fmt.Errorf("marking %s for its update in place: %w", before.GetName(), err)
	}
	t.Memory.Parts.Expect(after, t.Facts.Now)
	return nil
}

// writeMachine writes a Machine that is changed in place. One that has changed since it was read is a conflict.
func (t *Writer) writeMachine(ctx context.Context, m *Machine, after *clusterv1.Machine) error {
	if err := t.Change(ctx, m.Machine, after); err != nil {
		return fmt.Errorf("writing the update in place of Machine %s: %w", m.Name, err)
	}
	t.Replace(after)
	m.Machine = after
	t.Memory.Writes.ExpectMachine(after)
	return nil
}

// endExtension sees to the end of an update by an extension: Cluster API has taken its marks away, and ours goes.
func (t *Writer) endExtension(ctx context.Context, m *Machine) error {
	after := m.DeepCopy()
	delete(after.Annotations, inplace.GoalAnnotation)
	return t.writeMachine(ctx, m, after)
}

// isByExtension reports whether an update of a machine was begun by an extension, or is to be.
func (t *View) isByExtension(m *Machine) bool {
	_, begun := inplace.ExtensionGoalOf(m.Machine)
	return begun || t.byExtension()
}
