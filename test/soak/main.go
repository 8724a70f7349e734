// Command soak judges histories again that a run of `make soak` or `make e2e RUN=soak-short` kept, and writes the report again: for a judge
// that became stricter, or a history from elsewhere.
//
//	go run ./test/soak -out dist/soak dist/soak/seed-1-cluster-1.jsonl
//
// With -facts it compares what the rules looked at on machines with what worlds show.
//
//	go run ./test/soak -facts dist/soak/seed-1-cluster-1.facts -worlds 2000
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/quorate/quorate/test/soak/facts"
	"github.com/quorate/quorate/test/soak/report"
)

func main() {
	out := flag.String("out", ".", "folder for soak.html and soak.json")
	seed := flag.Uint64("seed", 0, "seed of the run, for the report")
	observed := flag.Bool("facts", false, "the files are what was observed on machines: compare it with worlds")
	worlds := flag.Int("worlds", 1000, "with -facts, how many worlds of each kind to compare with")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "expected at least one file: go run ./test/soak [-out FOLDER] FILE..., or -facts [-worlds NUMBER] FILE...")
		os.Exit(2)
	}
	judge := func() (bool, error) { return judged(*out, *seed, flag.Args()) }
	if *observed {
		judge = func() (bool, error) { return compared(*worlds, flag.Args()) }
	}
	right, err := judge()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !right {
		os.Exit(1)
	}
}

// judged judges histories, and reports whether nothing is wrong.
func judged(out string, seed uint64, files []string) (bool, error) {
	r, err := report.Write(out, "soak", seed, files)
	for _, line := range r.Figures() {
		fmt.Println(line)
	}
	return r.Violations == 0, err
}

// compared prints which patterns machines showed and no world did, and what Check refuses. It reports whether Check refuses nothing.
func compared(worlds int, files []string) (bool, error) {
	seen, refused, looks := facts.Seen{}, 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		all, err := facts.Read(bytes.NewReader(text))
		if err != nil {
			return false, err
		}
		for _, o := range all {
			looks++
			seen.Add(o)
			if err := facts.Replay(o); err != nil {
				refused++
				fmt.Println(err)
			}
		}
	}
	known, err := facts.Worlds(0, worlds)
	if err != nil {
		return false, err
	}
	left := seen.Without(known)
	for _, p := range left {
		fmt.Printf("%5d  %s\n", seen[p], p)
	}
	fmt.Printf("%d looks at machines showed %d patterns; %d of them were in none of %d worlds, which showed %d; %d decisions refused\n", looks,
		len(seen), len(left), 4*worlds, len(known), refused)
	return refused == 0, nil
}
