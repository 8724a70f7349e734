package forecast

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/check"
	"github.com/quorate/quorate/internal/core/plan"
)

// world is the facts that the rules look at, as they will be.
//
// Two clocks run. That of the facts goes on by a second with whatever happens, so that no limit of the rules to how long something may take
// is ever reached: nothing goes wrong. elapsed is the estimate of how long it really takes.
type world struct {
	o       plan.Observed
	t       Times
	elapsed time.Duration
	// since is when what a machine does now began, on the clock of the estimate, and doing what that is.
	since map[string]time.Duration
	doing map[string]string
	// members counts those that were added.
	members int
	// counted is when machines were replaced that Policy.MaxReplacements counts, on the clock of the estimate, and held how long the next step
	// has waited for it.
	counted map[string]time.Duration
	held    time.Duration
	heldBy  string
	// backedUp is when the newest verified backup was taken, on the clock of the estimate.
	backedUp time.Duration
}

// newWorld copies what was observed, so that the caller's facts stay as they are.
func newWorld(o plan.Observed, t Times) *world {
	o.Machines = slices.Clone(o.Machines)
	o.Uncontrolled = slices.Clone(o.Uncontrolled)
	o.Etcd.Members = slices.Clone(o.Etcd.Members)
	o.Cluster.Chores = slices.Clone(o.Cluster.Chores)
	o.Workers = slices.Clone(o.Workers)
	o.Group.Replacements = slices.Clone(o.Group.Replacements)
	for i := range o.Machines {
		o.Machines[i].Components = slices.Clone(o.Machines[i].Components)
	}
	w := &world{o: o, t: t, since: map[string]time.Duration{}, doing: map[string]string{}, counted: map[string]time.Duration{}}
	for _, r := range o.Group.Replacements {
		w.counted[r.Machine] = r.At.Sub(o.Now)
	}
	w.backedUp = o.Group.Backup.Taken.Sub(o.Now)
	w.adoptMembers()
	return w
}

// adoptMembers finds the machine of each member of which it is not known yet: that of its name, or the oldest that joins and has none.
func (w *world) adoptMembers() {
	for i := range w.o.Etcd.Members {
		e := &w.o.Etcd.Members[i]
		if e.Machine != "" || e.Placeholder {
			continue
		}
		for j := range w.o.Machines {
			m := &w.o.Machines[j]
			if w.memberOf(m.Name) != nil || m.Deleting || m.Held || e.Name != "" && e.Name != m.Host && e.Name != m.Name {
				continue
			}
			e.Machine = m.Name
			break
		}
	}
}

// next asks the rules, and has their answer checked.
func (w *world) next() (plan.Decision, error) {
	w.ageBackup()
	d := plan.Next(w.o)
	if err := check.Decision(w.o, d); err != nil {
		return d, fmt.Errorf("%s is not safe: %w; this is a defect of Quorate", d.Step, err)
	}
	return d, nil
}

// notYet begins the ID of a member that is yet to come.
const notYet = "new"

// told is a decision without the IDs of members that are yet to come: etcd gives them.
func told(d plan.Decision) plan.Decision {
	if strings.HasPrefix(d.Step.Member, notYet) {
		d.Step.Member = ""
	}
	d.Message = future.ReplaceAllString(d.Message, "$1")
	return d
}

// future matches a member that is yet to come, as messages name it: "new3 on demo-cp-6".
var future = regexp.MustCompile(notYet + `\d+ on (\S)`)

// pass lets the next thing happen that happens by itself. It reports whether there was one.
func (w *world) pass() bool {
	var soonest *event
	for _, e := range w.events() {
		began := w.began(e)
		if e.due = began + e.takes; soonest == nil || e.due < soonest.due {
			soonest = &e
		}
	}
	if soonest == nil {
		return false
	}
	w.elapsed = max(w.elapsed, soonest.due)
	w.o.Now = w.o.Now.Add(time.Second)
	soonest.happens()
	w.settleMembers()
	return true
}

// began is since when something is under way.
func (w *world) began(e event) time.Duration {
	if w.doing[e.of] != e.what {
		w.doing[e.of], w.since[e.of] = e.what, w.elapsed
	}
	return w.since[e.of]
}

// machine returns the machine of a name; nil: there is none.
func (w *world) machine(name string) *plan.Machine {
	for i := range w.o.Machines {
		if w.o.Machines[i].Name == name {
			return &w.o.Machines[i]
		}
	}
	return nil
}

// member returns the member with an ID; nil: there is none.
func (w *world) member(id string) *plan.Member {
	for i := range w.o.Etcd.Members {
		if w.o.Etcd.Members[i].ID == id {
			return &w.o.Etcd.Members[i]
		}
	}
	return nil
}

// memberOf returns the member on a machine; nil: there is none.
func (w *world) memberOf(machine string) *plan.Member {
	for i := range w.o.Etcd.Members {
		if w.o.Etcd.Members[i].Machine == machine {
			return &w.o.Etcd.Members[i]
		}
	}
	return nil
}
