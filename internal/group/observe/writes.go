package observe

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// CacheTimeout is how long the cache may take to show an own write before the API
// server is asked whether the write still stands. Where hundreds of control planes are made at once, caches are seconds behind.
const CacheTimeout = 5 * time.Second

// VersionTimeout is the same for a write of a certain version. A cache comes to it, or past it, whatever others do, unless the API server
// has been put back to what it was before.
const VersionTimeout = 30 * time.Second

// Write is an own write that the cache must show before the next decision, unless it is known what was written:
// a decision on facts from before the write could repeat or contradict it.
type Write struct {
	// Machine is the name of the Machine that was written; empty: the group's own object.
	Machine string
	// UID is that of the Machine that was written; empty: whichever has the name.
	UID types.UID
	// Deleted: the Machine must show its deletion, or be gone.
	Deleted bool
	// Released: the Machine must be without our hook, or be gone.
	Released bool
	// Version is the resource version of the write; empty: it does not matter.
	Version string
	// Wrote is the object as the API server answered the write: where the cache is older, a turn takes it for what there is. nil: the cache
	// must show the write first.
	Wrote client.Object
	// Since is when the write was done, or confirmed last. Expect sets it where it is zero.
	Since time.Time
}

// Writes are the own writes of one group that are not known to be seen. The zero value is ready for use.
type Writes struct {
	Awaited []Write
}

// Expect remembers an own write. A newer one of the same kind replaces it.
func (w *Writes) Expect(e Write) {
	w.Awaited = slices.DeleteFunc(w.Awaited, func(o Write) bool {
		return o.Machine == e.Machine && o.UID == e.UID && o.Deleted == e.Deleted && o.Released == e.Released
	})
	if e.Since.IsZero() {
		e.Since = time.Now()
	}
	w.Awaited = append(w.Awaited, e)
}

// ExpectObject remembers that the group's own object was written, and what the API server answered.
func (w *Writes) ExpectObject(written Object) {
	w.Expect(Write{Version: written.GetResourceVersion(), Wrote: written})
}

// ExpectMachine remembers that a Machine was written.
func (w *Writes) ExpectMachine(written *clusterv1.Machine) {
	w.Expect(Write{Machine: written.Name, UID: written.UID, Version: written.ResourceVersion})
}

// metBy reports whether what was read shows the write.
func (e Write) metBy(object client.Object, machines []*clusterv1.Machine) bool {
	if e.Machine == "" {
		return notBefore(object.GetResourceVersion(), e.Version)
	}
	i := slices.IndexFunc(machines, e.isOf)
	switch {
	case i < 0:
		// Not there: shown, where the write removes; not yet, where it creates.
		return e.Deleted || e.Released || e.UID != ""
	case e.Deleted:
		return !machines[i].DeletionTimestamp.IsZero()
	case e.Released:
		return !machine.HasHook(machines[i])
	}
	return notBefore(machines[i].ResourceVersion, e.Version)
}

// isOf reports whether it is a Machine that was written.
func (e Write) isOf(m *clusterv1.Machine) bool {
	return m.Name == e.Machine && (e.UID == "" || m.UID == e.UID)
}

// timeout is how long the cache may take to show it.
func (e Write) timeout() time.Duration {
	if e.Version != "" {
		return VersionTimeout
	}
	return CacheTimeout
}

// notBefore reports whether a resource version is not older than another. Where
// they cannot be compared, waiting would never end.
func notBefore(got, want string) bool {
	if want == "" || got == want {
		return true
	}
	c, err := resourceversion.CompareResourceVersion(got, want)
	return err != nil || c >= 0
}

// Unseen drops the writes that the group's object and the machines, as a cache shows them, show, and returns
// how long to wait for the rest; 0: nothing is awaited. Watch events end the wait earlier. A write
// that does not show in time may have been undone by others: api, the API server, knows.
func (w *Writes) Unseen(
	ctx context.Context, api client.Reader, object client.Object, machines []*clusterv1.Machine, now time.Time,
) (time.Duration, error) {
	w.Awaited = slices.DeleteFunc(w.Awaited, func(e Write) bool { return e.metBy(object, machines) })
	wait := time.Duration(0)
	for i := 0; i < len(w.Awaited); i++ {
		e := &w.Awaited[i]
		left := e.Since.Add(e.timeout()).Sub(now)
		if left > 0 && e.Wrote == nil {
			wait = max(wait, left)
		}
		if left > 0 {
			continue
		}
		stands, err := e.stands(ctx, api, object)
		if err != nil {
			return 0, err
		}
		if !stands {
			w.Awaited = slices.Delete(w.Awaited, i, i+1)
			i--
			continue
		}
		if e.Since = now; e.Wrote == nil {
			wait = e.timeout()
		}
	}
	return wait, nil
}

// Newest returns the group's object as it is known to be: as it was last written, where what a cache shows is older. The machines of a list
// that are older are put in place as they were last written. Unseen must have dropped what the cache shows.
func (w *Writes) Newest(object Object, machines []*clusterv1.Machine) Object {
	for _, e := range w.Awaited {
		switch wrote := e.Wrote.(type) {
		case nil:
		case *clusterv1.Machine:
			if i := slices.IndexFunc(machines, e.isOf); i >= 0 {
				machines[i] = wrote.DeepCopy()
			}
		case Object:
			if wrote.GetUID() == object.GetUID() {
				object = wrote.DeepCopyObject().(Object)
			}
		}
	}
	return object
}

// stands asks the API server whether an own write still stands, so that the
// cache will show it.
func (e Write) stands(ctx context.Context, api client.Reader, object client.Object) (bool, error) {
	if e.Machine == "" {
		live := object.DeepCopyObject().(client.Object)
		err := api.Get(ctx, client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("asking whether the last write to %s stands: %w", object.GetName(), err)
		}
		return e.metBy(live, nil), nil
	}
	live := &clusterv1.Machine{}
	err := api.Get(ctx, client.ObjectKey{Namespace: object.GetNamespace(), Name: e.Machine}, live)
	if apierrors.IsNotFound(err) {
		// What was created is gone again; what was deleted is gone, which the cache will show.
		return e.UID != "", nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether the last write to Machine %s stands: %w", e.Machine, err)
	}
	return e.metBy(object, []*clusterv1.Machine{live}), nil
}
