package observe

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PartWrites are own writes to objects that machines consist of, beside the Machines, that the cache must show before the next decision. An
// old look would find a machine outdated that was just recorded as it is wanted. The zero value is ready for use.
type PartWrites struct {
	awaited map[string]partWrite
}

type partWrite struct {
	version string
	since   time.Time
}

// partKey names an object among those of a group.
func partKey(o client.Object) string {
	return fmt.Sprintf("%T %s %s", o, o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
}

// Expect remembers that an object was written.
func (p *PartWrites) Expect(written client.Object, now time.Time) {
	if p.awaited == nil {
		p.awaited = map[string]partWrite{}
	}
	p.awaited[partKey(written)] = partWrite{written.GetResourceVersion(), now}
}

// Unseen drops the writes that objects, as a cache shows them, show, and returns how long to wait for the rest; 0: nothing is awaited. An
// object that is gone, and one that a cache does not show for long, are not waited for: others may have written it.
func (p *PartWrites) Unseen(objects []client.Object, now time.Time) time.Duration {
	there := map[string]client.Object{}
	for _, o := range objects {
		there[partKey(o)] = o
	}
	wait := time.Duration(0)
	for key, e := range p.awaited {
		left := e.since.Add(CacheTimeout).Sub(now)
		if o, ok := there[key]; !ok || left <= 0 || notBefore(o.GetResourceVersion(), e.version) {
			delete(p.awaited, key)
			continue
		}
		wait = max(wait, left)
	}
	return wait
}

// Awaits reports whether an object, as a cache shows it, is older than what was written to it last.
func (p *PartWrites) Awaits(o client.Object, now time.Time) bool {
	key := partKey(o)
	e, is := p.awaited[key]
	if is && now.Sub(e.since) < CacheTimeout && !notBefore(o.GetResourceVersion(), e.version) {
		return true
	}
	delete(p.awaited, key)
	return false
}

// parts are the objects that were read of the group's machines, beside the Machines.
func (t *Observer) parts() []client.Object {
	var all []client.Object
	for _, m := range t.Machines {
		if m.Bootstrap != nil {
			all = append(all, m.Bootstrap)
		}
		if m.Infrastructure != nil {
			all = append(all, m.Infrastructure)
		}
	}
	for i := range t.Updates.Nodes {
		all = append(all, &t.Updates.Nodes[i])
	}
	return all
}
