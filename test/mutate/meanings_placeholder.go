package main

// freedFirst excuses a guard that other guards hold to as well.
const freedFirst = "the machine that a placeholder keeps out is waited for in any case, and a placeholder that keeps out none is " +
	"removed first"

// checkStops excuses a sabotage of the rules whose step Check refuses, for as long as an update takes.
const checkStops = "Check refuses to remove a leader, and nothing is lost in the worlds before the update has ended"

// placeholderGuards are what both keys hold to of placeholders: learners that nothing starts, and that keep out a machine which goes.
var placeholderGuards = []guard{
	{says: "a placeholder is removed while a machine that it keeps out may still join",
		rules: []change{{"freeLearnerSlot", `len(kept) > 0`, `false && len(kept) > 0`}},
		check: []change{{"checkFreed", `case 2*now > voters && 2*alive <= all:`, `case false:`},
			{"checkFreed", `case !o.Policy.EtcdOnly &&`, `case false && !o.Policy.EtcdOnly &&`}}},
	{says: "a placeholder counts as a learner that may vote",
		rules: []change{{"newState", `case m.Placeholder:`, `case false:`}},
		check: []change{{"checkLeave", `if e.Learner && !e.Placeholder {`, `if e.Learner {`}}},
	{says: "a placeholder keeps out a machine that joins as a voter",
		rules: []change{{"joinsAsLearner", `return s.Policy.Learners && !m.JoinsAsVoter`, `return true`}},
		check: []change{{"addsLearner", `return o.Policy.Learners && !m.JoinsAsVoter`, `return true`}}},
	{says: "machines are made while a placeholder keeps them out", rulesOnly: freedFirst, both: freedFirst,
		rules: []change{{"waitForDeletions", `len(s.placeholders) > 0`, `false && len(s.placeholders) > 0`}},
		check: []change{{"checkNoPlaceholder", `if e.Placeholder {`, `if false {`}}},
	{says: "a placeholder is added while a voter is not healthy",
		rules: []change{{"cannotShutOut", `case s.ailing() != "":`, `case false:`}},
		check: []change{{"checkAddPlaceholder", `alive < all`, `false && alive < all`}}},
	{says: "one placeholder keeps machines out, however many learners etcd takes", rulesOnly: drawsNone, both: drawsNone,
		rules: []change{{"maxLearners", `return max(1, s.Etcd.MaxLearners)`, `return 1`}},
		check: []change{{"getsIn", `slots := o.Etcd.MaxLearners`, `slots := min(1, o.Etcd.MaxLearners)`}}},
	{says: "the spec makes the time to join shorter than a join takes", rulesOnly: drawsNone, both: drawsNone,
		rules: []change{{"MemberAddTime", `return max(p.MemberAdd, joinTimeout)`, `return p.MemberAdd`}},
		check: []change{{"addLimit", `return max(o.Policy.MemberAdd, 10*time.Minute)`, `return o.Policy.MemberAdd`}}},
	{says: "a lost leader does not hand over to a voter whose machine is updated", rulesOnly: checkStops,
		rules: []change{{"successor", `return s.newestVoter(m, true)`, `return nil`}},
		check: []change{{"checkMoveLeader", `mayStop(o, on) && !leaderGoes(o)`, `mayStop(o, on)`}}},
}

// placeholdersAlone are the same of what the rules alone hold to.
var placeholdersAlone = []meaning{
	{says: "a placeholder that keeps out nobody stays",
		edits: []change{{"freeLearnerSlot", `len(s.placeholders) == 0`, `true || len(s.placeholders) == 0`}}},
	{says: "a placeholder is taken for a stray",
		edits: []change{{"stuckAt", `case m.Since.IsZero(), m.Placeholder:`, `case m.Since.IsZero():`}}},
	{says: "a placeholder takes the slot of a machine that is about to join", excuse: "a machine that is kept out is replaced, and no judge " +
		"asks how long that takes",
		edits: []change{{"cannotShutOut", `case s.letIn() != nil && m.Hook:`, `case false && s.letIn() != nil && m.Hook:`}}},
	{says: "a placeholder that somebody removed is not added again", excuse: drawsNone,
		edits: []change{{"finishRemovals", `cmp.Or(late, s.loose())`, `late`}}},
	{says: "a machine that goes is kept out before those that are dead have left", excuse: "the dead leave after it, and no judge asks in " +
		"which order", edits: []change{{"finishRemovals", `late = cmp.Or(late, m)`, `return s.keepOut(m, passedOver)`}}},
}
