package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

type workflow struct {
	Jobs map[string]struct {
		Strategy struct{ Matrix map[string][]string }
		Steps    []struct{ Run string }
	}
}

func readWorkflow(t *testing.T, name string) workflow {
	t.Helper()
	text, err := os.ReadFile("../../.github/workflows/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return w
}

// TestWorkflowsCallWhatExists: CI runs .ci/run and nothing else, and each target of make that a workflow names exists.
func TestWorkflowsCallWhatExists(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d workflows, %v", len(files), err)
	}
	for _, file := range files {
		targets := map[string]bool{}
		for _, job := range readWorkflow(t, filepath.Base(file)).Jobs {
			for _, step := range job.Steps {
				for _, found := range regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`).FindAllStringSubmatch(step.Run, -1) {
					targets[found[1]] = true
				}
			}
			for _, name := range job.Strategy.Matrix["target"] {
				targets[name] = true
			}
		}
		for name := range targets {
			if !regexp.MustCompile(`(?m)^` + name + `:`).Match(makefile) {
				t.Errorf("%s: there is no target %s", file, name)
			}
		}
	}
	var runs []string
	for _, job := range readWorkflow(t, "ci.yml").Jobs {
		for _, step := range job.Steps {
			if step.Run != "" {
				runs = append(runs, step.Run)
			}
		}
	}
	if got := strings.Join(runs, "; "); got != "sudo --preserve-env=PATH,HOME .ci/run" {
		t.Errorf("CI runs %s", got)
	}
}

// TestNightlyRunsAllLives: each life of test/e2e is run by CI or by one job of the nightly workflow, except those that measure or release.
func TestNightlyRunsAllLives(t *testing.T) {
	text, err := os.ReadFile("../e2e/e2e_test.go")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../hack/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	patterns := readWorkflow(t, "nightly.yml").Jobs["lives"].Strategy.Matrix["run"]
	ci := regexp.MustCompile(`RUN='(\([^']*\))'`).FindStringSubmatch(string(script))
	if ci == nil {
		t.Fatal("hack/test.sh names no lives")
	}
	elsewhere := map[string]bool{"docs-make": true, "docs-bench": true}
	lives := regexp.MustCompile(`(?m)^\t\{"([a-z0-9-]+)", `).FindAllStringSubmatch(string(text), -1)
	if len(lives) < 60 {
		t.Fatalf("only %d lives were found", len(lives))
	}
	for _, life := range lives {
		by := 0
		for _, p := range patterns {
			if regexp.MustCompile("^" + p + "$").MatchString(life[1]) {
				by++
			}
		}
		inCI := regexp.MustCompile("^" + ci[1] + "$").MatchString(life[1])
		if by > 1 || by == 0 && !inCI && !elsewhere[life[1]] {
			t.Errorf("%s is run by %d jobs of the nightly workflow", life[1], by)
		}
	}
}

// TestE2EBuildsTools: the life that needs a real S3 server, and the one that needs what leads a browser, have it built where it is not
// there, and no other life waits for it.
func TestE2EBuildsTools(t *testing.T) {
	for lives, want := range map[string][]string{
		"": {"tools/s3", "tools/browser", "axe-core"}, "backup-s3": {"tools/s3"}, "(plan|backup-s3)": {"tools/s3"}, "backup": nil,
		"(create|backup)": nil, "dashboard": {"tools/browser", "axe-core"},
	} {
		out, ok := run(t, "../..", nil, "make", "-n", "e2e", "RUN="+lives, "CACHE="+t.TempDir())
		if !ok {
			t.Fatal(out)
		}
		for _, tool := range []string{"tools/s3", "tools/browser", "axe-core"} {
			if got := strings.Contains(out, "build-tool.sh "+tool) || strings.Contains(out, "/"+tool+"/"); got != slices.Contains(want, tool) {
				t.Errorf("RUN=%q builds %s: %v", lives, tool, got)
			}
		}
	}
}
