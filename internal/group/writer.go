package group

import (
	"context"
	"fmt"
	"maps"

	"github.com/quorate/quorate/internal/cluster/certs"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer carries out what was decided on what was seen. It alone has a client that writes.
type Writer struct {
	*Observer
	to client.Client
	// overtaken: a write found that its object had changed since it was read. The change may be one that brings about no turn,
	// such as one of the status.
	overtaken bool
	// changed are the Machines that the step has made, deleted or released.
	changed []string
}

// Merge writes in what an object differs from what it was before, whatever others have written meanwhile.
func (t *Writer) Merge(ctx context.Context, before, after client.Object) error {
	return t.to.Patch(ctx, after, client.MergeFrom(before))
}

// Change is Merge for an object that must not have changed since it was read: then the error is a conflict.
func (t *Writer) Change(ctx context.Context, before, after client.Object) error {
	return t.to.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// Delete deletes an object, of this very UID; unchanged: and of this very version, which else is a conflict.
func (t *Writer) Delete(ctx context.Context, o client.Object, unchanged bool) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	only := client.Preconditions{UID: &uid}
	if unchanged {
		only.ResourceVersion = &version
	}
	return t.to.Delete(ctx, o.DeepCopyObject().(client.Object), only)
}

// TakeOver makes the group the controller of the secrets of its cluster that a KubeadmConfig controls. They are read again afterwards.
func (t *Writer) TakeOver(ctx context.Context, config *bootstrapv1.KubeadmConfig) error {
	t.Memory.Secrets = Secrets{}
	if err := certs.TakeOver(ctx, t.APIReader, t.to, t.Cluster, config, t.ControllerRef()); err != nil {
		return fmt.Errorf("adopting the secrets of cluster %s: %w", t.Cluster.Name, err)
	}
	return nil
}

// PublishEtcd keeps the secrets that control planes read of an etcd on machines of its own.
func (t *Writer) PublishEtcd(ctx context.Context) error {
	authority, err := certs.ManagedEtcdAuthority(ctx, t.APIReader, t.Cluster)
	if err != nil || authority == nil {
		return err
	}
	return authority.PublishManagedEtcd(ctx, t.APIReader, t.to, t.Cluster, t.ControllerRef())
}

// Annotate sets annotations of the object, or takes those away whose value is
// empty. An object that has changed since it was read is a conflict.
func (t *Writer) Annotate(ctx context.Context, values map[string]string) error {
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
	if err := t.to.Patch(ctx, after, client.MergeFromWithOptions(t.Object, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing annotations of %s: %w", t.title(), err)
	}
	t.Object = after
	t.Memory.Writes.ExpectObject(after)
	return nil
}
