package plan_test

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// horizon is how far ahead waits are followed: further than any moment that a message counts from what was seen.
const horizon = 40 * time.Minute

// later is a state as it is some time later, if nothing happens.
func later(o plan.Observed, d time.Duration) plan.Observed {
	o.Now = o.Now.Add(d)
	return o
}

// TestWaitsSayWhenToLookAgain: while a decision waits, time alone changes no step and no reason before the moment at which it says to look
// again.
func TestWaitsSayWhenToLookAgain(t *testing.T) {
	eachRow(t, "next.txt", func(o plan.Observed, below []string) []string {
		d := plan.Next(o)
		if d.Step.Verb != plan.Wait && d.Step.Verb != plan.Nothing {
			return below
		}
		for at := time.Second; at < horizon && (d.Again == 0 || at < d.Again); at += 5 * time.Second {
			if then := plan.Next(later(o, at)); then.Step != d.Step || then.Reason != d.Reason {
				t.Errorf("%s\n  says to look again in %s, and after %s decides %s", d, d.Again, at, then)
				break
			}
		}
		return below
	})
}

// namesMoment finds a time in a message that is counted from what was seen.
var namesMoment = regexp.MustCompile(`until ([0-9hms]+) after`)

// TestWaitsEndWhenTheySay: a wait that names a moment ends, or names one less, at a moment that is that long after something that was seen.
func TestWaitsEndWhenTheySay(t *testing.T) {
	eachRow(t, "next.txt", func(o plan.Observed, below []string) []string {
		d := plan.Next(o)
		for _, found := range namesMoment.FindAllStringSubmatch(d.Message, -1) {
			length, err := time.ParseDuration(found[1])
			if err != nil {
				t.Fatal(err)
			}
			checkMoment(t, o, d, length)
		}
		return below
	})
}

// checkMoment goes on until the decision names one moment less.
func checkMoment(t *testing.T, o plan.Observed, d plan.Decision, length time.Duration) {
	t.Helper()
	named := len(namesMoment.FindAllString(d.Message, -1))
	for at := time.Second; at < horizon; at += time.Second {
		then := plan.Next(later(o, at))
		if len(namesMoment.FindAllString(then.Message, -1)) >= named {
			continue
		}
		if then.Step.Acts() && !strings.Contains(d.Message, cmp.Or(then.Step.Member, then.Step.Machine)) {
			return // something else is done first, after which all is seen again
		}
		if !slices.ContainsFunc(seenAt(o), func(since time.Time) bool { return since.Add(length).Equal(o.Now.Add(at)) }) {
			t.Errorf("%s\n  ended after %s, which is %s after nothing that was seen", d, at, length)
		}
		return
	}
	t.Errorf("%s\n  has not ended after %s", d, horizon)
}

// seenAt are the moments of what was seen.
func seenAt(o plan.Observed) []time.Time {
	var all []time.Time
	for _, m := range o.Machines {
		all = append(all, m.Created, m.Started, m.UpSince)
	}
	for _, e := range o.Etcd.Members {
		all = append(all, e.Since)
	}
	return all
}
