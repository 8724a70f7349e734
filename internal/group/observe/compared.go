package observe

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

const (
	// CompareEvery is how often the data of etcd's voters are compared, where all is as wanted.
	CompareEvery = 6 * time.Hour
	// compareSoon is how long after a difference they are compared again. Within that time a process that has started compares them for the
	// first time: each group at another moment.
	compareSoon = 30 * time.Minute
	// compareRetry is how long after a comparison that failed they are compared again: members that come and go end it.
	compareRetry = 5 * time.Minute
	// compareLimit is how long a comparison may take.
	compareLimit = 15 * time.Minute
)

// Compared is what is kept of comparisons of the voters' data. Turns of one group never overlap, so it needs no lock. The zero value: none
// was made.
type Compared struct {
	// Last is the newest comparison that did not fail, and At when the newest one ended; zero: there is none.
	Last etcd.Comparison
	At   time.Time
	// Failed says why the newest comparison failed; empty: it did not.
	Failed string
	// of are the voters and the versions that were compared, or were there when this process first found all as wanted.
	of string
	// running is the comparison that goes on; nil: none does.
	running *comparing
}

// comparing is a comparison, outside of turns.
type comparing struct {
	of     string
	cancel context.CancelFunc
	// ended has the result, once.
	ended chan etcd.Comparison
}

// Stop ends the comparison that goes on. It is made again when all is as wanted.
func (c *Compared) Stop() {
	if c.running != nil {
		c.running.cancel()
		c.running = nil
	}
}

// Runs reports whether a comparison goes on.
func (c *Compared) Runs() bool { return c.running != nil }

// Take takes in a comparison that has ended.
func (c *Compared) Take(now time.Time) {
	if c.running == nil {
		return
	}
	select {
	case found := <-c.running.ended:
		if found.Why == "" || c.of != c.running.of {
			c.Last = found
		}
		c.At, c.Failed, c.of, c.running = now, found.Why, c.running.of, nil
	default:
	}
}

// add adds what the newest comparison found, as far as it is of members that are there. The report of a process before this one that data
// differ holds until the first comparison has ended.
func (c *Compared) add(t *View) {
	e := &t.Facts.Etcd
	if !e.Known || len(e.Members) < 2 {
		return
	}
	is := func(m plan.Member) bool {
		return slices.ContainsFunc(c.Last.Differ, func(d etcd.Member) bool { return etcd.FormatID(d.ID) == m.ID })
	}
	switch {
	case c.At.IsZero() && conditions.IsFalse(t.Object, controlplanev1.EtcdDataConsistentCondition):
		e.Doubted = "the data of etcd's members differed, and are compared once more"
	case !slices.ContainsFunc(e.Members, is):
	case 2*len(c.Last.Differ) < c.Last.Voters:
		for i := range e.Members {
			e.Members[i].Differs = is(e.Members[i])
		}
	default:
		e.Doubted = "most members of etcd do not have the same data"
	}
}

// IsDoubted reports whether joins wait for what a comparison found, or will find.
func IsDoubted(t *View) bool {
	e := t.Facts.Etcd
	return e.Doubted != "" || slices.ContainsFunc(e.Members, func(m plan.Member) bool { return m.Differs })
}

// next is when the data are to be compared: now, where others are the voters, or their versions, than those that were compared.
func (c *Compared) next(of string, first time.Time) time.Time {
	switch {
	case c.of != of:
		return c.At
	case c.At.IsZero():
		return first
	case c.Failed != "":
		return c.At.Add(compareRetry)
	case len(c.Last.Differ) > 0:
		return c.At.Add(compareSoon)
	}
	return c.At.Add(CompareEvery)
}

// Compare has the data of etcd's voters compared, between turns, where that is due. It is called where all is as wanted, or joins wait for
// it. Its end brings about a turn.
func Compare(t *Observer) {
	c, of := &t.Memory.Compared, votersOf(t.Memory.Surveys.Last)
	if strings.Count(of, " ") < 2 {
		*c = Compared{}
		return
	}
	if c.At.IsZero() {
		c.of = cmp.Or(c.of, of)
	}
	if c.running != nil || t.Facts.Now.Before(c.next(of, firstComparison(t.View))) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), compareLimit)
	run := &comparing{of: of, cancel: cancel, ended: make(chan etcd.Comparison, 1)}
	c.running = run
	from, cluster, key, targets, over := t.Sources, t.Cluster, t.Key(), t.Targets(t.Dial()), t.Memory.Surveys.Last
	go func() {
		defer cancel()
		keeper, err := from.Quorums.Data(ctx, cluster)
		if err != nil {
			run.ended <- etcd.Comparison{Why: err.Error()}
		} else {
			run.ended <- keeper.Compare(ctx, targets, over)
		}
		if ctx.Err() == nil {
			from.wake(ctx, key)
		}
	}()
}

// firstComparison is when a process makes the first one of a group: at once where its condition says that data differ.
func firstComparison(t *View) time.Time {
	if conditions.IsFalse(t.Object, controlplanev1.EtcdDataConsistentCondition) {
		return t.Memory.Began
	}
	spread := fnv.New32a()
	_, _ = spread.Write([]byte(t.Object.GetUID())) // it never fails
	return t.Memory.Began.Add(time.Duration(spread.Sum32()%uint32(compareSoon/time.Second)) * time.Second)
}

// votersOf writes down which voters a survey found, and their versions: each behind a space.
func votersOf(s etcd.Survey) string {
	var text strings.Builder
	for _, m := range slices.SortedFunc(slices.Values(s.Members), func(x, y etcd.Member) int { return strings.Compare(x.Name, y.Name) }) {
		if !m.Learner {
			fmt.Fprintf(&text, " %s/%s", etcd.FormatID(m.ID), m.Version)
		}
	}
	return text.String()
}
