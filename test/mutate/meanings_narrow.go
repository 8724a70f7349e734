package main

// drawsNone excuses what neither the worlds nor the model draw, so that rows alone can see it.
const drawsNone = "neither the worlds nor the model draw it"

// narrowGuards are guards that are forgotten for a single machine only, for external etcd only, or for times ahead of the manager's clock.
var narrowGuards = []guard{
	{says: "a person's hold on updates holds no single machine",
		rules: []change{{"updateInPlace", `case s.Group.UpdatesPaused:`, `case s.Group.UpdatesPaused && len(s.machines) > 1:`}},
		check: []change{{"checkChangeable", `case o.Group.UpdatesPaused:`, `case o.Group.UpdatesPaused && len(o.Machines) > 1:`}}},
	{says: "a person's hold on updates holds no group with external etcd",
		rules: []change{{"updateInPlace", `case s.Group.UpdatesPaused:`, `case s.Group.UpdatesPaused && s.Etcd.Ours():`}},
		check: []change{{"checkChangeable", `case o.Group.UpdatesPaused:`, `case o.Group.UpdatesPaused && ours(o.Etcd):`}}},
	{says: "a single machine is changed in place, and nobody has approved that",
		rules: []change{{"updateInPlace", `case s.isUnapproved():`, `case s.isUnapproved() && len(s.machines) > 1:`}},
		check: []change{{"checkUpdate", `err := checkApproved(o, m.Name+" would be changed in place"); err != nil`,
			`err := checkApproved(o, m.Name+" would be changed in place"); err != nil && len(o.Machines) > 1`}}},
	{says: "a machine beside external etcd that may have served counts as one that never came up",
		rules: []change{{"mayHaveServed", `return m.isUp()`, `return false`}},
		check: []change{{"hasCome", `return isUp(m)`, `return false`}}},
	{says: "a replacement that is noted ahead of the manager's clock does not count",
		rules: []change{{"counted", `s.Now.Before(r.At.Add(ReplacementPeriod))`,
			`!r.At.After(s.Now.Add(time.Second)) && s.Now.Before(r.At.Add(ReplacementPeriod))`}},
		check: []change{{"replacedLately", `o.Now.Sub(r.At) < 24*time.Hour`,
			`o.Now.Sub(r.At) > -2*time.Second && o.Now.Sub(r.At) < 24*time.Hour`}}},
}

// narrowAlone are the same of what the rules alone hold to.
var narrowAlone = []meaning{
	{says: "as many join as there are, where etcd is external",
		edits: []change{{"mayJoin", `case most > 0 && len(on) >= most:`, `case most > 0 && len(on) >= most && s.Etcd.Ours():`}}},
	{says: "more machines join at once than the user allows",
		edits: []change{{"coming", `return on, s.Policy.MaxParallel`, `return on, 0`}}},
	{says: "a group with external etcd shrinks beside a machine of which nothing is known", excuse: drawsNone,
		edits: []change{{"scaleDown", `len(unsure) > 0 {`, `len(unsure) > 0 && s.Etcd.Ours() {`}}},
	{says: "nobody is told that the update of a machine failed which must be replaced beside others", excuse: drawsNone,
		edits: []change{{"waitForRepair", `len(failed) > 0 {`, `len(failed) > 0 && len(s.outdated()) == 0 {`}}},
}
