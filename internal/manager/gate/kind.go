package gate

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var definition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func trimList(kind string) string { return strings.TrimSuffix(kind, "List") }

// expiring is a map whose entries count for a while. It has at most most entries: users who write references name the kinds.
type expiring[K comparable, V any] struct {
	mu   sync.Mutex
	kept map[K]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time
}

// most is how many entries a map keeps.
const most = 1000

// get returns an entry that still counts.
func (e *expiring[K, V]) get(key K, now time.Time) (V, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	found, ok := e.kept[key]
	return found.value, ok && now.Before(found.until)
}

// put keeps an entry.
func (e *expiring[K, V]) put(key K, value V, until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept == nil || len(e.kept) >= most {
		e.kept = map[K]entry[V]{}
	}
	e.kept[key] = entry[V]{value, until}
}

// absentFor is how long a kind that is not served is not looked for again: the mapper asks the API server each time.
const absentFor = 10 * time.Second

// mapping returns the resource of a kind.
func (c *Client) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	now := time.Now()
	if _, absent := c.absent.get(gvk, now); absent {
		return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
	}
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.absent.put(gvk, struct{}{}, now.Add(absentFor))
	}
	return mapping, err
}
