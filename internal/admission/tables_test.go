package admission

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
)

// asked is a write that a row of Cluster API's tables asks its webhook about. testdata/tables prints it.
type asked struct {
	Row           string `json:"-"`
	Kind, Verb    string
	Before, After json.RawMessage
	Gates         map[string]bool
	Refusal       string
}

// Cluster API's own tests of its webhooks run, unchanged, and each of their rows is asked of Quorate's webhooks too. The tests are read
// where Go's module cache has them: nothing of them is copied, and the next version's rows are asked with it. A table of Cluster API that
// asks about no write fails this test, unless it is one of helpers that are not exported.
func TestUpstreamTables(t *testing.T) {
	rows, tests := upstreamRows(t)
	gates := feature.MutableGates.DeepCopy()
	t.Cleanup(func() {
		for name := range rows[0].Gates {
			if err := feature.MutableGates.Set(fmt.Sprintf("%s=%t", name, gates.Enabled(featuregate.Feature(name)))); err != nil {
				t.Error(err)
			}
		}
	})
	c := &tally{different: map[string]int{}}
	differ := map[string]bool{}
	names := map[string]bool{}
	for _, q := range rows {
		purpose := c.purpose
		for name, on := range q.Gates {
			if err := feature.MutableGates.Set(fmt.Sprintf("%s=%t", name, on)); err != nil {
				t.Fatal(err)
			}
		}
		if q.Kind == "KubeadmControlPlaneTemplate" {
			askTemplateRow(t, c, &q)
		} else {
			askRow(t, c, &q)
		}
		top, _, _ := strings.Cut(q.Row, "/")
		tests[top], names[q.Row] = true, true
		if c.purpose > purpose {
			differ[q.Row] = true
		}
	}
	for name, has := range tests {
		if !has {
			t.Errorf("Cluster API's %s asks about no write: it is not compared", name)
		}
	}
	t.Logf("rows of Cluster API's tables: %d, equal %d, different on purpose %d; %s", len(names), len(names)-len(differ), len(differ), c)
	for reason, n := range c.different {
		t.Logf("different on purpose: %d by %q", n, reason)
	}
	var listed []string
	for reason := range c.different {
		listed = append(listed, reason)
	}
	c.finish(t, listed)
}

// askRow asks about a control plane. The tables' infrastructure templates are of a kind that Quorate refuses, which would hide what
// else it answers: a new control plane is asked about again with a kind that it accepts.
func askRow(t *testing.T, c *tally, row *asked) {
	t.Helper()
	q := question[kcp]{name: row.Row, isNew: row.Verb == "create"}
	read(t, row.Before, &q.before)
	read(t, row.After, &q.after)
	switch row.Verb {
	case "default":
		sameDefaults(t, q.name, &q.after)
	case "delete":
		_, deleted := (&KubeadmControlPlane{}).ValidateDelete(t.Context(), &q.after)
		c.judge(t, q.name, row.answer(), deleted, nil)
	case "scale":
		c.judge(t, q.name, row.answer(), ownDefinition(t, "kubeadmcontrolplanes").refusal(t, &q.before, &q.after), nil)
	default:
		row.check(t, askControlPlane(t, c, q))
		if q.isNew {
			q.name += ", with another infrastructure template"
			q.after.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
				APIGroup: clusterv1.GroupVersionInfrastructure.Group, Kind: "LocalMachineTemplate", Name: "test",
			}
			row.check(t, askControlPlane(t, c, q))
		}
	}
}

func askTemplateRow(t *testing.T, c *tally, row *asked) {
	t.Helper()
	q := question[classKCP]{name: row.Row, isNew: row.Verb == "create"}
	read(t, row.Before, &q.before)
	read(t, row.After, &q.after)
	row.check(t, askTemplate(t, c, q))
}

// check compares what Cluster API's webhook answers with what it answered in its own test.
func (a *asked) check(t *testing.T, answer error) {
	t.Helper()
	if (answer != nil) != (a.Refusal != "") {
		t.Errorf("%s: Cluster API answered %q in its own test, and answers %v to the same write", a.Row, a.Refusal, answer)
	}
}

// answer returns Cluster API's answer.
func (a *asked) answer() error {
	if a.Refusal == "" {
		return nil
	}
	return refused(a.Refusal)
}

type refused string

func (r refused) Error() string { return string(r) }

func read(t *testing.T, text json.RawMessage, object any) {
	t.Helper()
	if len(text) == 0 {
		return
	}
	if err := json.Unmarshal(text, object); err != nil {
		t.Fatal(err)
	}
}

// helpers are tests of Cluster API's that ask about no write: of how it compares paths of fields.
var helpers = map[string]bool{"TestPathsMatch": true, "TestAllowed": true, "TestPaths": true}

// upstreamRows runs Cluster API's tests, and returns the writes that their rows ask about, and the names of the tests.
func upstreamRows(t *testing.T) ([]asked, map[string]bool) {
	t.Helper()
	overlay, tests := upstreamTests(t)
	var skipped []string
	for name := range helpers {
		skipped = append(skipped, name)
		if _, has := tests[name]; !has {
			t.Errorf("Cluster API has no test %s any more", name)
		}
		delete(tests, name)
	}
	// -vet=off: the stand-in has unused arguments of helpers that are not run.
	command := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-v", "-overlay", overlay,
		"-skip", "^("+strings.Join(skipped, "|")+")$", "./testdata/tables")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("Cluster API's own tests: %v\n%s", err, out)
	}
	var all []asked
	row := ""
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, is := strings.CutPrefix(lines.Text(), "=== RUN   "); is {
			row = name
		}
		if name, is := strings.CutPrefix(lines.Text(), "=== NAME  "); is {
			row = name
		}
		if text, is := strings.CutPrefix(lines.Text(), "question "); is {
			q := asked{Row: row}
			read(t, json.RawMessage(text), &q)
			all = append(all, q)
		}
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("reading what Cluster API's tests ask: %v, %d questions in\n%s", err, len(all), out)
	}
	return all, tests
}

// upstreamTests writes the file that lets the compiler see Cluster API's tests beside the stand-in, and returns its path and the names
// of the tests.
func upstreamTests(t *testing.T) (string, map[string]bool) {
	t.Helper()
	const webhooks = "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", webhooks).Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("Cluster API's tests: %v, %d files", err, len(files))
	}
	here, err := filepath.Abs("testdata/tables")
	if err != nil {
		t.Fatal(err)
	}
	tests, replace := map[string]bool{}, map[string]string{}
	for _, file := range files {
		replace[filepath.Join(here, filepath.Base(file))] = file
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[f.Name.Name] = false
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, tests
}
