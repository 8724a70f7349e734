package act

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// +kubebuilder:rbac:groups=backup.quorate.io,resources=etcdrecoveries,verbs=create
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machinedeployments,verbs=list;watch;patch

// hibernation carries out the steps of a hibernation.
type hibernation struct{ *Writer }

// do carries out a step.
func (t hibernation) do(ctx context.Context, step plan.Step) error {
	now := metav1.NewTime(t.Facts.Now).Rfc3339Copy().UTC()
	switch step.Verb {
	case plan.BeginHibernation:
		// What is needed must be later than this: it is noted again where workers came back.
		if err := t.note(ctx, observe.Hibernation{Requested: now}); err != nil {
			return err
		}
		return t.scale(ctx, keepsReplicas{})
	case plan.Hibernate:
		h, b := t.Hibernation, t.Facts.Group.Backup
		h.Backup, h.Taken, h.Since, h.Store = b.Name, b.Taken.UTC(), now, observe.StoreOf(t.Spec.Backup.StoreRef)
		h.Machines = t.machineNames()
		return t.note(ctx, h)
	case plan.Wake:
		return t.wake(ctx)
	}
	if err := t.scale(ctx, returnsReplicas{}); err != nil {
		return err
	}
	return t.Annotate(ctx, map[string]string{controlplanev1.HibernationAnnotation: ""})
}

// note writes how far the hibernation is. An object that has changed since it was read is a conflict.
func (t hibernation) note(ctx context.Context, h observe.Hibernation) error {
	return t.Annotate(ctx, map[string]string{controlplanev1.HibernationAnnotation: h.String()})
}

// noteWoken notes that the group serves from the backup of its hibernation. It is done before its recovery ends: else the machines that are
// there would look like those that have to go.
func (t hibernation) noteWoken(ctx context.Context) error {
	h := t.Hibernation
	if !h.IsAsleep() {
		return nil
	}
	h.Woken = true
	return t.note(ctx, h)
}

// machineNames are the names of the group's machines.
func (t hibernation) machineNames() []string {
	var names []string
	for _, m := range t.Objects() {
		names = append(names, m.Name)
	}
	return names
}

// wake asks for the recovery by which the group wakes. It gives up the machines that were let go: the infrastructure of one may not be
// gone, and their Nodes are in the backup.
func (t hibernation) wake(ctx context.Context) error {
	h := t.Hibernation
	r := &backupv1alpha1.EtcdRecovery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Object.GetNamespace(), Name: h.WakeName(t.Object), OwnerReferences: []metav1.OwnerReference{t.OwnerRef()},
			Labels: map[string]string{clusterv1.ClusterNameLabel: t.Cluster.Name},
		},
		Spec: backupv1alpha1.EtcdRecoverySpec{ClusterName: t.Cluster.Name, Backup: h.Backup, StoreRef: h.StoreRef()},
	}
	r.Spec.GiveUp = slices.Compact(slices.Sorted(slices.Values(slices.Concat(h.Machines, t.machineNames()))))
	if b := t.Spec.Backup; b != nil && len(b.Encryption.Recipients) > 0 {
		r.Spec.IdentitySecretRef.Name = observe.WakeIdentityName(t.Object)
	}
	if err := t.Create(ctx, r); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating EtcdRecovery %s: %w", r.Name, err)
	}
	return nil
}

// replicas says what becomes of the number of replicas of one MachineDeployment: kept is what was noted of it, and has whether anything
// was.
type replicas interface {
	change(now int32, kept int32, has bool) (after int32, noted *int32)
}

// keepsReplicas scales to 0, and notes what the number was.
type keepsReplicas struct{}

func (keepsReplicas) change(now, kept int32, has bool) (int32, *int32) {
	switch {
	case now > 0:
		return 0, &now
	case has:
		return 0, &kept
	}
	return 0, nil
}

// returnsReplicas gives the number back that was noted, unless somebody has set another.
type returnsReplicas struct{}

func (returnsReplicas) change(now, kept int32, has bool) (int32, *int32) {
	if has && now == 0 {
		return kept, nil
	}
	return now, nil
}

// scale changes the replicas of all MachineDeployments of the cluster. What the API server itself says counts: a cache may not show yet
// what was noted a moment ago.
func (t hibernation) scale(ctx context.Context, by replicas) error {
	sets, err := observe.ListWorkerSets(ctx, t.APIReader, t.Cluster)
	if err != nil {
		return err
	}
	if err := t.scaleTopology(ctx, by); err != nil {
		return err
	}
	named := observe.TopologyReplicas(t.Cluster)
	for i := range sets.Deployments {
		before := &sets.Deployments[i]
		if named[observe.TopologyName(before)] != nil {
			continue
		}
		after := before.DeepCopy()
		kept, err := strconv.ParseInt(before.Annotations[controlplanev1.HibernatedReplicasAnnotation], 10, 32)
		number, noted := by.change(ptr.Deref(before.Spec.Replicas, 1), int32(kept), err == nil)
		after.Spec.Replicas = &number
		delete(after.Annotations, controlplanev1.HibernatedReplicasAnnotation)
		if noted != nil {
			metav1.SetMetaDataAnnotation(&after.ObjectMeta, controlplanev1.HibernatedReplicasAnnotation, strconv.Itoa(int(*noted)))
		}
		if equality.Semantic.DeepEqual(before, after) {
			continue
		}
		if err := t.Change(ctx, before, after); err != nil {
			return fmt.Errorf("scaling MachineDeployment %s: %w", before.Name, err)
		}
	}
	return nil
}

// scaleTopology changes the numbers that the topology of the cluster names: Cluster API would undo them in the MachineDeployments.
func (t hibernation) scaleTopology(ctx context.Context, by replicas) error {
	_, noted := t.Cluster.Annotations[controlplanev1.HibernatedReplicasAnnotation]
	if len(observe.TopologyReplicas(t.Cluster)) == 0 && !noted {
		return nil
	}
	after := t.Cluster.DeepCopy()
	kept, now := observe.KeptReplicas(after.Annotations[controlplanev1.HibernatedReplicasAnnotation]), map[string]string{}
	for name, number := range observe.TopologyReplicas(after) {
		was, has := kept[name]
		wanted, keeps := by.change(*number, was, has)
		*number = wanted
		if keeps != nil {
			now[name] = name + "=" + strconv.Itoa(int(*keeps))
		}
	}
	delete(after.Annotations, controlplanev1.HibernatedReplicasAnnotation)
	if len(now) > 0 {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, controlplanev1.HibernatedReplicasAnnotation,
			strings.Join(slices.Sorted(maps.Values(now)), ","))
	}
	if err := t.Change(ctx, t.Cluster, after); err != nil {
		return fmt.Errorf("scaling the topology of Cluster %s: %w", t.Cluster.Name, err)
	}
	t.Cluster = after
	return nil
}
