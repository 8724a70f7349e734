package main

// limitGuards are what both keys hold to where only so many machines are replaced, or changed in place, in a day.
var limitGuards = []guard{
	{says: "another machine comes for one that is outdated, and as many as may be in a day were replaced",
		rules: []change{
			{"holdsRollout", `case s.heldByLimit(old):`, `case false && s.heldByLimit(old):`},
			{"rollOut", `s.leastNeeded(s.allowed(old))`, `s.leastNeeded(old)`},
		},
		check: []change{
			{"checkNumber", `return checkLimit(o, "", "one more than wanted would come, to replace another")`, `return nil`},
			{"checkCounted", `case staying < o.Want.Replicas && err != nil:`, `case false && staying < o.Want.Replicas && err != nil:`},
			{"checkCounted", `case staying < o.Want.Replicas, staying`, `case staying`},
		}},
	{says: "a machine that may have served goes as one that never came up, and as many as may be in a day were replaced",
		rules: []change{
			{"heldRollout", `case s.overLimit(m.Name):`, `case false && s.overLimit(m.Name):`},
			{"discard", `return s.asReplacement(v)`, `return v`},
		},
		check: []change{{"checkCounted", `!hasCome(o, gone)`, `!isWhole(o, gone)`}}},
	{says: "a machine is changed in place, and as many as may be in a day were",
		rules: []change{
			{"updateInPlace", `case len(s.allowed(todo)) == 0:`, `case false && len(s.allowed(todo)) == 0:`},
			{"updateInPlace", `slices.MinFunc(s.allowed(todo),`, `slices.MinFunc(todo,`},
		},
		check: []change{{"checkUpdate", `if err := checkUpdateCounted(o, s); err != nil {`, `if err := checkUpdateCounted(o, s); err != nil ` +
			`&& false {`}}},
	{says: "etcd is lowered, and as many machines as may be in a day were replaced",
		rules: []change{{"holdsLowering", `case s.heldByLimit(s.outdated()):`, `case false && s.heldByLimit(s.outdated()):`}},
		check: []change{{"checkLacking", `return checkLimitLeft(o, what)`, `return nil`}}},
	{says: "a machine that is replaced, or changed in place, is not counted",
		rules: []change{{"asReplacement", `s.Policy.MaxReplacements > 0 && s.Group`, `false && s.Group`}},
		check: []change{
			{"checkCounted", `case staying < o.Want.Replicas, staying == o.Want.Replicas && readable:`, `case false:`},
			{"checkUpdateCounted", `o.Policy.MaxReplacements > 0 && !s.Counts`, `false && !s.Counts`},
		}},
	{says: "a machine more than wanted comes beside more that have left than there may be",
		rules: []change{
			{"lingers", `s.Policy.Overlap && s.Policy.Surge > 0`, `s.Policy.Surge > 0`},
			{"holdsNobodyUp", `len(going) == 1 && (`, `len(going) > 0 && (`},
		},
		check: []change{
			{"checkLingering", `if o.Policy.Overlap {`, `if true || o.Policy.Overlap {`},
			{"checkLingering", `if lingering > most {`, `if lingering > most+1 {`},
		}},
	{says: "what is noted of replacements counts as nothing where it cannot be read",
		rules: []change{{"overLimit", `s.Group.ReplacementsUnreadable != "" || len`, `len`}},
		check: []change{{"checkLimit", `if o.Group.ReplacementsUnreadable != "" {`, `if false && o.Group.ReplacementsUnreadable != "" {`}}},
	{says: "a replacement counts for less than a day",
		rules: []change{{"counted", `r.At.Add(ReplacementPeriod)`, `r.At.Add(ReplacementPeriod - time.Hour)`}},
		check: []change{{"replacedLately", `< 24*time.Hour`, `< 23*time.Hour`}}},
	{says: "one more may be replaced in a day than the user allows",
		rules: []change{{"overLimit", `len(s.counted(machine)) >= s.Policy.MaxReplacements`,
			`len(s.counted(machine)) > s.Policy.MaxReplacements`}},
		check: []change{{"checkLimit", `n >= most`, `n > most`}}},
}

// limitAlone are sabotages of what only the rules hold to.
var limitAlone = []meaning{
	{says: "nobody looks again when another machine may be replaced",
		edits: []change{{"again", `consider(s.nextReplacement())`, `consider(time.Time{})`}}},
	{says: "nobody says that a rollout waits until another machine may be replaced",
		edits: []change{{"waitForLimit", `len(todo) == 0 || !s.isLimited()`, `true || len(todo) == 0 || !s.isLimited()`}}},
}
