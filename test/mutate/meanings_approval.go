package main

// approvalGuards are what both keys hold to where a person must approve a change.
var approvalGuards = []guard{
	{says: "another machine comes for one that is outdated, and nobody has approved that",
		rules: []change{{"holdsRollout", `case s.isUnapproved():`, `case false && s.isUnapproved():`}},
		check: []change{
			{"checkNumber", `case staying+1 > o.Want.Replicas:`, `case false && staying+1 > o.Want.Replicas:`},
			{"checkStays", `if staying >= o.Want.Replicas ||`, `if true || staying >= o.Want.Replicas ||`},
		}},
	{says: "a machine that may have served goes as one that never came up, and nobody has approved that",
		rules: []change{{"heldRollout", `case s.isUnapproved():`, `case false && s.isUnapproved():`}},
		check: []change{{"checkStays", `!hasCome(o, gone)`, `!isWhole(o, gone)`}}},
	{says: "a machine of which a voter or a Node is known counts as one that never came up",
		rules: []change{{"mayHaveServed", `case s.isNew():`, `case true || s.isNew():`}},
		check: []change{
			{"checkStays", `!hasCome(o, gone)`, `!isWhole(o, gone)`},
			{"checkCounted", `!hasCome(o, gone)`, `!isWhole(o, gone)`},
		}},
	{says: "a machine is changed in place, and nobody has approved that",
		rules: []change{{"updateInPlace", `case s.isUnapproved():`, `case false && s.isUnapproved():`}},
		check: []change{{"checkUpdate", `if err := checkApproved(o, m.Name+" would be changed in place"); err != nil {`,
			`if err := checkApproved(o, m.Name+" would be changed in place"); err != nil && false {`}}},
	{says: "etcd is lowered, and nobody has approved that",
		rules: []change{{"holdsLowering", `case s.isUnapproved():`, `case false && s.isUnapproved():`}},
		check: []change{{"checkEnableDowngrade", `if err := checkLacking(o, "etcd would be lowered"); err != nil {`,
			`if err := checkLacking(o, "etcd would be lowered"); err != nil && false {`}},
	},
}
