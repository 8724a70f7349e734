package stacked

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/certs"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
)

// An API server is asked for its certificate when it is first seen healthy, and again once a day. While that
// fails it is asked again after a minute, then after twice as long each time, up to an hour.
const (
	expiryAge       = 24 * time.Hour
	expiryRetry     = time.Minute
	expiryRetryMost = time.Hour
	// expiryTime is how long one answer may take, and expiriesAtOnce how many are awaited at the same time.
	expiryTime     = 10 * time.Second
	expiriesAtOnce = 16
)

// apiServer is the component that shows the certificate that upstream records.
const apiServer = "kube-apiserver"

// expiries are when the certificates of one control plane's API servers expire, by the UIDs of
// their Machines. They are asked for in the background: no turn waits for them. The zero value is ready for use.
type expiries struct {
	mu sync.Mutex
	of map[types.UID]*expiry
}

// expiry is what is known of one API server's certificate.
type expiry struct {
	// end is when it expires; zero: not known.
	end time.Time
	// due is when to ask next; asking: an answer is awaited.
	due      time.Time
	asking   bool
	failures int
	// recorded: the annotation was seen on the KubeadmConfig.
	recorded bool
}

// begin reports whether the API server of a Machine is to be asked now; then done or putOff must follow.
func (e *expiries) begin(uid types.UID, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[types.UID]*expiry{}
	}
	if e.of[uid] == nil {
		e.of[uid] = &expiry{}
	}
	one := e.of[uid]
	if one.asking || now.Before(one.due) {
		return false
	}
	one.asking = true
	return true
}

// done notes what came of asking. A date that was known stays when the next answer fails.
func (e *expiries) done(uid types.UID, end time.Time, err error, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.of[uid]
	if one == nil {
		return // the Machine is gone
	}
	one.asking = false
	if err != nil {
		one.due = now.Add(min(expiryRetry<<min(one.failures, 6), expiryRetryMost))
		one.failures++
		return
	}
	one.end, one.due, one.failures = end, now.Add(expiryAge), 0
}

// putOff lets an API server be asked later that could not be asked now.
func (e *expiries) putOff(uid types.UID, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.of[uid]; one != nil {
		one.asking, one.due = false, now.Add(soonAtRest)
	}
}

// end is when the certificate of a Machine's API server expires; zero: not known.
func (e *expiries) end(uid types.UID) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.of[uid]; one != nil {
		return one.end
	}
	return time.Time{}
}

// note notes whether the annotation is on the KubeadmConfig, and reports whether it is to be written.
// Whoever takes it away has renewed the certificate: that is asked for anew.
func (e *expiries) note(uid types.UID, recorded bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.of[uid]
	if one == nil {
		return false
	}
	taken := one.recorded && !recorded
	if taken {
		*one = expiry{asking: one.asking}
	}
	one.recorded = recorded
	return !recorded && !taken
}

// only forgets all Machines but these.
func (e *expiries) only(machines []*clusterv1.Machine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid := range e.of {
		if !slices.ContainsFunc(machines, func(m *clusterv1.Machine) bool { return m.UID == uid }) {
			delete(e.of, uid)
		}
	}
}

// observeExpiries adds when the certificates of the API servers expire, as far as they have
// answered, and lets those be asked whose time it is.
func (r *Reconciler) observeExpiries(ctx context.Context, s *scene, m *memory) {
	m.expiries.only(s.objects())
	for _, target := range s.machines {
		target.certificateEnd = m.expiries.end(target.UID)
		if s.mayAsk(target) && m.expiries.begin(target.UID, s.observed.Now) && !r.askExpiry(ctx, s, &m.expiries, target) {
			m.expiries.putOff(target.UID, s.observed.Now)
		}
	}
}

// mayAsk reports whether the API server of a machine is there to be asked.
func (s *scene) mayAsk(m *observedMachine) bool {
	o := s.observed
	if !o.Group.Initialized || o.Group.Deleting || o.Group.Paused || !o.Cluster.Reachable {
		return false
	}
	return !m.facts.Deleting && m.facts.Node != "" && slices.ContainsFunc(m.facts.Components, func(c plan.Component) bool {
		return c.Name == apiServer && c.Health == plan.Healthy
	})
}

// askExpiry asks one API server in the background; false: too many are asked already.
func (r *Reconciler) askExpiry(ctx context.Context, s *scene, into *expiries, target *observedMachine) bool {
	node, ip := target.facts.Node, machine.InternalIP(target.Machine)
	if target.node != nil {
		ip = cmp.Or(machine.NodeIP(target.node), ip)
	}
	port := machine.APIServerPort(target.config)
	dial := r.Workload.Dial(client.ObjectKeyFromObject(s.cluster), node, ip, port)
	uid := target.UID
	// The turn ends before the answer comes.
	ctx = context.WithoutCancel(ctx)
	return r.handshakes.TryGo(func() error {
		ctx, cancel := context.WithTimeout(ctx, expiryTime)
		defer cancel()
		end, err := certs.APIServerEnd(ctx, dial)
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Could not see when the certificate of an API server expires", "node", node, "error", err.Error())
		}
		into.done(uid, end, err, time.Now())
		return nil
	})
}

// recordExpiries writes into the KubeadmConfigs when the certificates of the API servers expire, as upstream's controller
// does: once, in the annotation from which the Machine's status and spec.rollout.before take it. What is there
// stays. One that has changed since it was read is left to the next turn.
func (r *Reconciler) recordExpiries(ctx context.Context, s *scene, m *memory) error {
	for _, on := range s.machines {
		if on.config == nil || on.facts.Deleting {
			continue
		}
		_, recorded := on.config.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]
		if !m.expiries.note(on.UID, recorded) || on.certificateEnd.IsZero() {
			continue
		}
		after := on.config.DeepCopy()
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, clusterv1.MachineCertificatesExpiryDateAnnotation, on.certificateEnd.UTC().Format(time.RFC3339))
		err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(on.config, client.MergeFromWithOptimisticLock{}))
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("recording when the certificates of Machine %s expire: %w", on.Name, err)
		}
	}
	return nil
}

// describeExpiry writes into the status which certificate expires first. While the cluster or its etcd does not
// answer, what was last known stays.
func (s *scene) describeExpiry(status *controlplanev1.KubeadmControlPlaneStatus) {
	o := s.observed
	switch {
	case len(s.machines) == 0:
		status.CertificateExpiry = controlplanev1.CertificateExpiryStatus{}
	case !o.Group.Deleting && o.Cluster.Reachable && (o.Etcd.Known || !o.Etcd.Managed):
		status.CertificateExpiry = s.firstExpiry()
	}
}

// firstExpiry is the first certificate to expire of those that are known; none is known: empty.
func (s *scene) firstExpiry() controlplanev1.CertificateExpiryStatus {
	var first controlplanev1.CertificateExpiryStatus
	look := func(end time.Time, machine, component string) {
		if !end.IsZero() && (first.Date.IsZero() || end.Before(first.Date.Time)) {
			first = controlplanev1.CertificateExpiryStatus{Date: metav1.NewTime(end), Machine: machine, Component: component}
		}
	}
	for _, m := range s.machines {
		if m.facts.Deleting {
			continue
		}
		end := m.certificateEnd
		if end.IsZero() {
			end = m.parts().CertificatesEnd()
		}
		look(end, m.Name, apiServer)
	}
	for _, member := range s.survey.Members {
		look(member.CertificateEnd, cmp.Or(s.machineOf(member), member.Name), "etcd")
	}
	return first
}
