// Command mutate sabotages what decides, one small thing at a time, and runs the
// tests against every sabotage: each must be caught by one of them at least.
//
// It disables each rule, flips each comparison and moves its border, swaps and for
// or, drops either side, makes each condition true, false or the opposite, and
// leaves out statements, in the packages plan and quorum. All sabotages are compiled
// into one test binary a package and chosen by an environment variable, so that a
// thousand of them take a minute and not an hour.
//
// It knows Go's syntax and nothing of what the rules are about.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	all := flag.Bool("v", false, "show every sabotage, not only those that nobody caught")
	only := flag.Int("only", 0, "run the sabotage of this number alone, and show what the tests say")
	workers := flag.Int("workers", 2, "how many run at once")
	stages := flag.String("stages", "quorum,rows,stories,order,worlds", "which tests to run, to see what they catch alone")
	flag.Parse()
	if err := run(*all, *only, *workers, *stages); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run sabotages the module that the working folder belongs to.
func run(all bool, only, workers int, stages string) error {
	begun := time.Now()
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return fmt.Errorf("making a folder to work in: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()

	var mutants []mutant
	overlay := map[string]string{}
	for _, pkg := range []string{"internal/plan", "internal/quorum"} {
		found, err := sabotage(filepath.Join(root, pkg), work, len(mutants), overlay)
		if err != nil {
			return err
		}
		mutants = append(mutants, found...)
	}
	suite, err := build(root, work, overlay)
	if err != nil {
		return err
	}
	suite = slices.DeleteFunc(suite, func(st stage) bool { return !slices.Contains(strings.Split(stages, ","), st.name) })
	if by, out := suite.run(0); by != "" {
		return fmt.Errorf("without any sabotage %s fails:\n%s", by, out)
	}
	if only > 0 {
		by, out := suite.run(only)
		fmt.Printf("%s\ncaught by %q\n%s\n", mutants[only-1], by, out)
		return nil
	}
	suite.runAll(mutants, workers)
	return report(mutants, all, time.Since(begun))
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
func report(mutants []mutant, all bool, took time.Duration) error {
	type row struct{ caught, total int }
	rows := map[string]*row{}
	var order []string
	caught := 0
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
	fmt.Printf("%s\ncaught %d of %d\n", took.Round(time.Second), caught, len(mutants))
	if caught < len(mutants) {
		return fmt.Errorf("%d sabotages survived", len(mutants)-caught)
	}
	return nil
}
