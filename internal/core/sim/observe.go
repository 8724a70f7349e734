package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// freshness is how old a look may be that counts as a new one.
const freshness = 5 * time.Second

// Look is what the controller sees: the truth, a look of a moment ago, or less
// than the truth. It reports whether it is the truth of now.
func (w *World) Look() (plan.Observed, bool) {
	w.findAgain()
	listen(w)
	decider{w}.mark()
	w.sawExtension = w.byExtension()
	now := w.Observe()
	seen := look{now, w.spec, w.limits.version, w.recoveries.saw, w.answers, w.byExtension(), w.power.changes}
	w.looks, w.saw = append(w.looks, seen), w.spec
	w.power.saw = w.power.changes
	w.sawAnswers = w.answers
	w.limits.saw = w.limits.version
	if len(w.looks) > 3 {
		w.looks = w.looks[1:]
	}
	w.blinded = w.chance(w.setup.Luck.Blind)
	if w.blinded {
		now.Etcd.Members = slices.Clone(now.Etcd.Members)
		w.blind(&now)
		w.upset()
		return now, false
	}
	if w.chance(w.setup.Luck.Stale) {
		old := w.looks[w.rand.Intn(len(w.looks))]
		if now.Now.Sub(old.Now) <= freshness {
			w.saw, w.limits.saw, w.sawAnswers, w.sawExtension = old.spec, old.limits, old.answers, old.byExtension
			w.power.saw = old.power
			w.recoveries.saw = old.recovery
			return old.Observed, old.Now.Equal(now.Now)
		}
	}
	if len(w.looks) > 1 && w.chance(w.setup.Luck.Mixed) {
		return w.mix(now), false
	}
	return now, true
}

// mix makes one look of several: the machines, their Nodes and etcd's members are each of
// another moment.
func (w *World) mix(now plan.Observed) plan.Observed {
	of := func() plan.Observed {
		old := w.looks[w.rand.Intn(len(w.looks))].Observed
		if now.Now.Sub(old.Now) > freshness {
			return now
		}
		return old
	}
	machines, nodes, etcd := of(), of(), of()
	mixed := now
	mixed.Machines = slices.Clone(machines.Machines)
	for i := range mixed.Machines {
		m := &mixed.Machines[i]
		at := slices.IndexFunc(nodes.Machines, func(o plan.Machine) bool { return o.Name == m.Name })
		if at < 0 {
			m.Host, m.UpSince, m.Ready, m.Components = "", time.Time{}, false, w.unknownComponents("the machine has no Node")
			continue
		}
		node := nodes.Machines[at]
		m.Host, m.UpSince, m.Ready, m.Components = node.Host, node.UpSince, node.Ready, node.Components
	}
	mixed.Cluster.Reachable, mixed.Cluster.Unreachable = nodes.Cluster.Reachable, nodes.Cluster.Unreachable
	mixed.Cluster.FailingSince, mixed.Cluster.SilentSince = nodes.Cluster.FailingSince, nodes.Cluster.SilentSince
	mixed.Etcd = etcd.Etcd
	mixed.Etcd.Members = slices.Clone(etcd.Etcd.Members)
	for i := range mixed.Etcd.Members {
		e := &mixed.Etcd.Members[i]
		if !slices.ContainsFunc(mixed.Machines, func(m plan.Machine) bool { return m.Name == e.Machine }) {
			e.Machine = ""
		}
	}
	return mixed
}

func (w *World) chance(percent int) bool { return percent > 0 && w.rand.Intn(100) < percent }

// blind hides a part of what is observed.
func (w *World) blind(o *plan.Observed) {
	switch n := w.rand.Intn(4); {
	case n == 0 || !o.Etcd.Known:
		if o.Cluster.Reachable {
			o.Cluster.FailingSince, o.Cluster.SilentSince = w.now, w.now
		}
		o.Cluster.Reachable, o.Cluster.Unreachable = false, "context deadline exceeded"
	case n == 1:
		o.Etcd.Known, o.Etcd.Why, o.Etcd.Members = false, "context deadline exceeded", nil
	case n == 2:
		o.Etcd.Agreed, o.Etcd.Why = false, "two members have two lists"
	case len(o.Etcd.Members) > 0:
		silent := &o.Etcd.Members[w.rand.Intn(len(o.Etcd.Members))]
		if silent.Health != plan.Unknown {
			silent.Health, silent.Since = plan.Unknown, w.now
		}
	}
}

// Observe is what can be seen of the world now.
func (w *World) Observe() plan.Observed {
	o := plan.Observed{
		Now: w.now,
		Group: plan.Group{
			Name: "cp", Deleting: w.deleting, Orphaning: w.orphaning, Paused: w.now.Before(w.pausedUntil), Inactive: w.isInactive(),
			UpdatesPaused: w.lasts(HoldUpdates, 0),
			Initialized:   w.initialised, New: !w.initialised, LastMachine: w.last, PartialCreate: w.begun,
			Repairing: w.repairing != nil,
		},
		Want: plan.Want{
			Replicas: w.replicas, Domains: w.setup.Domains, NameFormat: "cp-%s",
		},
		Policy: plan.Policy{
			MaxParallel: w.setup.MaxParallel, Eager: w.setup.Eager, Learners: !w.setup.Serial, Surge: w.surge(), Overlap: w.setup.Overlap,
			ShrinkHealthy: w.setup.ShrinkHealthy,
			Repair:        w.setup.Repair, InPlace: w.setup.InPlace, MemberAdd: w.setup.MemberAdd,
		},
		Cluster: plan.Cluster{
			Infrastructure: true, Endpoint: "10.0.0.1:6443", Reachable: w.kubeconfig && w.reachable(),
		},
	}
	if !w.setup.External {
		o.Etcd.Owner = plan.EtcdOurs
	}
	w.addAround(&o)
	w.addApproval(&o)
	windowed{w}.add(&o)
	w.addLimit(&o)
	o.Choices = slices.Clone(w.decided.choices)
	gate{w}.add(&o)
	w.addOperator(&o)
	w.addChores(&o)
	if !o.Cluster.Reachable {
		o.Cluster.Unreachable = "connection refused"
		o.Cluster.FailingSince, o.Cluster.SilentSince = w.silentSince, w.silentSince
	}
	if w.setup.Workers && (w.workersUntil.IsZero() || w.now.Before(w.workersUntil)) {
		o.Workers = []string{"worker-1"}
	}
	w.addMachines(&o)
	w.namesOfUnknown(&o)
	if o.Etcd.Ours() {
		w.survey(&o)
	}
	w.addVersions(&o)
	recovering{w}.add(&o)
	sleeper{w}.add(&o)
	if w.setup.EtcdOnly {
		o.Policy.EtcdOnly, o.Cluster.Endpoint = true, ""
		o.Cluster.Reachable, o.Cluster.Unreachable = true, ""
		o.AddMembersAsHosts()
	}
	return o
}

// addMachines is what can be seen of the machines: the group's, and those that it may adopt.
func (w *World) addMachines(o *plan.Observed) {
	for _, h := range w.hosts {
		if !h.hidden.IsZero() {
			continue
		}
		if h.disowned {
			if !w.deleting && !o.Group.Paused {
				o.Uncontrolled = append(o.Uncontrolled, w.strange(h))
			}
			continue
		}
		o.Machines = append(o.Machines, w.machine(h, o.Cluster.Reachable))
	}
}

// listen notes whether an API server answers, which the controller asks all the time while it has a kubeconfig.
func listen(w *World) {
	switch {
	case !w.kubeconfig, w.reachable() && !w.lasts(BlindAPI, 0):
		w.silentSince = time.Time{}
	case w.silentSince.IsZero():
		w.silentSince = w.now
	}
}

// reachable: an API server answers.
func (w *World) reachable() bool {
	if !w.setup.External && !w.hasLeader() || !w.operatorHasQuorum() {
		return false
	}
	return slices.ContainsFunc(w.hosts, w.serving)
}
