package act

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// creation makes machines.
type creation struct{ *Writer }

// errNameTaken: an object of that name exists and is not the control plane's own.
var errNameTaken = errors.New("the name is taken")

// create makes a machine: its infrastructure, its bootstrap object, its
// Machine, all of one name. The number in the name is written down first: who
// decides on old facts then conflicts here, before anything is made twice. Each
// write may be the last one; the same step repeated does what is left.
func (t creation) create(ctx context.Context, step plan.Step) error {
	infrastructure, template, err := t.newInfrastructure(ctx, step.Machine)
	if err != nil {
		return err
	}
	if err := t.takeNumber(ctx, step); err != nil {
		return err
	}
	t.Memory.Begun = step.Machine
	if err := t.createObjects(ctx, template, infrastructure, step); err != nil {
		if errors.Is(err, errNameTaken) {
			// It can never be finished under this name, and the next one gets another.
			t.Memory.Begun = ""
			return errors.Join(err, t.abandon(ctx, step))
		}
		return err
	}
	t.Memory.Begun = ""
	t.Memory.Writes.Expect(observe.Write{Machine: step.Machine})
	t.Changed = append(t.Changed, step.Machine)
	if _, replaces := t.Object.GetAnnotations()[upstream.RemediationInProgressAnnotation]; replaces {
		return t.Annotate(ctx, map[string]string{upstream.RemediationInProgressAnnotation: ""})
	}
	return nil
}

// createObjects makes what a machine consists of, and what is not there yet.
func (t creation) createObjects(ctx context.Context, template, infrastructure *unstructured.Unstructured, step plan.Step) error {
	if template != nil {
		if err := t.OwnTemplate(ctx, template); err != nil {
			return err
		}
	}
	made := t.newMachine(step)
	made.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrastructure.GroupVersionKind().Group,
		Kind:     infrastructure.GetKind(),
		Name:     step.Machine,
	}
	if err := t.make(ctx, infrastructure); err != nil {
		return fmt.Errorf("creating %s %s: %w", infrastructure.GetKind(), step.Machine, err)
	}
	bootstrap, err := t.createBootstrap(ctx, step)
	if err != nil {
		return err
	}
	if step.Seed {
		if bootstrap, err = recovery(t).seed(ctx, step, bootstrap); err != nil {
			return err
		}
		made.Annotations[observe.SeededByAnnotation] = string(t.Recovery.UID)
	}
	made.Spec.Bootstrap = bootstrap
	if given, ok := t.Object.GetAnnotations()[upstream.RemediationInProgressAnnotation]; ok {
		made.Annotations[upstream.RemediationForAnnotation] = given
	}
	if err := t.make(ctx, made); err != nil {
		return fmt.Errorf("creating Machine %s: %w", step.Machine, err)
	}
	return nil
}

// createBootstrap makes the bootstrap object of a machine, where its kind has one, and returns how the Machine refers to its bootstrap
// data.
func (t creation) createBootstrap(ctx context.Context, step plan.Step) (clusterv1.Bootstrap, error) {
	config, bootstrap, err := t.performer.Steps().Bootstrap(ctx, t.View, step)
	if err != nil || config == nil {
		return bootstrap, err
	}
	switch {
	case step.Hold:
		hold(config)
	case !step.Init:
		Tokens(t).giveToken(ctx, config)
	}
	if err := t.make(ctx, config); err != nil {
		return bootstrap, fmt.Errorf("creating %s %s: %w", bootstrap.ConfigRef.Kind, step.Machine, err)
	}
	return bootstrap, nil
}

// newMachine returns the Machine to be created, without its references.
func (t creation) newMachine(step plan.Step) *clusterv1.Machine {
	carries := t.Own.InPlace(t.View, newborn()).Machine
	made := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:            step.Machine,
			Namespace:       t.Object.GetNamespace(),
			Labels:          carries.Metadata.Labels,
			Annotations:     carries.Metadata.Annotations,
			OwnerReferences: []metav1.OwnerReference{t.ControllerRef()},
			// Cluster API's core puts it there in a reconcile of its own, a second before the first that makes something of the Machine. One that
			// was deleted before would be gone without its hook, and what was made for it would stay.
			Finalizers: []string{clusterv1.MachineFinalizer},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName:    t.Cluster.Name,
			Version:        t.BuildVersion(),
			FailureDomain:  step.Domain,
			ReadinessGates: carries.ReadinessGates,
			Taints:         carries.Taints,
			Deletion:       carries.Deletion,
		},
	}
	if made.Annotations == nil {
		made.Annotations = map[string]string{}
	}
	// The hook is there from birth: a machine that is deleted at once may already be a member.
	made.Annotations[machine.Hook] = ""
	made.Annotations[controlplanev1.CreatedAnnotation] = t.Facts.Now.UTC().Format(time.RFC3339)
	return made
}

// newborn is a machine that carries nothing yet.
func newborn() *observe.Machine {
	return &observe.Machine{Machine: &clusterv1.Machine{}, Infrastructure: &unstructured.Unstructured{Object: map[string]any{}}}
}

// abandon removes what was made for a machine that cannot be finished.
func (t creation) abandon(ctx context.Context, step plan.Step) error {
	clone := &unstructured.Unstructured{}
	clone.SetGroupVersionKind(t.Memory.Template.Kind)
	objects := []client.Object{clone}
	config, _, err := t.performer.Steps().Bootstrap(ctx, t.View, step)
	if err == nil && config != nil {
		objects = append(objects, config)
	}
	for _, o := range objects {
		err := t.APIReader.Get(ctx, client.ObjectKey{Namespace: t.Object.GetNamespace(), Name: step.Machine}, o)
		if apierrors.IsNotFound(err) || err == nil && !observe.Unclaimed(o.GetOwnerReferences(), t.Object) {
			continue
		}
		if err == nil {
			err = client.IgnoreNotFound(t.Delete(ctx, o, false))
		}
		if err != nil {
			return fmt.Errorf("removing what was made for %s: %w", step.Machine, err)
		}
	}
	return nil
}

// takeNumber writes down the number of a machine that is about to be made, and of the first
// one that nothing was initialised before. A control plane that has changed since it was
// read is a conflict, and nothing is made.
func (t creation) takeNumber(ctx context.Context, step plan.Step) error {
	notes := map[string]string{}
	if step.Number > observe.LastMachine(t.Object.GetAnnotations()) { // else the machine was begun before
		notes[controlplanev1.LastMachineAnnotation] = strconv.Itoa(step.Number)
	}
	if step.Init && !step.Seed && !t.Initializing() {
		notes[controlplanev1.InitializingAnnotation] = string(t.Object.GetUID())
	}
	if len(notes) == 0 {
		return t.Remains(ctx) // no write conflicts
	}
	return t.Annotate(ctx, notes)
}

// OwnTemplate makes the Cluster an owner of the machine template, so that it moves with the cluster. A template that has
// changed since it was read is left to the next turn, which comes soon: other Clusters may own it too.
func (t *Writer) OwnTemplate(ctx context.Context, template *unstructured.Unstructured) error {
	owner := metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(),
		Kind:       "Cluster",
		Name:       t.Cluster.Name,
		UID:        t.Cluster.UID,
	}
	if util.HasExactOwnerRef(template.GetOwnerReferences(), owner) || t.Memory.Owned.Awaits(template, t.Facts.Now) {
		return nil
	}
	after := template.DeepCopy()
	after.SetOwnerReferences(util.EnsureOwnerRef(after.GetOwnerReferences(), owner))
	err := t.Change(ctx, template, after)
	if t.LookAgain(err) != nil {
		return fmt.Errorf("making cluster %s an owner of %s %s: %w", t.Cluster.Name, template.GetKind(), template.GetName(), err)
	}
	if err == nil {
		t.Memory.Owned.Expect(after, t.Facts.Now)
	}
	return nil
}

// newInfrastructure returns the infrastructure machine to be created and its template; nil where it is given inline.
func (t creation) newInfrastructure(ctx context.Context, name string) (made, template *unstructured.Unstructured, err error) {
	if t.Spec.Inline != nil {
		return t.newInline(name), nil, nil
	}
	template, err = machine.InfrastructureTemplateRef.Find(ctx, t.to, t.Spec.Infrastructure, t.Object.GetNamespace())
	if err != nil {
		return nil, nil, fmt.Errorf("reading the machine template of %s: %w", t.Object.GetName(), err)
	}
	made, err = Clone(t.View, template, name, t.Own.InPlace(t.View, newborn()).Infrastructure)
	return made, template, err
}

// newInline returns the infrastructure machine that is given inline, under a name.
func (t creation) newInline(name string) *unstructured.Unstructured {
	made := t.Spec.Inline.DeepCopy()
	carries := t.Own.InPlace(t.View, newborn()).Infrastructure
	annotations := map[string]string{}
	maps.Copy(annotations, made.GetAnnotations())
	maps.Copy(annotations, carries.Annotations)
	annotations[drift.ProviderSpecAnnotation] = t.Spec.InlineHash
	all := map[string]string{}
	maps.Copy(all, made.GetLabels())
	maps.Copy(all, carries.Labels)
	made.SetName(name)
	made.SetNamespace(t.Object.GetNamespace())
	made.SetLabels(all)
	made.SetAnnotations(annotations)
	made.SetOwnerReferences([]metav1.OwnerReference{t.OwnerRef()})
	return made
}

// make creates an object. One of that name that is the control plane's own, from
// an earlier try, is as good.
func (t creation) make(ctx context.Context, object client.Object) error {
	there := object.DeepCopyObject().(client.Object)
	err := t.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := t.APIReader.Get(ctx, client.ObjectKeyFromObject(object), there); err != nil {
		return fmt.Errorf("reading the one that exists: %w", err)
	}
	if !there.GetDeletionTimestamp().IsZero() {
		return fmt.Errorf("%w by one that is being deleted", errNameTaken)
	}
	for _, owner := range there.GetOwnerReferences() {
		if owner.UID == t.Object.GetUID() || owner.Kind == "Machine" && owner.Name == object.GetName() {
			return nil
		}
	}
	return fmt.Errorf("%w by one that does not belong to %s", errNameTaken, t.Title())
}

// Clone returns an object of a machine as its template makes it, with what it should carry.
func Clone(t *observe.View, template *unstructured.Unstructured, name string, carries drift.Metadata) (*unstructured.Unstructured, error) {
	owner := t.OwnerRef()
	made, err := external.GenerateTemplate(&external.GenerateTemplateInput{
		Template: template,
		TemplateRef: &corev1.ObjectReference{
			APIVersion: template.GetAPIVersion(),
			Kind:       template.GetKind(),
			Namespace:  template.GetNamespace(),
			Name:       template.GetName(),
		},
		Namespace:   t.Object.GetNamespace(),
		Name:        name,
		ClusterName: t.Cluster.Name,
		OwnerRef:    &owner,
		Labels:      carries.Labels,
		Annotations: carries.Annotations,
	})
	if err != nil {
		return nil, fmt.Errorf("cloning %s %s: %w", template.GetKind(), template.GetName(), err)
	}
	return made, nil
}
