//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/local/embed"
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

// documentsChange runs the commands of the documents that change something: those about one cluster on a cluster, and those that make
// clusters each on an empty host.
//
//quorate:shows kubernetes created older
func documentsChange(t *testing.T, e *environment) {
	e.up(t, "demo", "--kubernetes-version", older)
	shell := newExampleShell(t, e)
	shell.env, shell.limit = append(shell.env, "KUBECONFIG="+embed.PlaneKubeconfigPath(e.state)), 10*time.Minute
	signs := installed("openssl")
	if !signs {
		t.Log("there is no openssl: bundles are not signed")
	}
	machine := e.machines(t, "demo")[0]
	done := map[string]bool{}
	run := func(c docs.Command) {
		t.Helper()
		line := docs.Named(c.Text, machine)
		if done[line] || strings.Contains(line, "key ") && !signs {
			return
		}
		start := time.Now()
		if err := e.documentedLine(t, shell, c, line, machine); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		done[line] = true
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
	t.Logf("FIGURE %d commands of the documents ran", len(done))
	e.quorate(t, "down", "--yes")
}

// documentedLine runs a line of a document: in the shell, or, where it is etcdctl's, on a machine, with the variables that the document
// has.
func (e *environment) documentedLine(t *testing.T, shell exampleShell, c docs.Command, line, machine string) error {
	t.Helper()
	if c.Program() != "etcdctl" {
		return shell.run(line, strings.Contains(line, "--watch"))
	}
	text, err := os.ReadFile(filepath.Join("../..", c.File))
	if err != nil {
		t.Fatal(err)
	}
	script := append(regexp.MustCompile(`export ETCDCTL_.*`).FindAllString(string(text), -1), line)
	_, err = e.try("shell", machine, "--", "sh", "-c", strings.Join(script, "\n"))
	return err
}

// documentsMake runs the commands of the documents that are for somebody who has the sources, in a clone of them with the tag of a first
// release.
func documentsMake(t *testing.T, e *environment) {
	e.quorate(t, "down", "--yes") // they make environments of their own, on a host that has none
	shell := newSourceShell(t, e)
	ran := 0
	for _, c := range documented(t, docs.Makes) {
		line, start := c.Text, time.Now()
		if strings.Contains(line, "QUORATE_BUNDLE=") {
			line = "quorate artifacts export --to quorate-bundle.tar.zst && QUORATE_CACHE=" + shell.emptyCache + " " + line
		}
		if err := shell.run(line, false); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		ran++
		t.Logf("FIGURE %s: %.0f s", c, time.Since(start).Seconds())
		e.quorate(t, "down", "--yes")
	}
	if _, err := os.Stat(filepath.Join(shell.folder, "dist", "SHA256SUMS")); err != nil {
		t.Fatal(err)
	}
	if err := shell.run("cd dist && sha256sum --check SHA256SUMS && grep quorate-bundle- SHA256SUMS && du -sh images/*", false); err != nil {
		t.Error(err)
	}
	e.quorate(t, "down", "--yes")
}

// documentsBench runs the commands of the documents that compare Quorate with upstream. What they measured stays in the folder that is
// logged.
func documentsBench(t *testing.T, e *environment) {
	e.quorate(t, "down", "--yes") // it would take processor time
	shell := newSourceShell(t, e)
	for _, c := range documented(t, docs.Measures) {
		start := time.Now()
		if err := shell.run(c.Text+" >>bench.log", false); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		t.Logf("FIGURE %s: %.0f s", c, time.Since(start).Seconds())
	}
	measured, err := os.ReadFile(filepath.Join(shell.folder, "bench.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", measured)
}

// sourceShell is a shell in a clone of the repository, as somebody has it who develops or releases.
type sourceShell struct {
	exampleShell
	// emptyCache is a folder for artifacts in which there are none.
	emptyCache string
}

func newSourceShell(t *testing.T, e *environment) sourceShell {
	t.Helper()
	s := sourceShell{exampleShell: newExampleShell(t, e), emptyCache: t.TempDir()}
	s.limit = 2 * time.Hour
	sources, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.run("git clone --quiet "+sources+" quorate && git -C quorate tag v0.1.0", false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} { // of the real home
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		s.env = append(s.env, name+"="+strings.TrimSpace(string(out)))
	}
	s.folder = filepath.Join(s.folder, "quorate")
	s.env = append(s.env, "PATH="+filepath.Join(s.folder, "bin")+":"+pathIn(s.env), "QUORATE_RECORD="+filepath.Join(s.folder, "test",
		"releases", "v1.4.0"))
	return s
}

// inOrder has what is done with a cluster follow the first command of its document, which makes it: the document lists the ways to make one
// first.
func inOrder(all []docs.Command) []docs.Command {
	slices.SortStableFunc(all, func(a, b docs.Command) int {
		if by := strings.Compare(a.File, b.File); by != 0 || a.Line == b.Line {
			return by
		}
		makesMore := func(c docs.Command) bool {
			return strings.HasPrefix(c.Text, "quorate up ") &&
				slices.ContainsFunc(all, func(o docs.Command) bool { return o.File == c.File && o.Line < c.Line })
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
	shell.env, shell.limit = append(shell.env, "KUBECONFIG="+kubeconfig), 3*time.Minute
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
	if err := shell.run("kubectl create serviceaccount me && kubectl create token me --duration 1h >token", false); err != nil {
		t.Fatal(err)
	}
	shell.definitions(t)
	all := documented(t, docs.InPods)
	for _, c := range all {
		line := docs.Named(c.Text, "")
		if c.Program() == "curl" {
			if !installed("curl") {
				t.Logf("there is no curl: %s", c)
				break // what follows reads what it fetches
			}
			// The line before it, in another shell; its end is that of this one.
			line = "kubectl -n quorate-system port-forward deploy/quorate-manager 8443 & trap 'kill $!' EXIT; TOKEN=$(cat token); " +
				strings.Replace(line, "curl ", "curl --fail --retry 20 --retry-all-errors --retry-delay 1 ", 1)
		}
		err := shell.run(line, c.Program() == "kubectl" && strings.Contains(line, " port-forward "))
		if err != nil && !answersNo(c.Text, err.Error()) {
			t.Errorf("%s: %v", c, err)
		}
	}
	t.Logf("FIGURE %d commands of the documents ran", len(all))
}

// definitions installs the definitions of the Prometheus operator that the documents' manifests need, from its module.
func (s exampleShell) definitions(t *testing.T) {
	t.Helper()
	const module, sum = "github.com/prometheus-operator/prometheus-operator@v0.93.0", "h1:AohlYJT+En8TmNpAcEUJ3GsaJTAqfEBwHmGTVpRm/Io="
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", module, err, out)
	}
	var got struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &got); err != nil || got.Sum != sum {
		t.Fatalf("%s has the sum %s, want %s: %v", module, got.Sum, sum, err)
	}
	crd := filepath.Join(got.Dir, "example", "prometheus-operator-crd", "monitoring.coreos.com_")
	err = s.run("kubectl apply --server-side -f "+crd+"servicemonitors.yaml -f "+crd+"prometheusrules.yaml && "+
		"kubectl wait --for=condition=Established --timeout=1m crd/servicemonitors.monitoring.coreos.com "+
		"crd/prometheusrules.monitoring.coreos.com", false)
	if err != nil {
		t.Fatal(err)
	}
}

// answersNo reports whether a command that failed has answered what it was asked: that something may not be done, was not found, or never
// was.
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
