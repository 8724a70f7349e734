package etcd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// hashPatience is how long a member may take for its hash. It reads all its data for it, some hundred megabytes a second.
const hashPatience = 2 * time.Minute

// Comparison is what came of a comparison of the voters' data.
type Comparison struct {
	// Revision is the one at which the data were compared; 0: they were not.
	Revision int64
	// Differ are the members, sorted by ID, whose data are others than those of a majority: all of them where no majority has the same.
	Differ []Member
	// Voters is how many were compared.
	Voters int
	// Why says why the data were not compared; empty: they were.
	Why string
}

// voter is a voter and how it is asked; hashed is its hash.
type voter struct {
	Member
	to Target
}

type hashed struct {
	voter
	Hash
}

// comparing are the voters of an etcd that are compared, the leader last.
type comparing struct {
	of     *Cluster
	voters []voter
}

// Compare compares the data of all voters that a survey found, by the hash of all keys at the same revision and since the same compaction,
// as etcd's own check does (--corrupt-check-time). One voter after the other computes it, the leader last: a member may answer writes later
// meanwhile. A difference is compared once more. Nothing is changed, and no quorum is needed.
func (c *Cluster) Compare(ctx context.Context, targets []Target, over Survey) Comparison {
	voters, why := votersToCompare(targets, over)
	if why != "" {
		return Comparison{Why: why}
	}
	of := comparing{c, voters}
	first := of.twice(ctx)
	if len(first.Differ) == 0 {
		return first
	}
	again := of.twice(ctx)
	if again.Why == "" && !slices.EqualFunc(first.Differ, again.Differ, func(x, y Member) bool { return x.ID == y.ID }) {
		return Comparison{Why: "two comparisons, one after the other, do not agree"}
	}
	return again
}

// votersToCompare are the voters of a survey, the leader last, or why their data cannot be compared.
func votersToCompare(targets []Target, over Survey) (voters []voter, why string) {
	for _, m := range over.Members {
		at := slices.IndexFunc(targets, func(t Target) bool { return t.Name == m.At && t.Dial != nil })
		switch {
		case m.Learner:
			continue
		case at < 0 || m.Health != plan.Healthy:
			return nil, fmt.Sprintf("member %s is not healthy: %s", title(m), cmp.Or(m.Why, "it cannot be asked"))
		case len(voters) > 0 && m.Version != voters[0].Version:
			// What is hashed differs between versions, also between patch versions.
			return nil, fmt.Sprintf("members are of different versions: %s and %s", voters[0].Version, m.Version)
		}
		voters = append(voters, voter{m, targets[at]})
	}
	if len(voters) < 2 {
		return nil, "there are fewer than two voters"
	}
	slices.SortStableFunc(voters, func(x, y voter) int { return afterOthers(x) - afterOthers(y) })
	return voters, ""
}

// afterOthers orders the leader after the others.
func afterOthers(v voter) int {
	if v.Leader {
		return 1
	}
	return 0
}

// title names a member for people.
func title(m Member) string {
	if m.Name == "" {
		return FormatID(m.ID)
	}
	return FormatID(m.ID) + " (" + m.Name + ")"
}

// twice compares the data of voters, and once more where that failed because etcd was written to.
//
// A member answers for a revision to which it was compacted with the hash of that time. The newest revision of an etcd to which nothing is
// written may be such a one. So where all have the same newest revision each is asked for its newest, whatever it is.
func (c comparing) twice(ctx context.Context) Comparison {
	lowest, highest, err := c.revisions(ctx)
	if err != nil {
		return Comparison{Why: err.Error()}
	}
	if lowest == highest {
		if found := c.at(ctx, 0); found.Why != wasWritten {
			return found
		}
	}
	return c.at(ctx, lowest)
}

// wasWritten is why hashes of two members are of different revisions.
const wasWritten = "etcd was written to or compacted meanwhile"

// at compares the data of voters at a revision; 0: the newest of each.
func (c comparing) at(ctx context.Context, revision int64) Comparison {
	all := make([]hashed, 0, len(c.voters))
	for _, v := range c.voters {
		h, err := c.hash(ctx, v.to, revision)
		if err != nil {
			return Comparison{Why: err.Error()}
		}
		if len(all) > 0 && (h.Revision != all[0].Revision || h.CompactRevision != all[0].CompactRevision) {
			return Comparison{Why: wasWritten}
		}
		all = append(all, hashed{v, h})
	}
	return Comparison{Revision: all[0].Revision, Differ: differing(all), Voters: len(all)}
}

// revisions are the lowest and the highest of the voters' newest revisions.
func (c comparing) revisions(ctx context.Context) (lowest, highest int64, err error) {
	for i, v := range c.voters {
		p, err := c.of.Position(ctx, v.to)
		if err != nil {
			return 0, 0, err
		}
		if p.Member != v.ID {
			return 0, 0, fmt.Errorf("in the place of member %s answers member %s", title(v.Member), FormatID(p.Member))
		}
		if i == 0 {
			lowest = p.Revision
		}
		lowest, highest = min(lowest, p.Revision), max(highest, p.Revision)
	}
	return lowest, highest, nil
}

// hash asks one voter for its hash, and waits for it longer than for other answers.
func (c comparing) hash(ctx context.Context, t Target, at int64) (Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, hashPatience)
	defer cancel()
	return c.of.Hash(ctx, t, at)
}

// differing are the voters whose hash is not the one of a majority, sorted by ID: all of them where there is none.
func differing(all []hashed) []Member {
	count := map[uint32]int{}
	for _, v := range all {
		count[v.Value]++
	}
	var found []Member
	for _, v := range all {
		if 2*count[v.Value] <= len(all) {
			found = append(found, v.Member)
		}
	}
	slices.SortFunc(found, func(x, y Member) int { return cmp.Compare(x.ID, y.ID) })
	return found
}
