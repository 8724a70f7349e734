package etcd

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/core/plan"
)

// ballot is one list of members, and who gave it.
type ballot struct {
	cluster uint64
	list    []*pb.Member
	// by are those voters of the list who gave it; following are those of them who follow a leader.
	by, following []answer
}

// conclude makes one survey of what each target answered. It is a pure function.
func conclude(answers []answer) Survey {
	ballots := count(answers)
	if len(ballots) == 0 {
		return Survey{Why: sentence(append([]string{"no member returned its list of members"}, silent(answers)...))}
	}
	chosen := ballots[0]
	wrong := contradictions(chosen, ballots, answers)
	s := Survey{Known: true, Agreed: len(wrong) == 0, Members: members(chosen, answers), Downgrade: downgrade(chosen, answers)}
	for _, m := range s.Members {
		if len(m.Alarms) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s raised the alarm %s", m.title(), strings.Join(m.Alarms, " and ")))
		}
		if m.Health != plan.Healthy {
			wrong = append(wrong, fmt.Sprintf("%s: %s", m.title(), m.Why))
		}
	}
	s.StrayAlarms = strayAlarms(chosen, answers)
	s.Why = sentence(append(wrong, s.StrayAlarms...))
	return s
}

// strayAlarms tells of active alarms of members that are not in the list: all members refuse writes for them, too.
func strayAlarms(chosen *ballot, answers []answer) []string {
	var stray []string
	alarms, _ := reported(chosen.cluster, answers)
	for _, id := range slices.Sorted(maps.Keys(alarms)) {
		if !contains(chosen.list, id) {
			stray = append(stray, fmt.Sprintf("the alarm %s of member %s, which is gone, is still active", strings.Join(alarms[id], " and "),
				FormatID(id)))
		}
	}
	return stray
}

// count puts equal lists together. The first is the one to believe: the one that most voters who
// follow a leader gave; then that of most voters; then the newest.
func count(answers []answer) []*ballot {
	byText := map[string]*ballot{}
	for _, a := range answers {
		if a.list == nil || !votes(a.list, a.id()) {
			continue
		}
		text := fingerprint(a.cluster(), a.list)
		b := byText[text]
		if b == nil {
			b = &ballot{cluster: a.cluster(), list: a.list}
			byText[text] = b
		}
		b.by = append(b.by, a)
		if a.follows() {
			b.following = append(b.following, a)
		}
	}
	texts := slices.Sorted(maps.Keys(byText))
	slices.SortStableFunc(texts, func(x, y string) int { return byText[y].compare(byText[x]) })
	ballots := make([]*ballot, 0, len(texts))
	for _, text := range texts {
		ballots = append(ballots, byText[text])
	}
	return ballots
}

func (b *ballot) compare(other *ballot) int {
	return cmp.Or(
		cmp.Compare(len(b.following), len(other.following)),
		cmp.Compare(len(b.by), len(other.by)),
		cmp.Compare(b.newest().RaftTerm, other.newest().RaftTerm),
		cmp.Compare(b.newest().RaftAppliedIndex, other.newest().RaftAppliedIndex),
	)
}

// newest is the status of the one that saw most of the log.
func (b *ballot) newest() *pb.StatusResponse {
	return slices.MaxFunc(b.by, func(x, y answer) int {
		return cmp.Or(cmp.Compare(x.status.RaftTerm, y.status.RaftTerm),
			cmp.Compare(x.status.RaftAppliedIndex, y.status.RaftAppliedIndex))
	}).status
}

// leader is the one that the giver of the list with the newest term follows; 0: none.
func (b *ballot) leader() uint64 {
	var leader, term uint64
	for _, a := range b.following {
		if a.status.RaftTerm >= term {
			leader, term = a.status.Leader, a.status.RaftTerm
		}
	}
	return leader
}

// contradictions are the reasons why the chosen list is not agreed.
func contradictions(chosen *ballot, ballots []*ballot, answers []answer) []string {
	wrong := foreign(chosen, answers)
	for _, b := range ballots[1:] {
		for _, a := range b.following {
			// One that is not on the list was just removed and is about to stop.
			if b.cluster == chosen.cluster && contains(chosen.list, a.id()) {
				wrong = append(wrong, fmt.Sprintf("%s has another list of members than %s", a.target.Name, chosen.following[0].target.Name))
			}
		}
	}
	voters := voterCount(chosen.list)
	if need := voters/2 + 1; len(chosen.following) < need {
		wrong = append(wrong, fmt.Sprintf("only %d of %d voters gave this list of members and follow a leader, %d must", len(chosen.following),
			voters, need))
	}
	return wrong
}

// foreign are the reasons why members that answered belong to another etcd cluster than that of the chosen list.
func foreign(chosen *ballot, answers []answer) []string {
	var wrong []string
	for _, a := range answers {
		if a.status != nil && a.cluster() != chosen.cluster {
			wrong = append(wrong, fmt.Sprintf("%s belongs to another etcd cluster, %s and not %s",
				a.target.Name, FormatID(a.cluster()), FormatID(chosen.cluster)))
		}
	}
	return wrong
}

// voterCount is how many members of a list vote.
func voterCount(list []*pb.Member) int {
	voters := 0
	for _, m := range list {
		if !m.IsLearner {
			voters++
		}
	}
	return voters
}

// members are those of the list, with what each answered for itself.
func members(chosen *ballot, answers []answer) []Member {
	leader := chosen.leader()
	alarms, others := reported(chosen.cluster, answers)
	out := make([]Member, 0, len(chosen.list))
	for _, listed := range chosen.list {
		m := Member{
			ID: listed.ID, Name: listed.Name, Learner: listed.IsLearner, Leader: listed.ID == leader,
			PeerURLs: slices.Sorted(slices.Values(listed.PeerURLs)), Alarms: alarms[listed.ID],
		}
		own := slices.IndexFunc(answers, func(a answer) bool {
			return a.status != nil && a.cluster() == chosen.cluster && a.id() == m.ID
		})
		if own >= 0 {
			// Its certificate proves the name, and it may not have told the others yet.
			m.Name = cmp.Or(m.Name, answers[own].target.Name)
			m.At, m.Version, m.Storage = answers[own].target.Name, answers[own].status.Version, answers[own].status.StorageVersion
			m.Size, m.Quota = answers[own].status.DbSize, answers[own].status.DbSizeQuota
			m.InUse = max(0, answers[own].status.DbSizeInUse)
			m.Term, m.Applied = answers[own].status.RaftTerm, answers[own].status.RaftAppliedIndex
			m.Revision = answers[own].status.GetHeader().GetRevision()
			m.Health, m.Why = health(m, answers[own], others[m.ID])
			m.InSync = m.Learner && 10*answers[own].status.RaftAppliedIndex >= 9*chosen.newest().RaftAppliedIndex
		} else {
			m.Health, m.Why = absence(m, answers)
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(x, y Member) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

// health judges a member by its own answer; errors are those it reported of itself that are no alarms.
func health(m Member, own answer, errors []string) (plan.Health, string) {
	switch {
	case !own.follows():
		return plan.Unhealthy, "follows no leader"
	case slices.Contains(m.Alarms, pb.AlarmType_CORRUPT.String()):
		return plan.Unhealthy, "its data is corrupt"
	case len(errors) > 0:
		return plan.Unhealthy, strings.Join(errors, "; ")
	default:
		return plan.Healthy, ""
	}
}

// absence judges a member that did not answer.
func absence(m Member, answers []answer) (plan.Health, string) {
	if m.Name == "" {
		return plan.Unknown, "has never started"
	}
	at := slices.IndexFunc(answers, func(a answer) bool { return a.target.Name == m.Name && a.target.Dial != nil })
	if at < 0 {
		return plan.Unknown, "there is no way to ask it"
	}
	switch a := answers[at]; {
	case a.err == nil:
		// Somebody of that name answers, with the data of another member.
		return plan.Unhealthy, "in its place answers member " + FormatID(a.id())
	case unreached(a.err), refusal(a.err) != "":
		// One that refuses lives: who is not believed by it cannot call it dead.
		return plan.Unknown, noAnswer(a.err)
	default:
		return plan.Unhealthy, noAnswer(a.err)
	}
}

// alarmText is how Status writes an alarm, which is the text form of etcd's message AlarmMember.
var alarmText = regexp.MustCompile(`^\s*memberID:(\d+)\s+alarm:(\w+)\s*$`)

// reported sorts the errors in all answers: alarms by the member that raised them, others by the member that reports them.
func reported(cluster uint64, answers []answer) (alarms, others map[uint64][]string) {
	alarms, others = map[uint64][]string{}, map[uint64][]string{}
	for _, a := range answers {
		if a.status == nil || a.cluster() != cluster {
			continue
		}
		for _, text := range a.status.Errors {
			if part := alarmText.FindStringSubmatch(text); part != nil {
				// The digits come from etcd's own uint64: a number that does not fit becomes the largest, which no member has.
				raiser, _ := strconv.ParseUint(part[1], 10, 64)
				alarms[raiser] = append(alarms[raiser], part[2])
			} else {
				others[a.id()] = append(others[a.id()], text)
			}
		}
	}
	for id := range alarms {
		slices.Sort(alarms[id])
		alarms[id] = slices.Compact(alarms[id])
	}
	return alarms, others
}

// silent says of every target why it told nothing.
func silent(answers []answer) []string {
	var out []string
	for _, a := range answers {
		switch {
		case a.target.Dial == nil:
			out = append(out, a.target.Name+": there is no way to ask it")
		case a.err != nil && unreached(a.err):
			out = append(out, a.target.Name+": "+noAnswer(a.err))
		case a.err != nil:
			out = append(out, a.target.Name+" "+noAnswer(a.err))
		}
	}
	return out
}

// noAnswer says why a member did not answer.
func noAnswer(err error) string {
	if unreached(err) {
		return "there was no way to ask it: " + plain(err)
	}
	return "does not answer: " + plain(err)
}

// fingerprint is equal for equal lists of one cluster.
func fingerprint(cluster uint64, list []*pb.Member) string {
	lines := make([]string, 0, len(list))
	for _, m := range list {
		lines = append(lines, fmt.Sprintf("%x %t %q", m.ID, m.IsLearner, slices.Sorted(slices.Values(m.PeerURLs))))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%x\n%s", cluster, strings.Join(lines, "\n"))
}

func contains(list []*pb.Member, id uint64) bool {
	return slices.ContainsFunc(list, func(m *pb.Member) bool { return m.ID == id })
}

func votes(list []*pb.Member, id uint64) bool {
	return slices.ContainsFunc(list, func(m *pb.Member) bool { return m.ID == id && !m.IsLearner })
}

// title is what a person calls the member.
func (m Member) title() string { return cmp.Or(m.Name, "member "+FormatID(m.ID)) }

func sentence(parts []string) string { return strings.Join(parts, "; ") }
