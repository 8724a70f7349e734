//go:build e2e

package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/test/docs"
)

// documents runs the commands of the documents that only show, as a reader would who puts names in for the words in capitals. The others are listed: those that change
// something, or need a management cluster in which Quorate runs as a pod.
func documents(t *testing.T, e *environment) {
	e.up(t, "demo")
	all, err := docs.Commands("../..")
	if err != nil {
		t.Fatal(err)
	}
	shell := newExampleShell(t, e)
	shell.env = append(shell.env, "KUBECONFIG="+filepath.Join(e.state, "management", "kubeconfig"))
	names := strings.NewReplacer("KIND NAME", "kubeadmcontrolplane demo-cp", "NAMESPACE", "default", "MACHINE", e.machines(t, "demo")[0],
		"CLUSTER", "demo", "CONTROL-PLANE", "demo-cp", "name=NAME", "name=demo")
	ran, left := 0, 0
	done := map[string]bool{}
	for _, c := range all {
		line := names.Replace(c.Text)
		switch {
		case c.Inline || done[line]:
			continue
		case !shown(line) || placeholder.MatchString(line):
			left++
			t.Logf("not run: %s", c)
			continue
		}
		done[line] = true
		ran++
		if err := shell.run(line, strings.Contains(line, "--watch")); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	t.Logf("FIGURE %d commands of the documents ran, %d did not", ran, left)
	if ran < 20 {
		t.Errorf("only %d commands were run", ran)
	}
	e.takeDown(t, "demo")
}

var (
	// placeholder matches a word that a reader is to replace.
	placeholder = regexp.MustCompile(`\b[A-Z][A-Z-]{2,}\b|\$N\b`)
	asking      = regexp.MustCompile(`^kubectl (-n \S+ )?(get|describe|logs|auth can-i)\b|^quorate (status|explain|history|logs|plan)\b|--dry-run`)
	// elsewhere matches what an environment of `quorate up` does not have.
	elsewhere = regexp.MustCompile(`quorate-system|changed\.yaml|cluster\.yaml|cluster\.kubeconfig|my-control-plane|awsmachines|apart|\bmachines;|status machines|explain machines|jq|before\.txt|kubeconfig --|>`)
)

// shown reports whether a command only shows something, which an environment of `quorate up` has.
func shown(line string) bool { return asking.MatchString(line) && !elsewhere.MatchString(line) }
