// Command model explores every state that small groups of machines can reach, with a few
// accidents, and holds each decision of internal/core/plan against the invariants.
//
// It knows what hosts, members, users and a controller whose looks are old may do, one thing
// after another in every order, without time and chance. How long something takes is
// whether it has gone on before anybody loses patience. A machine whose hook was released
// lives on until it goes: kubeadm on it goes on, and its voter votes. It does not know how the
// rules decide, and it judges them by the truth. After the last accident, and without any
// person, the rules must reach what is wanted from every state, or name a decision that only
// a person may take and that is due.
//
// In groups that are recovered a person asks for a recovery by a seed, approves, changes and deletes it, and declares machines off, at any
// moment. Which writes a backup holds is not explored; the worlds of internal/core/sim know.
//
// In groups that hibernate a person wants all machines to go or to run, scales workers and deletes the recovery by which the group wakes,
// at any moment. Who writes between the backup and the end of the machines is not explored.
//
// In groups that are restored the management cluster is backed up at any moment, also in the middle of a step, and its objects go back to
// that backup at any later one. Machines that are gone have a Machine again, machines that came since have none, and what was noted since
// is not noted. A person decides that an unknown voter goes, or that nothing waits for a machine any longer, and ends unknown hosts without
// a member. No name in use may be given, and nothing unknown that answers be taken away.
//
// This is not explored. Machines that come at once are of one age in groups of five.
// Where a group begins as wanted, how it came about is not looked at again; a member has
// one machine, of which the address is known as long as its Machine is. Of restored groups
// two things are not explored. A host of which nothing in the cluster has the name when it
// becomes unknown goes at once. A backup of which five machines are gone is not restored.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

func main() {
	deep := flag.Bool("deep", false, "go further, for as long as -limit says")
	quick := flag.Bool("quick", false, "a little only, for sabotaged rules; the first violation ends it")
	only := flag.Int("replicas", 0, "explore groups of that many machines alone")
	recovered := flag.Bool("recovered", false, "explore groups alone that are recovered by a seed")
	hibernated := flag.Bool("hibernated", false, "explore groups alone that hibernate")
	restored := flag.Bool("restored", false, "explore groups alone whose management cluster is restored from a backup")
	limit := flag.Duration("limit", 0, "how long the whole may take: 5 minutes, with -deep 2 hours, if it is not given")
	workers := flag.Int("workers", 2, "how many groups are explored at once")
	flag.Parse()
	if *limit == 0 {
		*limit = 5 * time.Minute
		if *deep {
			*limit = 2 * time.Hour
		}
	}
	r := run{until: time.Now().Add(*limit), quick: *quick}
	all := groups(*deep, *quick, *only)
	if *recovered {
		all = slices.DeleteFunc(all, func(g group) bool { return !g.recovers })
	}
	if *hibernated {
		all = slices.DeleteFunc(all, func(g group) bool { return !g.hibernates })
	}
	if *restored {
		all = slices.DeleteFunc(all, func(g group) bool { return !g.restores })
	}
	r.all(all, *workers)
	fmt.Printf("states %d violations %d\n", r.states, r.violations)
	if r.cut > 0 {
		fmt.Printf("the limit of %s was reached: %d groups were not explored to the end, and whether these reach what is wanted was not judged\n",
			*limit, r.cut)
	}
	if r.violations > 0 {
		os.Exit(1)
	}
}

// run is one exploration of several groups.
type run struct {
	until                   time.Time
	quick                   bool
	mutex                   sync.Mutex
	states, violations, cut int
}

// all explores groups, several at a time.
func (r *run) all(groups []group, workers int) {
	work := make(chan *group)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for g := range work {
				r.one(g)
			}
		})
	}
	for i := range groups {
		work <- &groups[i]
	}
	close(work)
	wg.Wait()
}

// one explores a group and says what came of it.
func (r *run) one(g *group) {
	start := time.Now()
	s := explore(g, r.until)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.states, r.violations = r.states+len(s.states), r.violations+len(s.wrong)
	end := ""
	if s.cut {
		r.cut++
		end = ", NOT TO THE END"
	}
	fmt.Printf("%s: %d states%s, violations %d, %.0f s\n", g, len(s.states), end, len(s.wrong), time.Since(start).Seconds())
	firsts, counts := s.kinds()
	for k, v := range firsts {
		fmt.Printf("%d times: %s\n", counts[kindOf(v.what)], strings.SplitN(v.what, "\n", 2)[0])
		if k < 8 {
			s.tell(os.Stdout, v)
		}
	}
	if r.quick && len(s.wrong) > 0 {
		r.stop()
	}
}

// stop ends the whole at the first violation.
func (r *run) stop() { os.Exit(1) }

// groups are those that are explored, the largest last.
func groups(deep, quick bool, only int) []group {
	all := []group{
		{replicas: 5, surge: 1, faults: 1, stale: 0, acts: 1, whole: true, tidy: true},
		{replicas: 3, surge: 1, faults: 1, stale: 0, acts: 1, strips: true, slow: true, whole: true},
		{replicas: 3, surge: 0, faults: 1, stale: 1, acts: 1, reverts: true, slow: true, whole: true},
		{replicas: 3, surge: 1, faults: 2, stale: 0, acts: 1, whole: true},
		{replicas: 1, surge: 1, faults: 1, stale: 1, acts: 1, strips: true, reverts: true, slow: true},
		{replicas: 1, surge: 1, faults: 2, stale: 2, acts: 2, external: true, reverts: true, slow: true},
		{replicas: 3, surge: 1, faults: 1, stale: 1, acts: 1, nodeOnly: true, strips: true, slow: true, whole: true},
		{replicas: 3, surge: 1, faults: 1, stale: 0, acts: 1, nodeOnly: true, reverts: true, whole: true},
		{replicas: 3, surge: 1, faults: 1, stale: 1, acts: 1, nodeOnly: true, strips: true, slow: true, external: true, reverts: true},
		{replicas: 3, surge: 0, faults: 1, stale: 0, acts: 1, external: true, reverts: true, slow: true},
		{replicas: 3, surge: 1, faults: 1, stale: 0, acts: 1, external: true, reverts: true},
		{replicas: 3, surge: 1, faults: 1, stale: 0, acts: 1, eager: true, strips: true},
		{replicas: 1, surge: 1, faults: 1, stale: 1, acts: 1, overlap: true, strips: true, slow: true, whole: true},
		{replicas: 3, surge: 1, faults: 1, stale: 0, acts: 1, overlap: true, slow: true, whole: true},
		{replicas: 3, surge: 1, faults: 1, stale: 0, acts: 1, overlap: true, etcdOnly: true, whole: true},
		{replicas: 1, surge: 1, faults: 1, stale: 1, acts: 1, etcdOnly: true, strips: true, reverts: true, slow: true},
		{replicas: 3, surge: 1, faults: 1, stale: 0, acts: 1, etcdOnly: true, strips: true, slow: true},
		{replicas: 3, surge: 0, faults: 1, stale: 0, acts: 1, etcdOnly: true, reverts: true, slow: true, whole: true},
		{replicas: 3, surge: 1, faults: 1, stale: 1, acts: 1},
		{replicas: 1, surge: 1, faults: 1, stale: 1, acts: 1, reverts: true, strips: true, inPlace: plan.InPlacePreferred},
		{replicas: 3, surge: 1, faults: 1, stale: 1, acts: 1, reverts: true, whole: true, inPlace: plan.InPlacePreferred},
		{replicas: 3, surge: 1, faults: 1, stale: 0, acts: 1, reverts: true, strips: true, whole: true, inPlace: plan.InPlaceOnly},
		{replicas: 2, surge: 1, faults: 1, stale: 0, acts: 1, reverts: true, external: true, inPlace: plan.InPlacePreferred},
		{replicas: 1, surge: 1, faults: 2, stale: 1, acts: 2, strips: true, whole: true, recovers: true},
		{replicas: 3, surge: 1, faults: 2, stale: 0, acts: 1, whole: true, recovers: true},
		{replicas: 1, surge: 1, faults: 1, stale: 1, acts: 3, whole: true, steady: true, hibernates: true},
		{replicas: 3, surge: 1, faults: 1, acts: 2, whole: true, steady: true, hibernates: true},
		{replicas: 1, surge: 1, faults: 1, acts: 1, whole: true, restores: true},
		{replicas: 1, surge: 1, acts: 1, whole: true, restores: true, silent: true},
		{replicas: 3, surge: 1, whole: true, restores: true},
		{replicas: 3, surge: 0, whole: true, restores: true},
		{replicas: 3, surge: 1, acts: 1, whole: true, restores: true, steady: true},
		{replicas: 3, surge: 1, faults: 1, whole: true, restores: true, steady: true},
		{replicas: 3, surge: 1, faults: 1, whole: true, restores: true, steady: true, silent: true},
		{replicas: 1, surge: 1, acts: 1, whole: true, restores: true, etcdOnly: true},
		{replicas: 3, surge: 1, whole: true, restores: true, etcdOnly: true},
		{replicas: 3, surge: 1, faults: 1, whole: true, restores: true, steady: true, etcdOnly: true},
	}
	switch {
	case quick:
		all = quickGroups()
	case deep:
		all = deepGroups()
	}
	var chosen []group
	for _, g := range all {
		if only == 0 || only == g.replicas {
			chosen = append(chosen, g)
		}
	}
	return chosen
}

// quickGroups are those that are explored for a sabotaged rule.
func quickGroups() []group {
	return []group{
		{replicas: 1, surge: 1, faults: 1, stale: 1, acts: 1, strips: true},
		{replicas: 3, surge: 1, faults: 1, acts: 1, strips: true, whole: true},
		{replicas: 3, surge: 0, faults: 1, acts: 1, slow: true, whole: true},
		{replicas: 1, surge: 1, faults: 1, acts: 1, whole: true, recovers: true},
		{replicas: 1, surge: 1, acts: 2, whole: true, steady: true, hibernates: true},
		{replicas: 1, surge: 1, whole: true, restores: true},
		{replicas: 3, surge: 1, acts: 1, whole: true, restores: true, steady: true},
	}
}

// deepGroups are those that are explored for hours.
func deepGroups() []group {
	var all []group
	for _, external := range []bool{false, true} {
		for _, replicas := range []int{5, 3, 1} {
			for surge := range 2 {
				if surge == 1 || replicas > 1 {
					all = append(all, group{replicas: replicas, surge: surge, external: external, faults: 2, stale: 2, acts: 2, strips: true,
						reverts: true, slow: true, whole: replicas > 3, tidy: replicas > 3})
				}
			}
		}
	}
	return append(all,
		group{replicas: 1, surge: 1, faults: 2, stale: 2, acts: 4, whole: true, steady: true, hibernates: true},
		group{replicas: 3, surge: 0, faults: 1, stale: 1, acts: 3, whole: true, steady: true, hibernates: true},
		group{replicas: 3, surge: 1, faults: 2, stale: 0, acts: 2, whole: true, hibernates: true},
		group{replicas: 3, surge: 1, faults: 1, acts: 1, whole: true, restores: true, steady: true},
		group{replicas: 3, surge: 1, acts: 1, whole: true, restores: true})
}
