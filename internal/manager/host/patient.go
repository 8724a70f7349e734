package host

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// patience is how long a write waits to be seen. The cache follows within milliseconds; when it does not, a watch is
// broken, and waiting longer would not mend it.
const patience = 2 * time.Second

// patient is a client whose writes of counted kinds return only when the cache shows them. A controller that counts
// what there is and creates what is missing would else, when it looks again at once, create the same a second time.
type patient struct {
	client.Client
	counted map[schema.GroupKind]bool
}

// counted are the kinds that upstream's controllers count.
var counted = map[schema.GroupKind]bool{
	clusterv1.GroupVersion.WithKind("Machine").GroupKind():           true,
	clusterv1.GroupVersion.WithKind("MachineSet").GroupKind():        true,
	clusterv1.GroupVersion.WithKind("MachineDeployment").GroupKind(): true,
}

// Create creates an object and waits until the cache shows it.
func (p *patient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := p.Client.Create(ctx, obj, opts...); err != nil {
		return err
	}
	return p.seen(ctx, obj)
}

// Update writes an object and waits until the cache shows it.
func (p *patient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if err := p.Client.Update(ctx, obj, opts...); err != nil {
		return err
	}
	return p.seen(ctx, obj)
}

// Patch changes an object and waits until the cache shows the change.
func (p *patient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if err := p.Client.Patch(ctx, obj, patch, opts...); err != nil {
		return err
	}
	return p.seen(ctx, obj)
}

// Apply applies a configuration and waits until the cache shows it.
func (p *patient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if err := p.Client.Apply(ctx, obj, opts...); err != nil {
		return err
	}
	written, ok := obj.(client.Object)
	if !ok {
		return nil
	}
	return p.seen(ctx, written)
}

// Delete deletes an object and waits until the cache shows that it goes.
func (p *patient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if err := p.Client.Delete(ctx, obj, opts...); err != nil {
		return err
	}
	return p.until(ctx, obj, func(now client.Object) bool { return !now.GetDeletionTimestamp().IsZero() })
}

// seen waits until the cache shows the object at least as new as it was written.
func (p *patient) seen(ctx context.Context, obj client.Object) error {
	return p.until(ctx, obj, func(now client.Object) bool {
		order, err := resourceversion.CompareResourceVersion(now.GetResourceVersion(), obj.GetResourceVersion())
		return err != nil || order >= 0
	})
}

func (p *patient) until(ctx context.Context, obj client.Object, shown func(client.Object) bool) error {
	now := p.emptyLike(obj)
	// A written object without resource version was only tried (dry run).
	if now == nil || obj.GetResourceVersion() == "" {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		switch err := p.Get(ctx, key, now); {
		case apierrors.IsNotFound(err):
			// Not there yet, or gone again; the first is what to wait for, the second ends with the patience.
			return !obj.GetDeletionTimestamp().IsZero(), nil
		case err != nil:
			return false, err
		}
		return shown(now), nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// emptyLike returns a new object of the same kind; nil unless that kind is counted.
func (p *patient) emptyLike(obj client.Object) client.Object {
	gvk, err := apiutil.GVKForObject(obj, p.Scheme())
	if err != nil || !p.counted[gvk.GroupKind()] {
		return nil
	}
	created, err := p.Scheme().New(gvk)
	if err != nil {
		return nil
	}
	empty, _ := created.(client.Object)
	return empty
}
