// Package facts compares what was observed of control planes on real machines with what the worlds of internal/core/sim produce: which
// patterns of facts machines showed and no world did. It replays what was observed through the rules and Check. It is pure but for reading
// a file.
package facts

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/check"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/sim"
)

// Patterns returns what is so of a control plane, without names, times, numbers and versions: a pattern for the group, and one for each
// machine.
func Patterns(o plan.Observed) []string {
	all := []string{group(o)}
	for _, m := range o.Machines {
		all = append(all, machine(o, m))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// words joins those that are so.
func words(first string, is map[string]bool, others ...string) string {
	var all []string
	for word, so := range is {
		if so {
			all = append(all, word)
		}
	}
	slices.Sort(all)
	return first + " " + strings.Join(append(slices.DeleteFunc(others, func(s string) bool { return s == "" }), all...), " ")
}

// group is what is so of all together.
func group(o plan.Observed) string {
	voters, healthy := 0, 0
	strays := map[string]bool{}
	alarm := false
	for _, m := range o.Etcd.Members {
		alarm = alarm || len(m.Alarms) > 0
		if !m.Learner {
			voters++
			if m.Health == plan.Healthy {
				healthy++
			}
		}
		if m.Machine == "" && !m.Placeholder {
			strays["stray-learner"] = strays["stray-learner"] || m.Learner
			strays["stray-voter"] = strays["stray-voter"] || !m.Learner
		}
	}
	staying := 0
	for _, m := range o.Machines {
		if !m.Deleting {
			staying++
		}
	}
	is := map[string]bool{
		"deleting": o.Group.Deleting, "paused": o.Group.Paused, "initialized": o.Group.Initialized, "new": o.Group.New,
		"repairing": o.Group.Repairing, "partial-create": o.Group.PartialCreate != "", "refused": o.Want.Refused.Reason != "",
		"provisioned": o.Cluster.Infrastructure, "reachable": o.Cluster.Reachable, "failing": !o.Cluster.FailingSince.IsZero(),
		"silent": !o.Cluster.SilentSince.IsZero(), "chores": len(o.Cluster.Chores) > 0, "known": o.Etcd.Known, "agreed": o.Etcd.Agreed,
		"alarm": alarm, "downgrade": o.Etcd.Downgrade != "", "stray-alarm": len(o.Etcd.StrayAlarms) > 0, "names": len(o.Cluster.Names) > 0,
		"workers": len(o.Workers) > 0, "uncontrolled": len(o.Uncontrolled) > 0,
	}
	maps.Copy(is, strays)
	return words("group", is, "etcd="+string(o.Etcd.Owner), "in-place="+string(o.Policy.InPlace), quorum(voters, healthy), wanted(staying, o))
}

// quorum says how far a quorum is from being lost.
func quorum(voters, healthy int) string {
	switch need := voters/2 + 1; {
	case voters == 0:
		return "voters=none"
	case healthy < need:
		return "quorum=lost"
	case healthy == need && voters > 1:
		return "quorum=edge"
	case healthy < voters:
		return "quorum=less"
	}
	return "quorum=all"
}

// wanted compares the machines that stay with what is wanted.
func wanted(staying int, o plan.Observed) string {
	switch {
	case staying < o.Want.Replicas:
		return "machines=fewer"
	case staying > o.Want.Replicas:
		return "machines=more"
	}
	return "machines=wanted"
}

// machine is what is so of one machine and its member.
func machine(o plan.Observed, m plan.Machine) string {
	is := map[string]bool{
		"up": m.Host != "", "ready": m.Ready, "failed": m.Failed != "", "cannot-join": m.CannotJoin != "", "gone": m.Gone, "off": m.Off,
		"held": m.Held, "outdated": m.Outdated != "", "needs-replacement": m.NeedsReplacement != "", "unanswered": m.Unanswered != "",
		"updating": m.Updating != "", "gate": m.Gate != "", "marked": m.Marked != "", "by-person": m.MarkedByPerson, "deleting": m.Deleting,
		"hook": m.Hook, "hook-due": m.HookDue, "replaces": !m.Replaced.IsZero(),
	}
	member := "member=none"
	for _, e := range o.Etcd.Members {
		if e.Machine != m.Name {
			continue
		}
		role := "voter"
		if e.Learner {
			role = "learner"
		}
		member = "member=" + role + "/" + health(e.Health)
		is["leads"], is["in-sync"], is["unnamed"] = e.Leader, e.InSync && e.Learner, e.Name == ""
	}
	update := ""
	if m.Update.State != "" {
		update = "update=" + string(m.Update.State)
	}
	return words("machine", is, components(m), member, update)
}

func health(h plan.Health) string {
	if h == plan.Unknown {
		return "Unknown"
	}
	return string(h)
}

// components is the worst health of a machine's static pods.
func components(m plan.Machine) string {
	worst := "none"
	for _, c := range m.Components {
		switch {
		case c.Health == plan.Unhealthy || worst == string(plan.Unhealthy):
			worst = string(plan.Unhealthy)
		case c.Health == plan.Unknown || worst == "Unknown":
			worst = "Unknown"
		default:
			worst = string(plan.Healthy)
		}
	}
	return "components=" + worst
}

// Seen counts patterns.
type Seen map[string]int

// Add counts the patterns of what was observed.
func (s Seen) Add(o plan.Observed) {
	for _, p := range Patterns(o) {
		s[p]++
	}
}

// Without returns the patterns that others do not have, sorted.
func (s Seen) Without(others Seen) []string {
	var all []string
	for p := range s {
		if others[p] == 0 {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// Worlds lets so many worlds of each kind live, from a seed on, and returns the patterns that they showed.
func Worlds(from int64, each int) (Seen, error) {
	seen := Seen{}
	for _, setup := range []func(int64) sim.Setup{sim.Random, sim.Uncommon, sim.Hanging, sim.Restored} {
		for seed := from; seed < from+int64(each); seed++ {
			if err := sim.LiveSeen(setup(seed), seen.Add); err != nil {
				return seen, fmt.Errorf("the world of seed %d: %w", seed, err)
			}
		}
	}
	return seen, nil
}

// Replay decides again about what was observed. An error says which decision Check refuses.
func Replay(o plan.Observed) error {
	d := plan.Next(o)
	if err := check.Decision(o, d); err != nil {
		return fmt.Errorf("deciding %s at %s: %w", d, o.Now, err)
	}
	return nil
}

// Read returns what was observed, one JSON object a line. A last line that was cut off is left out.
func Read(in io.Reader) ([]plan.Observed, error) {
	var all []plan.Observed
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<20), 16<<20)
	var broken error
	for lines.Scan() {
		if broken != nil {
			return nil, broken
		}
		var o plan.Observed
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			broken = fmt.Errorf("reading what was observed, entry %d: %w", len(all)+1, err)
			continue
		}
		all = append(all, o)
	}
	return all, lines.Err()
}
