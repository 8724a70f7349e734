// Package record keeps the history of a group (package history) between turns, and in a ConfigMap beside the group's object, which
// goes where that goes: its owner is the object. It does not know what is done to a group; nothing is decided by what it keeps, and
// losing it loses nothing else. The ConfigMap is read once by each process, past the cache, which holds no ConfigMaps.
package record

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/core/plan"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch

// Group is whose history is kept, and how that is reached.
type Group struct {
	// Writer writes. Reader reads from the API server.
	Writer Writer
	Reader client.Reader
	// Object is the group's own, of Kind, in the cluster of that name. Owner refers to it.
	Object  client.Object
	Kind    string
	Cluster string
	Owner   metav1.OwnerReference
}

// Writer makes an object, or writes in what it differs from what it was before, unless somebody else has written it since it was read.
type Writer interface {
	Create(ctx context.Context, o client.Object) error
	Change(ctx context.Context, before, after client.Object) error
}

// Keeper keeps the history of one group. The zero value is ready for use.
type Keeper struct {
	record history.Record
	// merged: what was recorded before this process is in the record.
	merged bool
	// known: stored is the ConfigMap as it is; nil: there is none.
	known  bool
	stored *corev1.ConfigMap
	// object has the spec of the newest generation that was recorded; nil: it was not seen.
	object client.Object
	// told is the failure that was logged last.
	told string
}

// Step records a step that was tried. What ended in a conflict was not done, and comes again.
func (k *Keeper) Step(d plan.Decision, began time.Time, failure error) {
	if !apierrors.IsConflict(failure) {
		k.record.Add(d, began, time.Since(began), failure)
	}
}

// Look records which steps have had their effects.
func (k *Keeper) Look(o plan.Observed, assessed plan.Assessment) { k.record.Complete(o, assessed) }

// Keep records a change of the spec, and writes the history where it has changed. A failure is logged once and tried again the
// next time. assessed is what the rules make of what was observed.
func (k *Keeper) Keep(ctx context.Context, g Group, o plan.Observed, assessed plan.Assessment) {
	err := k.read(ctx, g, o, assessed)
	if err == nil {
		k.noteSpec(g.Object, o)
		k.Approvals(g.Object)
		err = k.write(ctx, g)
	}
	told := ""
	if err != nil {
		told = err.Error()
	}
	if told != "" && told != k.told {
		ctrl.LoggerFrom(ctx).Info("The history could not be kept; it is tried again", "error", told)
	}
	k.told = told
}

// read reads the ConfigMap, unless it is known.
func (k *Keeper) read(ctx context.Context, g Group, o plan.Observed, assessed plan.Assessment) error {
	if k.known {
		return nil
	}
	found := &corev1.ConfigMap{}
	err := g.Reader.Get(ctx, g.key(), found)
	switch {
	case apierrors.IsNotFound(err):
		found = nil
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s: %w", g.key(), err)
	case found.Labels[clusterv1.ClusterNameLabel] != g.Cluster:
		return fmt.Errorf("the ConfigMap %s is somebody else's: it lacks the label %s=%s", g.key(), clusterv1.ClusterNameLabel, g.Cluster)
	}
	if found != nil && !k.merged {
		k.record.Merge(history.Decode(found.Data[history.Key], o.Now))
		k.record.Complete(o, assessed)
	}
	k.known, k.merged, k.stored = true, true, found
	return nil
}

// noteSpec records a change of the spec that was not recorded yet. Of a group that is older than its history only later changes are
// known. A deletion makes a new generation too, and changes no spec.
func (k *Keeper) noteSpec(object client.Object, o plan.Observed) {
	before, last, generation := k.object, k.record.Generation, object.GetGeneration()
	k.object, k.record.Generation = object, generation
	if generation == last || last == 0 && generation != 1 || o.Group.Deleting {
		return
	}
	var changed []string
	if before != nil {
		if changed = changedFields(before, object); len(changed) == 0 {
			return
		}
	}
	change, at := history.ChangeOf(object.GetManagedFields(), changed)
	change.Created = generation == 1
	switch {
	case change.Created:
		at = object.GetCreationTimestamp().Time
	case at.IsZero():
		at = o.Now
	}
	k.record.AddChange(change, at)
}

// Approvals records who approved the spec, who decided what, and who asked for what, where that is there.
func (k *Keeper) Approvals(object client.Object) {
	annotations := object.GetAnnotations()
	approval, at, known := history.ApprovalOf(annotations[controlplanev1.ApprovedAnnotation], annotations[controlplanev1.ApprovedByAnnotation])
	if known {
		k.record.AddApproval(approval, at)
	}
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		digest, is := strings.CutPrefix(name, controlplanev1.DecisionPrefix)
		decision, at, known := history.DecisionOf(annotations[name], annotations[controlplanev1.DecidedByPrefix+digest])
		if is && known {
			k.record.AddApproval(decision, at)
		}
	}
	for _, of := range []struct{ what, asks, by string }{
		{"replace", controlplanev1.ReplaceAnnotation, controlplanev1.ReplaceByAnnotation},
		{"etcd", controlplanev1.EtcdRequestsAnnotation, controlplanev1.EtcdRequestsByAnnotation},
	} {
		if request, at, known := history.RequestOf(of.what, annotations[of.asks], annotations[of.by]); known {
			k.record.AddApproval(request, at)
		}
	}
}

// write writes the history where it, or whose it is, differs from what is stored. What somebody else wrote or removed meanwhile is
// read again the next time.
func (k *Keeper) write(ctx context.Context, g Group) error {
	before, encoded := k.stored, k.record.Encode()
	if before != nil && before.Data[history.Key] == encoded && slices.Contains(before.OwnerReferences, g.Owner) {
		return nil
	}
	after := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: g.key().Namespace, Name: g.key().Name, Labels: map[string]string{clusterv1.ClusterNameLabel: g.Cluster},
	}}
	if before != nil {
		after = before.DeepCopy()
	}
	after.OwnerReferences, after.Data = []metav1.OwnerReference{g.Owner}, map[string]string{history.Key: encoded}
	err := g.write(ctx, before, after)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		k.known = false
		return nil
	case err != nil:
		return fmt.Errorf("writing ConfigMap %s: %w", g.key(), err)
	}
	k.stored = after
	return nil
}

// write creates the ConfigMap where there is none, and else changes it.
func (g Group) write(ctx context.Context, before, after *corev1.ConfigMap) error {
	if before == nil {
		return g.Writer.Create(ctx, after)
	}
	return g.Writer.Change(ctx, before, after)
}

// key names the ConfigMap.
func (g Group) key() client.ObjectKey {
	return client.ObjectKey{Namespace: g.Object.GetNamespace(), Name: history.Name(g.Kind, g.Object.GetName())}
}
