package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// patience is how long tests may take: a sabotage that makes them endless is caught.
const patience = 4 * time.Minute

// suite are the test binaries with all sabotages, the quickest to fail first.
type suite []stage

type stage struct {
	name   string
	binary string
	dir    string
	args   []string
	aside  bool   // it runs in a folder of its own, to which it writes
	about  string // only sabotages whose text has this word are tried; empty: all are
}

// compiler compiles with all sabotages of one kind.
type compiler struct {
	root, work, kind string
	overlay          map[string]string
}

// list writes the overlay down.
func (c *compiler) list() (string, error) {
	text, err := json.Marshal(map[string]any{"Replace": c.overlay})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	list := filepath.Join(c.work, c.kind+".json")
	if err := os.WriteFile(list, text, 0o644); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return list, nil
}

// tests compiles the tests of packages.
func (c *compiler) tests(packages ...string) error {
	list, err := c.list()
	if err != nil {
		return err
	}
	for _, pkg := range packages {
		if err := c.run("test", "-c", "-vet=off", "-overlay", list, "-o", c.binary(pkg), "./internal/core/"+pkg); err != nil {
			return fmt.Errorf("compiling the tests of %s: %w", pkg, err)
		}
	}
	return nil
}

// program compiles a program.
func (c *compiler) program(name, pkg string) error {
	list, err := c.list()
	if err != nil {
		return err
	}
	if err := c.run("build", "-overlay", list, "-o", c.binary(name), pkg); err != nil {
		return fmt.Errorf("compiling %s: %w", pkg, err)
	}
	return nil
}

func (c *compiler) run(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Dir = c.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func (c *compiler) binary(name string) string { return filepath.Join(c.work, name+"."+c.kind) }

// stage is a run of a package's tests.
func (c *compiler) stage(name, pkg string, args ...string) stage {
	return stage{name: name, binary: c.binary(pkg), dir: filepath.Join(c.root, "internal/core", pkg), args: args}
}

// build compiles the tests of what decides, and of what runs it.
func build(root, work string, overlay map[string]string) (suite, error) {
	c := compiler{root: root, work: work, kind: "signs", overlay: overlay}
	if err := c.tests("quorum", "plan", "check", "sim"); err != nil {
		return nil, err
	}
	return suite{
		c.stage("quorum", "quorum", "-test.failfast"),
		c.stage("rows", "plan", "-test.failfast", "-test.run",
			"^(TestNext|TestExplain.*|TestAssess.*|TestRules.*|TestSpan|TestSteps|TestMakesKeys|TestMembersAsHosts)$"),
		c.stage("rows", "check", "-test.failfast"),
		c.stage("stories", "sim", "-test.failfast", "-test.run", "^TestStories$"),
		c.stage("order", "plan", "-test.failfast", "-test.run", "^TestOrder.*$"),
		c.stage("worlds", "sim", "-test.failfast", "-test.run", "^TestWorlds$", "-steps=70000"),
	}, nil
}

// of is the suite for the sabotages of a package: its own tests come first, since they catch most of them.
func (s suite) of(pkg string) suite {
	own := func(st stage) int {
		if filepath.Base(st.dir) == pkg && st.name != "order" {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(s), func(a, b stage) int { return own(a) - own(b) })
}

// run runs the tests against one sabotage, 0 being none. It returns which stage
// failed first, and what it said.
func (s suite) run(number int) (string, string) {
	for _, st := range s {
		if out, failed := st.run(number); failed {
			return st.name, out
		}
	}
	return "", ""
}

// run runs one stage against a sabotage. It returns what it said, and whether it failed.
func (st *stage) run(number int) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, st.binary, st.args...)
	cmd.Dir = st.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("MUTANT=%d", number))
	if st.aside {
		dir, err := asideDir()
		if err != nil {
			return err.Error(), true
		}
		defer func() { _ = os.RemoveAll(dir) }()
		cmd.Dir = dir
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err != nil
}

// runAll runs the tests against every sabotage, several at a time.
func (s suite) runAll(mutants []mutant, workers int) {
	work := make(chan *mutant)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for m := range work {
				m.caughtBy, _ = s.of(m.pkg).run(m.number)
			}
		})
	}
	for i := range mutants {
		work <- &mutants[i]
	}
	close(work)
	wg.Wait()
}
