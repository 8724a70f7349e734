// Command model explores every state that small groups of machines can reach, with a few
// accidents, and holds each decision of internal/plan against the invariants.
//
// It knows what hosts, members and a controller whose looks are old may do, one thing
// after another in every order, without time and chance: how long something takes is
// whether it has gone on before anybody loses patience. It does not know how the rules
// decide, and it judges them by the truth. After the last accident the rules must
// reach what is wanted from every state that has a quorum.
//
// What the rules are spared: a machine that came without a Node for ten minutes does not
// join any more, nor does one return whose hook was released while nothing of it answered;
// a person deletes what is broken when nothing else happens any more; and in
// groups of five, machines that come at once are of one age.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	faults := flag.Int("faults", 2, "how many accidents happen at most")
	stale := flag.Int("stale", 2, "how many moves a look may be old")
	deep := flag.Bool("deep", false, "all of that for groups of five as well: without, one accident, and looks one move old")
	only := flag.Int("replicas", 0, "explore groups of that many machines alone")
	room := flag.Int("room", 30_000_000, "how many states of a group are explored at most")
	flag.Parse()
	states, violations := 0, 0
	for _, g := range groups(*faults, *stale, *deep) {
		if *only != 0 && *only != g.replicas {
			continue
		}
		start := time.Now()
		s := explore(&g, *room)
		states, violations = states+len(s.states), violations+len(s.wrong)
		fmt.Printf("%-58s %9d states %5d violations %5.0f s\n", &g, len(s.states), len(s.wrong), time.Since(start).Seconds())
		for k, v := range s.wrong {
			if k < 3 {
				s.tell(os.Stdout, v)
			}
		}
		if len(s.states) > *room {
			fmt.Printf("not explored to the end: more than %d states\n", *room)
			violations++
		}
	}
	fmt.Printf("states %d violations %d\n", states, violations)
	if violations > 0 {
		os.Exit(1)
	}
}

// groups are those that are explored.
func groups(faults, stale int, deep bool) []group {
	var all []group
	for _, external := range []bool{false, true} {
		for _, replicas := range []int{1, 3, 5} {
			for _, surge := range []int{1, 0} {
				if surge == 0 && replicas < 3 {
					continue // without one more at least three are needed
				}
				g := group{replicas: replicas, surge: surge, external: external, faults: faults, stale: stale, tidy: replicas > 3}
				if replicas > 3 && !deep {
					g.faults, g.stale = min(faults, 1), min(stale, 1)
				}
				all = append(all, g)
			}
		}
	}
	return all
}
