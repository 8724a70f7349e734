package stacked

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
)

// errNameTaken: an object of that name exists and is not the control plane's own.
var errNameTaken = errors.New("the name is taken")

// create makes a machine: its infrastructure, its bootstrap configuration, its
// Machine, all of one name. The number in the name is written down first: who
// decides on old facts then conflicts here, before anything is made twice. Each
// write may be the last one; the same step repeated does what is left.
func (r *Reconciler) create(ctx context.Context, s *scene, m *memory, step plan.Step) error {
	template, err := external.GetObjectFromContractVersionedRef(ctx, r.Client, s.kcp.Spec.MachineTemplate.Spec.InfrastructureRef, s.kcp.Namespace)
	if err != nil {
		return fmt.Errorf("reading the machine template of %s: %w", s.kcp.Name, err)
	}
	if err := r.takeNumber(ctx, s, m, step); err != nil {
		return err
	}
	m.begun = step.Machine
	if err := r.createObjects(ctx, s, template, step); err != nil {
		if errors.Is(err, errNameTaken) {
			// It can never be finished under this name, and the next one gets another.
			m.begun = ""
			return errors.Join(err, r.abandon(ctx, s, m.slow.machines, step.Machine))
		}
		return err
	}
	m.begun = ""
	m.writes.Expect(group.Write{Machine: step.Machine})
	if _, replaces := s.kcp.Annotations[upstream.RemediationInProgressAnnotation]; replaces {
		return r.annotate(ctx, s, m, map[string]string{upstream.RemediationInProgressAnnotation: ""})
	}
	return nil
}

// createObjects makes what a machine consists of, and what is not there yet.
func (r *Reconciler) createObjects(ctx context.Context, s *scene, template *unstructured.Unstructured, step plan.Step) error {
	if _, err := r.adoptTemplate(ctx, template, s.Cluster); err != nil {
		return err
	}
	infrastructure, err := r.clone(ctx, s, template, step.Machine)
	if err != nil {
		return err
	}
	wanted := s.buildable()
	config := desiredConfig(wanted, s.Cluster.Name, step.Machine, step.Init)
	if err := r.make(ctx, s.kcp, config); err != nil {
		return fmt.Errorf("creating KubeadmConfig %s: %w", step.Machine, err)
	}
	made := desiredMachine(wanted, s.Cluster.Name, step.Machine, step.Domain)
	made.Spec.InfrastructureRef = infrastructure
	made.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: bootstrapv1.GroupVersion.Group,
		Kind:     "KubeadmConfig",
		Name:     step.Machine,
	}
	if given, ok := s.kcp.Annotations[upstream.RemediationInProgressAnnotation]; ok {
		made.Annotations[upstream.RemediationForAnnotation] = given
	}
	if err := r.make(ctx, s.kcp, made); err != nil {
		return fmt.Errorf("creating Machine %s: %w", step.Machine, err)
	}
	return nil
}

// abandon removes what was made for a machine that cannot be finished.
func (r *Reconciler) abandon(ctx context.Context, s *scene, machines schema.GroupVersionKind, name string) error {
	clone := &unstructured.Unstructured{}
	clone.SetGroupVersionKind(machines)
	for _, o := range []client.Object{clone, &bootstrapv1.KubeadmConfig{}} {
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.kcp.Namespace, Name: name}, o)
		if apierrors.IsNotFound(err) || err == nil && !unclaimed(o.GetOwnerReferences(), s.kcp) {
			continue
		}
		if err == nil {
			err = client.IgnoreNotFound(r.Client.Delete(ctx, o))
		}
		if err != nil {
			return fmt.Errorf("removing what was made for %s: %w", name, err)
		}
	}
	return nil
}

// takeNumber writes down the number of a machine that is about to be made, and of the first
// one that nothing was initialised before. A control plane that has changed since it was
// read is a conflict, and nothing is made.
func (r *Reconciler) takeNumber(ctx context.Context, s *scene, m *memory, step plan.Step) error {
	notes := map[string]string{}
	if step.Number > lastMachine(s.kcp) { // else the machine was begun before
		notes[controlplanev1.LastMachineAnnotation] = strconv.Itoa(step.Number)
	}
	if step.Init && !initializing(s.kcp) {
		notes[controlplanev1.InitializingAnnotation] = string(s.kcp.UID)
	}
	if len(notes) == 0 {
		return nil
	}
	return r.annotate(ctx, s, m, notes)
}

// adoptTemplate makes the Cluster an owner of the machine template, so that it
// moves with the cluster. It returns the template as it is then.
func (r *Reconciler) adoptTemplate(ctx context.Context, template *unstructured.Unstructured, cluster *clusterv1.Cluster) (*unstructured.Unstructured, error) {
	owner := metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(),
		Kind:       "Cluster",
		Name:       cluster.Name,
		UID:        cluster.UID,
	}
	if util.HasExactOwnerRef(template.GetOwnerReferences(), owner) {
		return template, nil
	}
	after := template.DeepCopy()
	after.SetOwnerReferences(util.EnsureOwnerRef(after.GetOwnerReferences(), owner))
	if err := r.Client.Patch(ctx, after, client.MergeFrom(template)); err != nil {
		return template, fmt.Errorf("making cluster %s an owner of %s %s: %w", cluster.Name, template.GetKind(), template.GetName(), err)
	}
	return after, nil
}

// clone makes the infrastructure machine from its template.
func (r *Reconciler) clone(ctx context.Context, s *scene, template *unstructured.Unstructured, name string) (clusterv1.ContractVersionedObjectReference, error) {
	owner := ownerRef(s.kcp)
	carries := born(s.kcp, s.Cluster.Name).Infrastructure
	made, err := external.GenerateTemplate(&external.GenerateTemplateInput{
		Template: template,
		TemplateRef: &corev1.ObjectReference{
			APIVersion: template.GetAPIVersion(),
			Kind:       template.GetKind(),
			Namespace:  template.GetNamespace(),
			Name:       template.GetName(),
		},
		Namespace:   s.kcp.Namespace,
		Name:        name,
		ClusterName: s.Cluster.Name,
		OwnerRef:    &owner,
		Labels:      carries.Labels,
		Annotations: carries.Annotations,
	})
	if err != nil {
		return clusterv1.ContractVersionedObjectReference{}, fmt.Errorf("cloning %s %s: %w", template.GetKind(), template.GetName(), err)
	}
	ref := clusterv1.ContractVersionedObjectReference{
		APIGroup: made.GroupVersionKind().Group,
		Kind:     made.GetKind(),
		Name:     name,
	}
	if err := r.make(ctx, s.kcp, made); err != nil {
		return ref, fmt.Errorf("creating %s %s: %w", ref.Kind, name, err)
	}
	return ref, nil
}

// make creates an object. One of that name that is the control plane's own, from
// an earlier try, is as good.
func (r *Reconciler) make(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, object client.Object) error {
	there := object.DeepCopyObject().(client.Object)
	err := r.Client.Create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(object), there); err != nil {
		return fmt.Errorf("reading the one that exists: %w", err)
	}
	if !there.GetDeletionTimestamp().IsZero() {
		return fmt.Errorf("%w by one that is being deleted", errNameTaken)
	}
	for _, owner := range there.GetOwnerReferences() {
		if owner.UID == kcp.UID || owner.Kind == "Machine" && owner.Name == object.GetName() {
			return nil
		}
	}
	return fmt.Errorf("%w by one that does not belong to KubeadmControlPlane %s", errNameTaken, kcp.Name)
}

// lastMachine reads the highest number that was ever put into a machine's name.
// One that cannot be read counts as none: the machines that exist are counted besides.
func lastMachine(kcp *controlplanev1.KubeadmControlPlane) int {
	n, err := strconv.Atoi(kcp.Annotations[controlplanev1.LastMachineAnnotation])
	if err != nil || n < 0 {
		return 0
	}
	return n
}
