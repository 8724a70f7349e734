package stacked

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/machine"
)

// patience is how long the cache may take to show an own write before the API
// server is asked whether the write still stands.
const patience = time.Second

// expectation is an own write that the cache must show before the next decision:
// a decision on facts from before the write could repeat or contradict it.
type expectation struct {
	// machine is the name of the Machine that was written; empty: the control plane itself.
	machine string
	// uid is that of the Machine that was written; empty: whichever has the name.
	uid types.UID
	// deleted: the Machine must show its deletion, or be gone.
	deleted bool
	// released: the Machine must be without our hook, or be gone.
	released bool
	// version is the resource version of the write; empty: it does not matter.
	version string
	// since is when the write was done, or confirmed last.
	since time.Time
}

// expect remembers an own write. A newer one of the same kind replaces it.
func (m *memory) expect(e expectation) {
	m.expected = slices.DeleteFunc(m.expected, func(o expectation) bool {
		return o.machine == e.machine && o.uid == e.uid && o.deleted == e.deleted && o.released == e.released
	})
	m.expected = append(m.expected, e)
}

// metBy reports whether what was read shows the write.
func (e expectation) metBy(kcp *controlplanev1.KubeadmControlPlane, machines []*clusterv1.Machine) bool {
	if e.machine == "" {
		return notBefore(kcp.ResourceVersion, e.version)
	}
	for _, m := range machines {
		if m.Name != e.machine || e.uid != "" && m.UID != e.uid {
			continue
		}
		switch {
		case e.deleted:
			return !m.DeletionTimestamp.IsZero()
		case e.released:
			return !machine.HasHook(m)
		}
		return notBefore(m.ResourceVersion, e.version)
	}
	// Not there: shown, where the write removes; not yet, where it creates.
	return e.deleted || e.released || e.uid != ""
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

// unseen drops the expectations that were met, and returns how long to wait for
// the rest; 0: nothing is awaited. Watch events end the wait earlier. A write
// that does not show in time may have been undone by others: the API server knows.
func (r *Reconciler) unseen(ctx context.Context, m *memory, kcp *controlplanev1.KubeadmControlPlane, machines []*clusterv1.Machine, now time.Time) (time.Duration, error) {
	m.expected = slices.DeleteFunc(m.expected, func(e expectation) bool { return e.metBy(kcp, machines) })
	wait := time.Duration(0)
	for i := 0; i < len(m.expected); i++ {
		e := &m.expected[i]
		if left := e.since.Add(patience).Sub(now); left > 0 {
			wait = max(wait, left)
			continue
		}
		stands, err := r.stands(ctx, *e, client.ObjectKeyFromObject(kcp))
		if err != nil {
			return 0, err
		}
		if !stands {
			m.expected = slices.Delete(m.expected, i, i+1)
			i--
			continue
		}
		e.since, wait = now, patience
	}
	return wait, nil
}

// stands asks the API server whether an own write still stands, so that the
// cache will show it.
func (r *Reconciler) stands(ctx context.Context, e expectation, key client.ObjectKey) (bool, error) {
	if e.machine == "" {
		live := &controlplanev1.KubeadmControlPlane{}
		err := r.APIReader.Get(ctx, key, live)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("asking whether the last write to KubeadmControlPlane %s stands: %w", key, err)
		}
		return e.metBy(live, nil), nil
	}
	live := &clusterv1.Machine{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: e.machine}, live)
	if apierrors.IsNotFound(err) {
		// What was created is gone again; what was deleted is gone, which the cache will show.
		return e.uid != "", nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether the last write to Machine %s stands: %w", e.machine, err)
	}
	return e.metBy(&controlplanev1.KubeadmControlPlane{}, []*clusterv1.Machine{live}), nil
}

// lastMachine reads the highest number that was ever put into a machine's name.
// One that cannot be read counts as none: the machines that exist are counted besides.
func lastMachine(kcp *controlplanev1.KubeadmControlPlane) int {
	n, err := strconv.Atoi(kcp.Annotations[controlplanev1.LastMachineAnnotation])
	if err != nil || n < 0 {
		return 0
	}
	return n
}
