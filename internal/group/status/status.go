package status

import (
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Report is what is reported of a group. It is computed of what was seen and decided alone.
type Report struct {
	*observe.View
	Kind Kind
	// Decision is what was decided, and Failure how its step failed; nil: it did not, or there was none.
	Decision plan.Decision
	Failure  error
}

// Of returns what is reported of what was seen and decided.
func Of(seen *observe.View, kind Kind, d plan.Decision, failure error) Report {
	return Report{View: seen, Kind: kind, Decision: d, Failure: failure}
}

// Machine returns a Machine of the group with its conditions.
func (t Report) Machine(on *observe.Machine) *clusterv1.Machine {
	after := on.DeepCopy()
	for _, c := range t.MachineConditions(on) {
		conditions.Set(after, c)
	}
	if on.Facts.Marked != "" {
		conditions.Set(after, t.ownerRemediated(on, t.Decision, t.Failure))
	}
	handBack(on, after)
	ForgetDeprecated(after, deprecated)
	return after
}

// Group returns the group's object with its status. The Machines of the view carry their conditions already.
func (t Report) Group() observe.Object {
	after := t.Object.DeepCopyObject().(observe.Object)
	t.describe(after, t.Decision, t.Failure)
	return after
}

// Stands returns how the group stands. ends are when the first certificate of each name expires. A wait is as old as what was seen.
func (t Report) Stands(ends map[string]time.Time) Standing {
	o, s := t.Facts, Standing{CertificateEnds: ends}
	asleep := o.Power.Backup != "" && !o.Recovery.Begun
	if !t.Nodeless && o.Group.Initialized && !o.Group.Deleting && !asleep {
		s.Reachable, s.Addons = ptr.To(o.Cluster.Reachable), t.addonsWork()
	}
	if o.Etcd.Ours() && o.Etcd.Known && !asleep {
		s.Etcd = t.etcdStands()
	}
	if d := t.Decision; d.Step.Verb == plan.Wait {
		s.Waits = Waiting{Rule: d.Rule, Reason: d.Reason, Since: o.Now}
	}
	return s
}
