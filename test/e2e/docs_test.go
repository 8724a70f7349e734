//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/embed"
	"github.com/quorate/quorate/test/docs"
)

// documents runs the commands of the documents that only show, as a reader would who puts names in for the words in capitals.
func documents(t *testing.T, e *environment) {
	e.up(t, "demo")
	shell := newExampleShell(t, e)
	shell.env = append(shell.env, "KUBECONFIG="+embed.PlaneKubeconfigPath(e.state))
	machine := e.machines(t, "demo")[0]
	done := map[string]bool{}
	for _, c := range documented(t, docs.Shows) {
		line := docs.Named(c.Text, machine)
		if done[line] {
			continue
		}
		done[line] = true
		if err := shell.run(line, strings.Contains(line, "--watch")); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	t.Logf("FIGURE %d commands of the documents ran", len(done))
	if len(done) < 20 {
		t.Errorf("only %d commands were run", len(done))
	}
	e.takeDown(t, "demo")
}

// documentsChange runs the commands of the documents that change something: those about one cluster on a cluster, and those that make clusters each on an empty host.
func documentsChange(t *testing.T, e *environment) {
	e.up(t, "demo", "--kubernetes-version", older)
	shell := newExampleShell(t, e)
	shell.env, shell.limit = append(shell.env, "KUBECONFIG="+embed.PlaneKubeconfigPath(e.state)), 10*time.Minute
	signs := installed("openssl")
	if !signs {
		t.Log("there is no openssl: bundles are not signed")
	} else if err := shell.run("openssl genpkey -algorithm ed25519 -out bundle.key && openssl pkey -in bundle.key -pubout -out bundle.pub", false); err != nil {
		t.Fatal(err)
	}
	machine := e.machines(t, "demo")[0]
	ran := 0
	run := func(c docs.Command) {
		t.Helper()
		if strings.Contains(c.Text, "key ") && !signs {
			return
		}
		start := time.Now()
		if err := shell.run(docs.Named(c.Text, machine), strings.Contains(c.Text, "--watch")); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		ran++
		t.Logf("%s: %.1f s", c, time.Since(start).Seconds())
	}
	var making []docs.Command
	for _, c := range documented(t, docs.Changes) {
		if slices.Contains([]string{"docs/classes.md", "docs/control-plane-of-machines.md", "docs/etcd.md"}, c.File) {
			making = append(making, c)
		} else {
			run(c)
		}
	}
	for _, c := range inOrder(making) {
		if strings.HasPrefix(c.Text, "quorate up ") {
			e.quorate(t, "down", "--yes")
		}
		run(c)
	}
	t.Logf("FIGURE %d commands of the documents ran", ran)
	e.quorate(t, "down", "--yes")
}

// inOrder has what is done with a cluster follow the first command of its document, which makes it: the document lists the ways to make one first.
func inOrder(all []docs.Command) []docs.Command {
	slices.SortStableFunc(all, func(a, b docs.Command) int {
		if by := strings.Compare(a.File, b.File); by != 0 || a.Line == b.Line {
			return by
		}
		makesMore := func(c docs.Command) bool {
			return strings.HasPrefix(c.Text, "quorate up ") && slices.ContainsFunc(all, func(o docs.Command) bool { return o.File == c.File && o.Line < c.Line })
		}
		switch {
		case makesMore(a) && !makesMore(b):
			return 1
		case makesMore(b) && !makesMore(a):
			return -1
		}
		return a.Line - b.Line
	})
	return all
}

// documentedInPods runs the commands of the documents that are for a management cluster in which the manager is a pod.
func documentedInPods(t *testing.T, e *environment, cluster, kubeconfig string) {
	shell := newExampleShell(t, e)
	shell.env = append(shell.env, "KUBECONFIG="+kubeconfig)
	another := e.controlPlane(t, cluster)
	another.ObjectMeta = metav1.ObjectMeta{Namespace: another.Namespace, Name: "another"}
	another.TypeMeta = metav1.TypeMeta{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlane"}
	manifest, err := yaml.Marshal(another)
	if err == nil {
		err = os.WriteFile(filepath.Join(shell.folder, "my-control-plane.yaml"), manifest, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := documented(t, docs.InPods)
	for _, c := range all {
		err := shell.run(docs.Named(c.Text, ""), strings.Contains(c.Text, "port-forward"))
		if err != nil && !answersNo(c.Text, err.Error()) {
			t.Errorf("%s: %v", c, err)
		}
	}
	t.Logf("FIGURE %d commands of the documents ran", len(all))
}

// answersNo reports whether a command that failed has answered what it was asked: that something may not be done, was not found, or never was.
func answersNo(line, said string) bool {
	return strings.Contains(line, " auth can-i ") && strings.HasPrefix(said, "exit status 1: no\n") ||
		strings.Contains(line, " | grep ") && said == "exit status 1: " ||
		strings.HasSuffix(line, " --previous") && strings.Contains(said, "previous terminated container")
}

// documented are the commands in blocks of the documents that a test runs as they are written.
func documented(t *testing.T, by string) []docs.Command {
	t.Helper()
	all, err := docs.Commands("../..")
	if err != nil {
		t.Fatal(err)
	}
	var mine []docs.Command
	for _, c := range all {
		if c.Inline {
			continue
		}
		r, err := docs.RunBy(c)
		if err != nil {
			t.Fatal(err)
		}
		if r.By == by && r.Why == "" {
			mine = append(mine, c)
		}
	}
	if len(mine) < 5 {
		t.Fatalf("only %v", mine)
	}
	return mine
}
