package act

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Seeder is a kind that makes the bootstrap data of a machine that restores a seed.
type Seeder interface {
	// SeedData returns the bootstrap data, and its format, of a machine that restores the seed of the group's recovery and initialises the
	// cluster.
	SeedData(ctx context.Context, t *Writer, step plan.Step) (data []byte, format string, err error)
}

// recovery carries out the steps of a recovery by a seed.
type recovery struct{ *Writer }

// do carries out a step of a recovery, or of a hibernation, which ends in one.
func (t recovery) do(ctx context.Context, step plan.Step) error {
	switch step.Verb {
	case plan.BeginRecovery:
		return t.note(ctx, observe.RecoveryBegunAnnotation)
	case plan.GiveUp:
		return t.giveUp(ctx, step.Machine)
	case plan.BeginHibernation, plan.Hibernate, plan.Wake, plan.EndHibernation:
		return hibernation(t).do(ctx, step)
	}
	return t.end(ctx, observe.RecoveryEndedAnnotation)
}

// note writes the time into an annotation of the recovery's object. An object that has changed since it was read is a conflict.
func (t recovery) note(ctx context.Context, annotation string) error {
	if t.Recovery == nil {
		return fmt.Errorf("recovering %s: there is no EtcdRecovery", t.Title())
	}
	after := t.Recovery.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, annotation, time.Now().UTC().Format(time.RFC3339))
	if err := t.Change(ctx, t.Recovery, after); err != nil {
		return fmt.Errorf("writing annotation %s of EtcdRecovery %s: %w", annotation, t.Recovery.Name, err)
	}
	t.Recovery = after
	return nil
}

// giveUp deletes a Machine that nothing is to hold: no drain, no hook of ours. An API server that could take part in either does not
// answer.
func (t recovery) giveUp(ctx context.Context, name string) error {
	target := t.Machine(name)
	if target == nil {
		return fmt.Errorf("giving up Machine %s: it is not one of %s", name, t.Object.GetName())
	}
	after := target.DeepCopy()
	delete(after.Annotations, machine.Hook)
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, clusterv1.ExcludeNodeDrainingAnnotation, "")
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation, "")
	if err := t.Merge(ctx, target.Machine, after); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("releasing Machine %s: %w", name, err)
	}
	if err := t.Delete(ctx, target, false); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Machine %s: %w", name, err)
	}
	t.Memory.Writes.Expect(observe.Write{Machine: name, UID: target.UID, Deleted: true})
	t.Memory.Writes.Expect(observe.Write{Machine: name, UID: target.UID, Released: true})
	t.Memory.Surveys.Drop()
	t.Changed = append(t.Changed, name)
	return nil
}

// seed creates the secret with the bootstrap data of a machine that restores the seed, and returns how its Machine refers to it. With it
// the bootstrap provider makes no data of its own. Of a kind without a Seeder the provider makes the data, as the Machine's annotation
// says.
func (t recovery) seed(ctx context.Context, step plan.Step, refers clusterv1.Bootstrap) (clusterv1.Bootstrap, error) {
	if t.Recovery == nil {
		return refers, fmt.Errorf("creating Machine %s: %s cannot be recovered by a seed", step.Machine, t.Type.Kind)
	}
	seeds := t.performer.Steps().Seeds
	if seeds == nil {
		return refers, nil
	}
	data, format, err := seeds.SeedData(ctx, t.Writer, step)
	if err != nil {
		return refers, fmt.Errorf("making the bootstrap data of Machine %s: %w", step.Machine, err)
	}
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Object.GetNamespace(), Name: step.Machine, Labels: map[string]string{clusterv1.ClusterNameLabel: t.Cluster.Name},
			OwnerReferences: []metav1.OwnerReference{t.OwnerRef()},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": data, "format": []byte(format)},
	}
	if err := (creation(t)).make(ctx, made); err != nil {
		return refers, fmt.Errorf("creating secret %s: %w", step.Machine, err)
	}
	refers.DataSecretName = &made.Name
	return refers, nil
}

// end cleans what is left of the machines that were given up, and notes that the recovery ended. Cluster API deletes no Node while a
// control plane has no machine that stays. Machines of etcd alone have none.
func (t recovery) end(ctx context.Context, annotation string) error {
	if err := hibernation(t).noteWoken(ctx); err != nil {
		return err
	}
	if t.Nodeless {
		return t.note(ctx, annotation)
	}
	var err error
	observe.Aside(ctx, func() { err = t.Files().DropNodes(ctx, t.Cluster, t.goneMachines()) })
	if err != nil {
		return err
	}
	return t.note(ctx, annotation)
}

// goneMachines are those whose Nodes are deleted: those that were given up, and, in another management cluster than the one that made them,
// all that it does not know.
func (t recovery) goneMachines() observe.GoneMachines {
	gone := observe.GoneMachines{Given: t.Facts.Recovery.GiveUp}
	if t.Recovery == nil || t.Recovery.Spec.FormerClusterUID == "" {
		return gone
	}
	gone.Before, gone.Known = t.Recovery.CreationTimestamp.Time, slices.Clone(t.Facts.Workers)
	for _, m := range t.Objects() {
		gone.Known = append(gone.Known, m.Name)
	}
	return gone
}
