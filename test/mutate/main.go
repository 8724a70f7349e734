// Command mutate sabotages what decides, one small thing at a time, and runs the
// tests against every sabotage: each must be caught by one of them at least.
//
// It disables each rule, flips each comparison and moves its border, and swaps and
// for or. It drops either side, makes each condition true, false or the opposite, and
// leaves out statements, in the packages plan, check and quorum. All sabotages are compiled
// into one test binary a package and chosen by an environment variable, so that a
// thousand of them take a minute and not an hour.
//
// For that it knows Go's syntax and nothing of what the rules are about. Sabotages of meaning
// are listed by hand: a guard is forgotten in one key or in both, unknown counts as healthy, rules change places. Each of these must be
// caught by a world or by the model, and not by a golden row alone.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	all := flag.Bool("v", false, "show every sabotage, not only those that were not caught")
	only := flag.String("only", "", "run the sabotage of this number alone, and show what the tests say; of meaning, those that a regular "+
		"expression matches")
	compare := flag.Bool("compare", false, "let nothing be sabotaged, and tell where sabotages of meaning would have decided otherwise")
	workers := flag.Int("workers", 2, "how many run at once")
	stages := flag.String("stages", "quorum,rows,stories,order,worlds", "which tests to run, to see what they catch alone")
	packages := flag.String("packages", "plan,check,quorum", "whose single signs to sabotage")
	kind := flag.String("kind", "signs,meaning", "which sabotages: of single signs, of meaning")
	files := flag.String("files", "", "sabotage single signs only in files whose path matches this regular expression")
	flag.Parse()
	o := options{*all, *only, *workers, *stages, *packages, *kind, *files, *compare}
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are what is run.
type options struct {
	all                    bool
	only                   string
	workers                int
	stages, packages, kind string
	files                  string
	compare                bool
}

// run sabotages the module that the working folder belongs to.
func (o options) run() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return fmt.Errorf("making a folder to work in: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	caught, tried := 0, 0
	if strings.Contains(o.kind, "signs") {
		mutants, err := o.signs(root, work)
		if err != nil || o.only != "" {
			return err
		}
		caught, tried = report(mutants, o.all)
	}
	if strings.Contains(o.kind, "meaning") {
		c, n, err := o.meanings(root, work)
		if err != nil || o.compare {
			return err
		}
		caught, tried = caught+c, tried+n
	}
	fmt.Printf("caught %d of %d\n", caught, tried)
	if caught < tried {
		return fmt.Errorf("%d sabotages survived", tried-caught)
	}
	return nil
}

// signs sabotages single signs of the text, and returns what became of each.
func (o options) signs(root, work string) ([]mutant, error) {
	begun := time.Now()
	var mutants []mutant
	overlay := map[string]string{}
	for pkg := range strings.SplitSeq(o.packages, ",") {
		found, err := sabotage(filepath.Join(root, "internal/core", pkg), work, len(mutants), overlay)
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, found...)
	}
	suite, err := build(root, work, overlay)
	if err != nil {
		return nil, err
	}
	suite = slices.DeleteFunc(suite, func(st stage) bool { return !slices.Contains(strings.Split(o.stages, ","), st.name) })
	if by, out := suite.run(0); by != "" {
		return nil, fmt.Errorf("without any sabotage %s fails:\n%s", by, out)
	}
	if o.only != "" {
		return nil, suite.show(o.only, mutants)
	}
	meant, err := regexp.Compile(o.files)
	if err != nil {
		return nil, fmt.Errorf("-files %s: %w", o.files, err)
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !meant.MatchString(m.place) })
	suite.runAll(mutants, o.workers)
	fmt.Printf("sabotages of single signs: %s\n", time.Since(begun).Round(time.Second))
	return mutants, nil
}

// show runs one sabotage, by its number, and prints what caught it.
func (s suite) show(number string, mutants []mutant) error {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(mutants) {
		return fmt.Errorf("-only %s: a number from 1 to %d is wanted", number, len(mutants))
	}
	by, out := s.run(n)
	fmt.Printf("%s\ncaught by %q\n%s\n", mutants[n-1], by, out)
	return nil
}

// moduleRoot is the folder with go.mod, here or above.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working folder: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod here or above")
		}
	}
}

// report prints a table of the functions and of what was not caught.
func report(mutants []mutant, all bool) (caught, tried int) {
	type row struct{ caught, total int }
	rows := map[string]*row{}
	var order []string
	for _, m := range mutants {
		key := m.pkg + " " + m.function
		if rows[key] == nil {
			rows[key] = &row{}
			order = append(order, key)
		}
		rows[key].total++
		if m.caughtBy != "" {
			rows[key].caught++
			caught++
		}
	}
	fmt.Printf("%-40s %s\n", "function", "caught")
	for _, key := range order {
		fmt.Printf("%-40s %d of %d\n", key, rows[key].caught, rows[key].total)
	}
	for _, m := range mutants {
		switch {
		case m.caughtBy == "":
			fmt.Printf("SURVIVED %s\n", m)
		case all:
			fmt.Printf("%-28s %s\n", m.caughtBy, m)
		}
	}
	return caught, len(mutants)
}
