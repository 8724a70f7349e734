package observe

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

// Extensions asks Runtime Extensions of others what they change of a machine in place.
type Extensions struct{ *Observer }

// ByExtension reports whether Runtime Extensions of others change the group's machines in place.
func (t *View) ByExtension() bool {
	return t.Spec.ByExtension && t.Facts.Policy.InPlace.Ours()
}

// addAnswers adds the answers of others' Runtime Extensions about outdated machines.
func (t Extensions) addAnswers(ctx context.Context) {
	if !t.ByExtension() {
		return
	}
	t.Memory.Answers.Only(t.Objects())
	ask := t.Memory.Answers.Of
	if t.Once {
		ask = t.AskNow
	}
	for _, m := range t.Machines {
		if t.IsAsked(m) {
			m.Facts.NeedsReplacement, m.Facts.Unanswered = t.AnswerFor(ctx, m, ask)
		}
	}
}

// IsAsked reports whether an extension is asked about a machine: it is outdated, has come up, stays, and is not being changed.
func (t *View) IsAsked(m *Machine) bool {
	f := m.Facts
	return m.Read && m.Drift != nil && m.Drift.Outdated() && f.Host != "" && !f.Deleting && f.Update == plan.Update{} && f.Updating == ""
}

// askWith returns the answer to a question.
type askWith = func(context.Context, inplace.Question, time.Time) (inplace.Answer, error)

// AnswerFor says what of a machine an extension does not change in place, or why that is not known; both empty: it changes all.
func (t Extensions) AnswerFor(ctx context.Context, m *Machine, ask askWith) (replaced, unanswered string) {
	q, _, err := t.Question(ctx, m)
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
func (t Extensions) judge(m *Machine, answer inplace.Answer) string {
	if answer.Refused != "" {
		return "the API server refuses what is wanted of " + m.Infrastructure.GetKind() + " " + m.Infrastructure.GetName() + ": " + answer.Refused
	}
	patched := answer.Patched
	fields := inplace.Covers(patched.Infrastructure, answer.Desired.Infrastructure)
	var texts []string
	for _, field := range fields {
		texts = append(texts, m.Infrastructure.GetKind()+" "+field)
	}
	// Annotations name what a machine was made from, and these are written with the spec. Here they stand for it.
	patched.Infrastructure = patched.Infrastructure.DeepCopy()
	patched.Infrastructure.SetAnnotations(answer.Desired.Infrastructure.GetAnnotations())
	texts = append(texts, t.restOf(m, patched).Texts()...)
	if len(texts) == 0 {
		return ""
	}
	return "Runtime Extension " + answer.Handler + " does not change " + strings.Join(texts, "; ")
}

// restOf says in what a machine would still differ from what is wanted if its parts were these.
func (t Extensions) restOf(m *Machine, parts inplace.Parts) drift.Drift {
	as := *m
	as.Machine, as.Infrastructure = parts.Machine, parts.Infrastructure
	if bootstrap, err := Typed(parts.Bootstrap, m.Bootstrap); err == nil {
		as.Bootstrap = bootstrap
	}
	return driftOf(t.Observer, &as)
}

// Question is what is asked about a machine, and the template of infrastructure machines that is wanted; nil: none is. An error says why
// nothing can be asked yet.
func (t Extensions) Question(ctx context.Context, m *Machine) (inplace.Question, *unstructured.Unstructured, error) {
	none := inplace.Question{}
	switch {
	case m.Infrastructure == nil:
		return none, nil, fmt.Errorf("the infrastructure object of %s is not there", m.Name)
	case m.Bootstrap == nil && m.Spec.Bootstrap.ConfigRef.IsDefined():
		return none, nil, fmt.Errorf("the bootstrap object of %s is not there", m.Name)
	}
	current := inplace.Parts{Machine: m.Machine, Infrastructure: m.Infrastructure}
	desired := inplace.Parts{Machine: m.DeepCopy()}
	if v := t.Own.Updates.Goal(t.View).Version; v != "" {
		desired.Machine.Spec.Version = v
	}
	var err error
	if current.Bootstrap, err = untyped(m.Bootstrap); err != nil {
		return none, nil, err
	}
	if desired.Bootstrap, err = untyped(t.Own.Updates.Desired(t.View, m)); err != nil {
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

// desiredInfrastructure returns an infrastructure machine as it is once it follows the wanted template. It stays as it is where it was made
// from that one, from none, or from one of another kind.
func (t Extensions) desiredInfrastructure(
	ctx context.Context, m *Machine, template *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	from, follows := clonedFrom(m)
	if template == nil || t.Spec.Inline != nil || !follows || !replaces(template, from) {
		return m.Infrastructure, nil
	}
	was, err := t.Find(ctx, machine.InfrastructureTemplateRef, from)
	switch {
	case err != nil:
		return nil, err
	case was == nil:
		return m.Infrastructure, nil // it is not known what of the machine came from it: another takes its place
	}
	after, err := inplace.Merge(m.Infrastructure, was, template)
	if err != nil {
		return nil, err
	}
	annotations := after.GetAnnotations()
	annotations[clusterv1.TemplateClonedFromNameAnnotation] = template.GetName()
	after.SetAnnotations(annotations)
	return after, nil
}

// clonedFrom returns the template that a machine's infrastructure was made from, and reports whether it names one.
func clonedFrom(m *Machine) (clusterv1.ContractVersionedObjectReference, bool) {
	annotations := m.Infrastructure.GetAnnotations()
	kind := schema.ParseGroupKind(annotations[clusterv1.TemplateClonedFromGroupKindAnnotation])
	name := annotations[clusterv1.TemplateClonedFromNameAnnotation]
	return clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: name}, name != ""
}

// replaces reports whether a template is another one of the same kind.
func replaces(template *unstructured.Unstructured, was clusterv1.ContractVersionedObjectReference) bool {
	kind := template.GroupVersionKind()
	return template.GetName() != was.Name && kind.Group == was.APIGroup && kind.Kind == was.Kind
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

// Typed returns an object in the form that another has; nil: there is none.
func Typed(o *unstructured.Unstructured, as client.Object) (client.Object, error) {
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

// AskNow asks a question again, and keeps the answer.
func (t Extensions) AskNow(ctx context.Context, q inplace.Question, now time.Time) (inplace.Answer, error) {
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

// IsByExtension reports whether an update of a machine was begun by an extension, or is to be.
func (t *View) IsByExtension(m *Machine) bool {
	_, begun := inplace.ExtensionGoalOf(m.Machine)
	return begun || t.ByExtension()
}
