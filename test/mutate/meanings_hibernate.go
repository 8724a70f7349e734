package main

// ofHibernations is the word by which sabotages of hibernations are known: worlds that are switched off and on are to see them.
const ofHibernations = "hibernation"

// hibernationGuards are what both keys hold to in a hibernation.
var hibernationGuards = []guard{
	{says: "a hibernation lets machines go without a backup that was taken since it was asked for",
		rules: []change{{"prepareHibernation", `case (gate{s}).isAsked():`, `case false:`}},
		check: []change{{"checkHibernate", `b.Taken.Before(b.Required)`, `false`}}},
	{says: "a hibernation takes a backup for its own that was asked for before it",
		rules: []change{{"prepareHibernation", `!b.Required.After(p.Requested)`, `b.Required.IsZero()`}},
		check: []change{{"checkHibernate", `!b.Required.After(p.Requested)`, `false`}}},
	{says: "a hibernation does not wait for the workers",
		rules: []change{{"prepareHibernation", `case len(s.Workers) > 0:`, `case false:`}},
		check: []change{
			{"checkHibernate", `len(o.Workers) > 0`, `false`},
			{"needsToHibernate", `len(o.Workers)+len(p.Running) == 0`, `true`},
		}},
	{says: "a hibernation leaves a machine behind",
		rules: []change{{"goOn", `if !m.isReleased() {`, `if !m.Deleting && m.Name != s.machines[0].Name {`}},
		check: []change{{"checkWake", `!isReleased(m)`, `false`}}},
	{says: "a hibernation is forgotten although machines have gone",
		rules: []change{{"hibernate", `case p.Backup != "":`, `case p.Backup != "" && p.Hibernate:`}},
		check: []change{{"checkHibernation", `p.Hibernate || p.Backup != "" || p.Requested.IsZero()`, `p.Hibernate || p.Requested.IsZero()`}}},
	{says: "a group on its way into hibernation goes on as any other",
		rules: []change{{"prepareHibernation", `case len(s.Workers) > 0:`, `case len(s.Workers) > 0 && false:`},
			{"prepareHibernation", `case (gate{s}).isAsked():`, `case (gate{s}).isAsked(): return pass("it waits")`}},
		check: []change{
			{"checkNothingBegun", `if !o.Power.Hibernate {`, `if true {`},
			{"checkHibernate", `len(o.Workers) > 0`, `false`},
			{"needsToHibernate", `len(o.Workers)+len(p.Running) == 0`, `true`},
		}},
}
