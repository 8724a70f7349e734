package manager

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/internal/manager/groups"
)

// clusterField is the index of objects by the Cluster that their label names.
const clusterField = "quorate/cluster"

// indexed is a client whose lists of one cluster's objects cost as much as these are, not as all are. The cache compares the labels of each
// object in the namespace, in each turn of each group.
type indexed struct {
	client.Client
	indexer client.FieldIndexer
	// direct are kinds that are not read from the cache.
	direct []client.Object

	mu   sync.Mutex
	have map[kept]bool
}

// kept is what the cache keeps apart: a kind, and the Go type that its objects are read as.
type kept struct {
	schema.GroupVersionKind
	as reflect.Type
}

// newClient returns a client that lists what is labelled with a Cluster's name by an index of the cache that it reads.
func newClient(cfg *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.New(cfg, o)
	if err != nil {
		return nil, err
	}
	indexer, is := o.Cache.Reader.(client.FieldIndexer)
	if !is {
		return nil, fmt.Errorf("%T cannot have indexes", o.Cache.Reader)
	}
	return &indexed{Client: c, indexer: indexer, direct: o.Cache.DisableFor, have: map[kept]bool{}}, nil
}

// newGuarded returns the manager's client, which follows references only where package gate lets it, and reads by the index.
func newGuarded(namespace string) client.NewClientFunc {
	return func(cfg *rest.Config, o client.Options) (client.Client, error) {
		c, err := newClient(cfg, o)
		if err != nil {
			return nil, err
		}
		return groups.Guarded(c, cfg, o, namespace)
	}
}

// List implements client.Client.
func (c *indexed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if o.LabelSelector == nil || o.FieldSelector != nil {
		return c.Client.List(ctx, list, options...)
	}
	cluster, exact := o.LabelSelector.RequiresExactMatch(clusterv1.ClusterNameLabel)
	if !exact || !c.has(ctx, list) {
		return c.Client.List(ctx, list, options...)
	}
	o.FieldSelector = fields.OneTermEqualSelector(clusterField, cluster)
	return c.Client.List(ctx, list, &o)
}

// has reports whether there is an index for what a list has, and makes one where that can be. Of a kind that is not served, or is read from
// the API server, there is none.
func (c *indexed) has(ctx context.Context, list client.ObjectList) bool {
	of, err := apiutil.GVKForObject(list, c.Scheme())
	if err != nil {
		return false
	}
	of.Kind = strings.TrimSuffix(of.Kind, "List")
	if slices.ContainsFunc(c.direct, func(o client.Object) bool { kind, err := c.GroupVersionKindFor(o); return err == nil && kind == of }) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := kept{of, reflect.TypeOf(list)}
	if c.have[key] {
		return true
	}
	item := c.item(of, list)
	if item == nil || c.indexer.IndexField(ctx, item, clusterField, clusterOf) != nil {
		return false
	}
	c.have[key] = true
	return true
}

// item is an empty object as a list has them; nil: its type is not known.
func (c *indexed) item(of schema.GroupVersionKind, list client.ObjectList) client.Object {
	switch list.(type) {
	case *unstructured.UnstructuredList:
		item := &unstructured.Unstructured{}
		item.SetGroupVersionKind(of)
		return item
	case *metav1.PartialObjectMetadataList:
		item := &metav1.PartialObjectMetadata{}
		item.SetGroupVersionKind(of)
		return item
	}
	made, err := c.Scheme().New(of)
	if err != nil {
		return nil
	}
	item, _ := made.(client.Object)
	return item
}

// clusterOf is the name of the Cluster that an object's label names.
func clusterOf(o client.Object) []string {
	name, has := o.GetLabels()[clusterv1.ClusterNameLabel]
	if !has {
		return nil
	}
	return []string{name}
}
