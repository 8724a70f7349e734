package docs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// Each target of make, each RUN of its tests and each file that a document's command names is there.
func TestCommandsNameWhatThereIs(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := os.ReadFile(filepath.Join(root, "test/e2e/e2e_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Commands(root)
	if err != nil || len(all) < 150 {
		t.Fatalf("%d commands, %v", len(all), err)
	}
	file := regexp.MustCompile(`(?:^|[ =])((?:examples|config|charts|hack|docs)/[\w./-]+)`)
	for _, c := range all {
		for _, found := range file.FindAllStringSubmatch(c.Text, -1) {
			if _, err := os.Stat(filepath.Join(root, found[1])); err != nil {
				t.Errorf("%s: there is no %s", c, found[1])
			}
		}
		if c.Program() != "make" {
			continue
		}
		for _, word := range c.Words()[1:] {
			name, values, set := strings.Cut(word, "=")
			if !set && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+`:`).Match(makefile) {
				t.Errorf("%s: there is no target %s", c, name)
			}
			for _, run := range strings.Split(values, "|") {
				if name == "RUN" && run != "NAME" && !strings.Contains(string(runs), `{"`+run+`", `) {
					t.Errorf("%s: there is no RUN=%s", c, run)
				}
			}
		}
	}
}

// Each command in a block has whoever runs it, or a reason why nobody does; who runs some is there, and each row is needed.
func TestCommandsAreRun(t *testing.T) {
	all, err := Commands(root)
	if err != nil {
		t.Fatal(err)
	}
	sources := testSources(t)
	used, counts := map[int]bool{}, map[string]int{}
	for _, c := range all {
		if c.Inline {
			continue
		}
		r, err := RunBy(c)
		if err != nil {
			t.Error(err)
			continue
		}
		used[rowOf(c)] = true
		name, isRun := strings.CutPrefix(r.By, "RUN=")
		switch {
		case r.By == "" && r.Why == "":
			t.Errorf("%s: nobody runs it, and nothing says why", c)
		case r.By == "":
			counts["by no test"]++
			t.Logf("no test runs %s: %s", c, r.Why)
		case isRun && !strings.Contains(sources, `{"`+name+`", `), !isRun && r.By != CI && !strings.Contains(sources, "func "+r.By+"("):
			t.Errorf("%s is run by %s, which there is not", c, r.By)
		case r.Why != "":
			counts["otherwise than written"]++
			t.Logf("run otherwise than written, by %s: %s: %s", r.By, c, r.Why)
		default:
			counts["as written"]++
		}
	}
	for i := range account {
		if !used[i] {
			t.Errorf("no command needs the row %s", account[i].pattern)
		}
	}
	t.Logf("commands in blocks are run: %v", counts)
}

// testSources are all tests.
func testSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestCommandsIn(t *testing.T) {
	const text = "Say `quorate up --name x` or `up`.\n\n" +
		"1. In a list:\n\n       KEY=x make demo\n\n" +
		"    kubectl get nodes   # all\n    quorate status; quorate explain # why\n    no command\n\n" +
		"```\n$ make demo\nkubectl: not this\n```\n```yaml\nmake: no\nmake this: no\n```\nkubectl get is no command here\n"
	want := []Command{
		{"f", 1, "quorate up --name x", true},
		{"f", 5, "KEY=x make demo", false},
		{"f", 7, "kubectl get nodes", false},
		{"f", 8, "quorate status", false},
		{"f", 8, "quorate explain", false},
		{"f", 12, "make demo", false},
	}
	got := commandsIn("f", text)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if program := got[1].Program(); program != "make" {
		t.Errorf("%s is a command of %s", got[1], program)
	}
}
