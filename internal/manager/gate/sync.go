package gate

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// pending are the kinds whose cache is not full, and since when.
type pending struct {
	mu    sync.Mutex
	since map[schema.GroupVersionKind]time.Time
}

// began returns when the first read of a kind began to wait.
func (p *pending) began(gvk schema.GroupVersionKind) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since == nil {
		p.since = map[schema.GroupVersionKind]time.Time{}
	}
	if p.since[gvk].IsZero() {
		p.since[gvk] = time.Now()
	}
	return p.since[gvk]
}

func (p *pending) ended(gvk schema.GroupVersionKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, gvk)
}

// sync makes sure that the cache of a kind is full, and waits for it while that is young.
func (c *Client) sync(ctx context.Context, o runtime.Object, gvk schema.GroupVersionKind) error {
	of := sample(o, gvk, c.Scheme())
	if of == nil {
		return nil
	}
	informer, err := c.options.Informers.GetInformer(ctx, of, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("looking for the cache of %s: %w", gvk, err)
	}
	if informer.HasSynced() {
		c.pending.ended(gvk)
		return nil
	}
	began := c.pending.began(gvk)
	limited, cancel := context.WithDeadline(ctx, began.Add(SyncTimeout))
	defer cancel()
	if limited.Err() == nil {
		c.options.Aside(ctx, func() { _, err = c.options.Informers.GetInformer(limited, of) })
	}
	if informer.HasSynced() {
		c.pending.ended(gvk)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !untyped(o) {
		return fmt.Errorf("the cache of %s has not been filled since %s", gvk, began.UTC().Format(time.RFC3339))
	}
	return &machine.RefusedError{GroupKind: gvk.GroupKind(), Why: fmt.Sprintf(
		"the manager's cache of it has not been filled since %s; the manager's log says why", began.UTC().Format(time.RFC3339))}
}

// sample returns an object of the kind in the form in which it is read: the cache keeps each form by itself.
func sample(o runtime.Object, gvk schema.GroupVersionKind, scheme *runtime.Scheme) client.Object {
	switch o.(type) {
	case runtime.Unstructured:
		return unstructuredOf(gvk)
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(gvk)
		return m
	}
	if made, err := scheme.New(gvk); err == nil {
		if of, is := made.(client.Object); is {
			return of
		}
	}
	return nil
}
