package group

import (
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/workload"
)

// Turn is one turn of one group: what was seen of it, what is kept of it between turns, and the way to write.
type Turn struct {
	*Observation
	*Controller
	// Object is the group's own, as it was written last; Spec is what it says.
	Object Object
	Spec   Spec
	Memory *Memory
	// retell is when what was not written yet must be; 0: all was.
	retell time.Duration
	// resurvey is when etcd must be asked again, for something has changed since it was asked; 0: nothing has.
	resurvey time.Duration
	// overtaken: a write found that its object had changed since it was read. The change may be one that brings about no turn,
	// such as one of the status.
	overtaken bool
	// reads are the objects that the turn has read because a field names them.
	reads map[watchedObject]bool
}

// Key names the group's object.
func (t *Turn) Key() client.ObjectKey { return client.ObjectKeyFromObject(t.Object) }

// ClusterKey names the group's Cluster.
func (t *Turn) ClusterKey() client.ObjectKey { return client.ObjectKeyFromObject(t.Cluster) }

// title names the object for people.
func (t *Turn) title() string { return t.Kind.Type().Kind + " " + t.Object.GetName() }

// ControllerRef makes the group the controller of an object.
func (t *Turn) ControllerRef() metav1.OwnerReference {
	return *metav1.NewControllerRef(t.Object, t.Kind.Type().GroupVersionKind)
}

// OwnerRef makes the group an owner of an object whose controller will be the Machine, once that exists.
func (t *Turn) OwnerRef() metav1.OwnerReference {
	kind := t.Kind.Type()
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: t.Object.GetName(), UID: t.Object.GetUID()}
}

// Annotate sets annotations of the object, or takes those away whose value is
// empty. An object that has changed since it was read is a conflict.
func (t *Turn) Annotate(ctx context.Context, values map[string]string) error {
	after := t.Object.DeepCopyObject().(Object)
	annotations := maps.Clone(after.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	for name, value := range values {
		if value == "" {
			delete(annotations, name)
		} else {
			annotations[name] = value
		}
	}
	after.SetAnnotations(annotations)
	if err := t.Client.Patch(ctx, after, client.MergeFromWithOptions(t.Object, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing annotations of %s: %w", t.title(), err)
	}
	t.Object = after
	t.Memory.Writes.ExpectObject(after)
	return nil
}

// Other returns the cluster's control plane machine of that name that is not the group's; nil if there is none.
func (t *Turn) Other(name string) *clusterv1.Machine {
	for _, m := range t.Others {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// dial returns the way to the group's etcd.
func (t *Turn) dial() Dial {
	if t.Nodeless {
		return dialDirectly
	}
	key := t.ClusterKey()
	return func(node, ip string) etcd.Target {
		return etcd.Target{Name: node, Alias: workload.EtcdPod(node), Dial: t.Workload.Dial(key, node, ip, etcdPort)}
	}
}
