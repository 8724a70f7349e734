package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// patience is how long tests may take: a sabotage that makes them endless is caught.
const patience = 60 * time.Second

// suite are the test binaries with all sabotages, the quickest to fail first.
type suite []stage

type stage struct {
	name   string
	binary string
	dir    string
	args   []string
}

// build compiles the tests of what decides, and of what runs it.
func build(root, work string, overlay map[string]string) (suite, error) {
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return nil, fmt.Errorf("writing the overlay: %w", err)
	}
	list := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(list, text, 0o644); err != nil {
		return nil, fmt.Errorf("writing the overlay: %w", err)
	}
	for _, pkg := range []string{"quorum", "plan", "sim"} {
		cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", list, "-o", filepath.Join(work, pkg+".test"), "./internal/"+pkg)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compiling the tests of %s: %w\n%s", pkg, err, out)
		}
	}
	of := func(pkg, name string, args ...string) stage {
		return stage{name, filepath.Join(work, pkg+".test"), filepath.Join(root, "internal", pkg), args}
	}
	return suite{
		of("quorum", "quorum", "-test.failfast"),
		of("plan", "rows", "-test.failfast", "-test.run", "^(TestNext|TestCheck.*|TestExplain.*|TestRules.*|TestSpan)$"),
		of("sim", "stories", "-test.failfast", "-test.run", "^TestStories$"),
		of("plan", "order", "-test.failfast", "-test.run", "^TestOrder.*$"),
		of("sim", "worlds", "-test.failfast", "-test.run", "^TestWorlds$", "-steps=70000"),
	}, nil
}

// run runs the tests against one sabotage, 0 being none. It returns which stage
// failed first, and what it said.
func (s suite) run(number int) (string, string) {
	for _, st := range s {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		cmd := exec.CommandContext(ctx, st.binary, st.args...)
		cmd.Dir = st.dir
		cmd.Env = append(os.Environ(), fmt.Sprintf("MUTANT=%d", number))
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			return st.name, strings.TrimSpace(string(out))
		}
	}
	return "", ""
}

// runAll runs the tests against every sabotage, several at a time.
func (s suite) runAll(mutants []mutant, workers int) {
	work := make(chan *mutant)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for m := range work {
				m.caughtBy, _ = s.run(m.number)
			}
		})
	}
	for i := range mutants {
		work <- &mutants[i]
	}
	close(work)
	wg.Wait()
}
