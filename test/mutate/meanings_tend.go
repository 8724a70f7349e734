package main

// tendGuards are what both keys hold to where members are defragmented at rest.
var tendGuards = []guard{
	{says: "the leader is defragmented while another could lead",
		rules: []change{{"giveBack", `s.handOver(m, reason, why); v.decided {`, `s.handOver(m, reason, why); false && v.decided {`}},
		check: []change{{"checkDefragmentAtRest", `if m.Leader && voters > 1 {`, `if false && m.Leader && voters > 1 {`}}},
	{says: "a member is defragmented outside of the windows, and no person asked for it",
		rules: []change{{"unspared", `case s.Group.Window.isClosed():`, `case false && s.Group.Window.isClosed():`}},
		check: []change{{"checkDefragmentAtRest", `return checkOpen(o, "member "+m.ID+" is to be defragmented")`, `return nil`}}},
	{says: "a member is defragmented of which none can be spared, and no person asked for it",
		rules: []change{{"unspared", `case quorum.Spare(s.lasting) < 1:`, `case false && quorum.Spare(s.lasting) < 1:`}},
		check: []change{{"checkDefragmentAtRest", `case voters == 2 || `, `case `}}},
	{says: "the only member is defragmented, and neither the spec nor a person asked for it",
		rules: []change{{"unspared", `case len(s.voters) == 1:`, `case false && len(s.voters) == 1:`},
			{"unspared", `case quorum.Spare(s.lasting) < 1:`, `case len(s.voters) > 1 && quorum.Spare(s.lasting) < 1:`}},
		check: []change{{"checkDefragmentAtRest", `voters == 1 && !limits.Single:`, `false && voters == 1 && !limits.Single:`}}},
	{says: "a member is defragmented while another does not answer",
		rules: []change{{"notNow", `return s.restless()`, `return ""`}},
		check: []change{{"checkAllWell", `m.Learner || m.Health != plan.Healthy ||`, `m.Learner ||`}}},
	{says: "a member is defragmented that needs most of what its data take",
		rules: []change{{"isLoose", `m.Size-m.InUse >= m.Size/100*int64(limits.FreePercent) &&`, `m.Size >= m.InUse &&`}},
		check: []change{{"checkDefragmentAtRest", `|| m.Size-m.InUse < m.Size/100*int64(limits.FreePercent):`, `|| m.Size < m.InUse:`}}},
}
