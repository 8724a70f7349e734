package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// comparing lets everything be decided as without any sabotage, and tells on standard error where
// one would have decided otherwise: whether something else would be done, or only said.
const comparing = `
var compared, _ = strconv.Atoi(os.Getenv("COMPARED"))

func compare(o Observed) Decision {
	n := compared
	compared = 0
	was := Next(o)
	activeMutant = n
	reorder(n)
	is := Next(o)
	reorder(n)
	activeMutant, compared = 0, n
	what := ""
	switch {
	case was.Step != is.Step:
		what = "DONE"
	case was.Reason != is.Reason || was.Message != is.Message:
		what = "SAID"
	case was.Again != is.Again:
		what = "WHEN"
	}
	if what != "" {
		os.Stderr.WriteString("OTHERWISE " + what + "\t" + string(was.Step.Verb) + " " + was.Rule + "/" + was.Reason + " -> " +
			string(is.Step.Verb) + " " + is.Rule + "/" + is.Reason + "\t" + was.String() + "\t" + is.String() + "\n")
	}
	return was
}
`

// difference is one kind of decision that a sabotage would have made in place of another.
type difference struct {
	kind, example string
	times         int
}

// differences runs what decides undisturbed, and counts where a sabotage would have decided otherwise.
func (s suite) differences(m *meaning) ([]difference, error) {
	counts := map[string]*difference{}
	for _, st := range s {
		if st.name == "rows" || st.aside {
			continue
		}
		cmd := exec.Command(st.binary, st.args...)
		cmd.Dir = st.dir
		cmd.Env = append(os.Environ(), fmt.Sprintf("COMPARED=%d", m.number), "GOMAXPROCS=1") // one world after another
		out, err := cmd.StderrPipe()
		if err != nil {
			return nil, fmt.Errorf("listening to %s: %w", st.binary, err)
		}
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("starting %s: %w", st.binary, err)
		}
		countDifferences(out, counts)
		if err := cmd.Wait(); err != nil {
			return nil, fmt.Errorf("%s fails without any sabotage: %w", st.binary, err)
		}
	}
	var found []difference
	for _, d := range counts {
		found = append(found, *d)
	}
	slices.SortFunc(found, func(a, b difference) int { return strings.Compare(a.kind, b.kind) })
	return found, nil
}

// countDifferences reads what a sabotaged package prints of each decision that would have been another.
func countDifferences(out io.Reader, counts map[string]*difference) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		what, is := strings.CutPrefix(lines.Text(), "OTHERWISE ")
		if !is {
			continue
		}
		words := strings.SplitN(what, "\t", 3)
		kind := words[0] + " " + words[1]
		if counts[kind] == nil {
			counts[kind] = &difference{kind: kind, example: words[2]}
		}
		counts[kind].times++
	}
}

// compareAll prints what each sabotage would have decided otherwise.
func (s suite) compareAll(all []meaning) error {
	for i := range all {
		found, err := s.differences(&all[i])
		if err != nil {
			return err
		}
		fmt.Println(&all[i])
		for _, d := range found {
			fmt.Printf("    %7d %s\n            %s\n", d.times, d.kind, d.example)
		}
		if len(found) == 0 {
			fmt.Println("    decides nothing otherwise")
		}
	}
	return nil
}
