// Package gate is the manager's client for objects that references name. Another user chose the kind of an untyped object. Before the
// object is read or written its kind must be namespaced, not Kubernetes' own, part of Cluster API's contract and, to be read from the
// cache, readable by the manager. No read waits for a cache that never fills. The package does not know what a reference is for:
// machine.Ref checks that.
package gate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// SyncTimeout is how long the first reads of a kind wait for the cache to fill. After that a read fails at once until the cache is full.
const SyncTimeout = 5 * time.Second

// Options are what the gate needs besides the client that it guards.
type Options struct {
	// Informers is the cache that the client reads from.
	Informers cache.Informers
	// Direct are the kinds that the client does not read from the cache.
	Direct []client.Object
	// Reviews asks the API server about the manager's own rights.
	Reviews authorizationv1.SelfSubjectAccessReviewInterface
	// Namespace is the only one that the manager works in; empty: all.
	Namespace string
	// Aside runs what waits, while others work. Nil: it is run as it is.
	Aside func(ctx context.Context, do func())
}

// Client guards another client.
type Client struct {
	client.Client
	options Options
	// missing are the rights that the manager lacks to keep a kind in its cache.
	missing expiring[schema.GroupVersionResource, []string]
	// absent are kinds that are not served.
	absent  expiring[schema.GroupVersionKind, struct{}]
	pending pending
}

var _ client.Client = &Client{}

// New returns a guarded client.
func New(c client.Client, o Options) *Client {
	if o.Aside == nil {
		o.Aside = func(_ context.Context, do func()) { do() }
	}
	return &Client{Client: c, options: o}
}

// Get implements client.Client.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if err := c.mayRead(ctx, o, key.Namespace); err != nil {
		return err
	}
	return c.Client.Get(ctx, key, o, options...)
}

// List implements client.Client.
func (c *Client) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	of := client.ListOptions{}
	of.ApplyOptions(options)
	if err := c.mayRead(ctx, list, of.Namespace); err != nil {
		return err
	}
	return c.Client.List(ctx, list, options...)
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if err := c.mayWrite(ctx, o); err != nil {
		return err
	}
	return c.Client.Create(ctx, o, options...)
}

// Update implements client.Client.
func (c *Client) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	if err := c.mayWrite(ctx, o); err != nil {
		return err
	}
	return c.Client.Update(ctx, o, options...)
}

// Patch implements client.Client.
func (c *Client) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := c.mayWrite(ctx, o); err != nil {
		return err
	}
	return c.Client.Patch(ctx, o, patch, options...)
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	if err := c.mayWrite(ctx, o); err != nil {
		return err
	}
	return c.Client.Delete(ctx, o, options...)
}

// DeleteAllOf implements client.Client. No untyped objects are deleted so.
func (c *Client) DeleteAllOf(ctx context.Context, o client.Object, options ...client.DeleteAllOfOption) error {
	if untyped(o) {
		return fmt.Errorf("deleting all %T: only objects of a known type can be deleted together", o)
	}
	return c.Client.DeleteAllOf(ctx, o, options...)
}

// Apply implements client.Client.
func (c *Client) Apply(ctx context.Context, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if err := c.mayApply(ctx, o); err != nil {
		return err
	}
	return c.Client.Apply(ctx, o, options...)
}

// mayApply returns an error if a configuration cannot be applied.
func (c *Client) mayApply(ctx context.Context, o runtime.ApplyConfiguration) error {
	if _, is := o.(runtime.Unstructured); !is {
		return nil
	}
	of, is := o.(client.Object)
	if !is {
		return fmt.Errorf("applying a %T: it names no object", o)
	}
	return c.mayWrite(ctx, of)
}

// Status implements client.Client.
func (c *Client) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.Client.
func (c *Client) SubResource(name string) client.SubResourceClient {
	return &subResource{SubResourceClient: c.Client.SubResource(name), of: c}
}

// untyped reports whether the kind of an object is data.
func untyped(o runtime.Object) bool {
	_, is := o.(runtime.Unstructured)
	return is
}

// mayRead returns an error if an object, or a list, cannot be read, and waits for the cache of its kind.
func (c *Client) mayRead(ctx context.Context, o runtime.Object, namespace string) error {
	gvk, err := c.kindOf(o)
	if err != nil {
		return err
	}
	if untyped(o) {
		if err := c.mayName(ctx, gvk, namespace); err != nil {
			return err
		}
		if err := c.mayWatch(ctx, gvk); err != nil {
			return err
		}
	}
	direct := func(o client.Object) bool { of, err := c.GroupVersionKindFor(o); return err == nil && of == gvk }
	if slices.ContainsFunc(c.options.Direct, direct) {
		return nil
	}
	return c.sync(ctx, o, gvk)
}

// mayWrite returns an error if an object cannot be written.
func (c *Client) mayWrite(ctx context.Context, o client.Object) error {
	if !untyped(o) {
		return nil
	}
	gvk, err := c.kindOf(o)
	if err != nil {
		return err
	}
	return c.mayName(ctx, gvk, o.GetNamespace())
}

// kindOf returns the kind of an object, or of the objects of a list.
func (c *Client) kindOf(o runtime.Object) (schema.GroupVersionKind, error) {
	gvk, err := c.GroupVersionKindFor(o)
	if _, list := o.(client.ObjectList); list {
		gvk.Kind = trimList(gvk.Kind)
	}
	return gvk, err
}

// mayName returns a *machine.RefusedError if the kind is not one that references name. The kinds of the manager's own scheme are known to
// Cluster API's contract; of others their definitions say it.
func (c *Client) mayName(ctx context.Context, gvk schema.GroupVersionKind, namespace string) error {
	refuse := func(format string, a ...any) error {
		return &machine.RefusedError{GroupKind: gvk.GroupKind(), Why: fmt.Sprintf(format, a...)}
	}
	if machine.IsKubernetesGroup(gvk.Group) {
		return refuse("the group belongs to Kubernetes")
	}
	mapping, err := c.mapping(gvk)
	switch {
	case meta.IsNoMatchError(err):
		return refuse("version %q is not served", gvk.Version)
	case err != nil:
		return fmt.Errorf("looking for the resource of %s: %w", gvk, err)
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return refuse("its objects are cluster-scoped; they must be namespaced")
	case namespace == "":
		return refuse("the object has no namespace")
	case c.Scheme().Recognizes(gvk):
		return nil
	}
	return c.inContract(ctx, mapping.Resource.GroupResource(), refuse)
}

// inContract returns an error unless the definition of a resource has a label of Cluster API's contract.
func (c *Client) inContract(ctx context.Context, resource schema.GroupResource, refuse func(string, ...any) error) error {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(definition)
	if err := c.Get(ctx, client.ObjectKey{Name: resource.String()}, crd); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return refuse("there is no CustomResourceDefinition %s", resource)
		}
		return fmt.Errorf("reading CustomResourceDefinition %s: %w", resource, err)
	}
	if !machine.InContract(crd) {
		return refuse("CustomResourceDefinition %s has no label of Cluster API's contract", resource)
	}
	return nil
}

// unstructuredOf returns an empty object of a kind.
func unstructuredOf(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}
