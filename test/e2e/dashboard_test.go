//go:build e2e

package e2e

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/report"
)

// most is how many bytes the first page and what belongs to it may take, as they are sent.
const most = 150 << 10

// dashboard: `quorate dashboard` shows a cluster of this host in a real browser: what happens to it is on the open page soon after the
// commands say it, the keyboard reaches everything, and no rule of accessibility is broken. When the command ends, pages say so.
func dashboard(t *testing.T, e *environment) {
	const name = "victor"
	e.up(t, name, "--replicas", "3")
	address, end := e.dashboard(t)
	b := newBrowser(t)
	start := time.Now()
	b.do(t, "open", address, nil)
	eventually(t, "the fleet is on the page", patience, says(t, b, "default/"+name))
	t.Logf("FIGURE first picture %.2f s after the address was opened", time.Since(start).Seconds())
	var beside besides
	if b.do(t, "seen", "", &beside); beside.Bytes > most || beside.Bytes == 0 {
		t.Errorf("the first page took %.0f bytes, want at most %d", beside.Bytes, most)
	}
	t.Logf("FIGURE the first page and what belongs to it: %.0f bytes", beside.Bytes)
	fleet := b.text(t, "location.href")
	a := accessibility(t)
	a.check(t, b, "fleet")
	keyboard(t, b, `main a[href$="/clusters/default/`+name+`"]`)
	eventually(t, "the page of the cluster", patience, says(t, b, "Can the API be written?"))
	home := b.text(t, "location.href")
	eventually(t, "the page says that all is as wanted", patience, level(t, b, "wanted"))
	for _, view := range []string{"", "/rules", "/plan", "/plan/change?replicas=5", "/history"} {
		b.do(t, "open", home+view, nil)
		eventually(t, "the page "+view, patience, says(t, b, name))
		a.check(t, b, "cluster"+view)
		everything(t, b)
	}
	b.do(t, "open", home, nil)
	eventually(t, "the page of the cluster again", patience, level(t, b, "wanted"))

	victim := e.machines(t, name)[0]
	e.quorate(t, "machine", "stop", victim)
	said := eventually(t, "the command says that no further voter may fail", patience, e.spare(t, name, 0))
	on := eventually(t, "the page says so", patience, level(t, b, "risk"))
	eventually(t, "the page says that the API can be written", patience, says(t, b, "the API server answers, and etcd has a majority"))
	t.Logf("FIGURE a dead machine: told by the command %.1f s after it was stopped, on the page %.1f s later", said.Seconds(), on.Seconds())
	b.picture(t, "dashboard-cluster")
	e.reports(t, name, victim)
	e.quorate(t, "machine", "start", victim)
	eventually(t, "the page says that all is as wanted again", patience, level(t, b, "wanted"))

	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Approval.Policy = controlplanev1.ApprovalRequired
		scheduler := &kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Scheduler
		scheduler.ExtraArgs = append(scheduler.ExtraArgs, bootstrapv1.Arg{Name: "v", Value: ptr.To("3")})
	})
	said = eventually(t, "the control plane waits for an approval", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason != "ApprovalRequired" {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
	on = eventually(t, "the page says so", patience, says(t, b, "ApprovalRequired"))
	t.Logf("FIGURE an approval is needed: in the object %.1f s after the change, on the page %.1f s later", said.Seconds(), on.Seconds())
	a.check(t, b, "cluster that waits")
	b.do(t, "open", home+"/plan", nil)
	eventually(t, "the plan of what is under way", patience, says(t, b, "What becomes of each machine"))
	b.picture(t, "dashboard-plan")
	e.approvesOnPage(t, b, a, name, home)
	b.do(t, "open", fleet, nil)
	eventually(t, "the fleet", patience, says(t, b, "default/"+name))

	code := end()
	gone := eventually(t, "the page says that nothing answers", patience, says(t, b, "Connection lost"))
	t.Logf("FIGURE the command has ended: on the page %.1f s later", gone.Seconds())
	if code != 0 {
		t.Errorf("the command ended with %d", code)
	}
	if b.do(t, "seen", "", &beside); len(beside.Elsewhere) > 0 {
		t.Errorf("the pages asked elsewhere: %v", beside.Elsewhere)
	}
	refused := func(p string) bool { return strings.Contains(p, "ERR_CONNECTION_REFUSED") } // since the command has ended
	if other := slices.DeleteFunc(beside.Problems, refused); len(other) > 0 {
		t.Errorf("problems on the pages: %v", other)
	}
	e.takeDown(t, name)
}

// approvesOnPage approves what waits by the keyboard alone, on the page of the cluster's actions.
func (e *environment) approvesOnPage(t *testing.T, b *browser, a axe, name, home string) {
	t.Helper()
	b.do(t, "open", home+"/actions", nil)
	eventually(t, "the actions", patience, says(t, b, "Left to the command line"))
	a.check(t, b, "actions")
	everything(t, b)
	keyboard(t, b, `main a[href$="/actions/approve"]`)
	eventually(t, "what is approved", patience, says(t, b, "I have read what stands above"))
	a.check(t, b, "an action")
	if found := e.controlPlane(t, name).Annotations[controlplanev1.ApprovedAnnotation]; found != "" {
		t.Errorf("revision %s is approved before it is confirmed", found)
	}
	reach(t, b, "#confirm")
	b.do(t, "key", "Space", nil)
	keyboard(t, b, "main form button")
	eventually(t, "the page says that it is done", patience, says(t, b, "Done."))
	a.check(t, b, "what came of an action")
	eventually(t, "the control plane waits no more for an approval", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason == "ApprovalRequired" {
			return p.Message
		}
		return ""
	})
}

// dashboard starts the command, and returns the address that it prints and what ends it as Ctrl-C does, which returns its exit code.
func (e *environment) dashboard(t *testing.T) (address string, end func() int) {
	t.Helper()
	c := exec.Command(e.binary, "dashboard", "--no-browser")
	c.Env = append(os.Environ(), "QUORATE_STATE="+e.state)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() int {
		ended = true
		_ = c.Process.Signal(syscall.SIGINT)
		_ = c.Wait()
		return c.ProcessState.ExitCode()
	}
	t.Cleanup(func() {
		if !ended {
			end()
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address = regexp.MustCompile(`http://\S+`).FindString(line)
	if err != nil || address == "" {
		t.Fatalf("the command printed %q: %v", line, err)
	}
	return address, end
}

// bootstrapToken is the form of what lets a machine join.
var bootstrapToken = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

// reports has `quorate report` write a file, which has the logs of a broken machine and no secret.
func (e *environment) reports(t *testing.T, name, victim string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "report.zip")
	start := time.Now()
	out := e.quorate(t, "report", name, "--to", to)
	t.Logf("FIGURE quorate report: %.1f s; it printed:\n%s", time.Since(start).Seconds(), out)
	if _, err := e.try("report", name, "--to", to); err == nil {
		t.Error("a file that is there was overwritten")
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	z, err := zip.OpenReader(to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	logs := 0
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(f.Name, "logs/"+victim+"-") && len(text) > 0 {
			logs++
		}
		if found := bootstrapToken.Find(text); found != nil || bytes.Contains(text, []byte("-----BEGIN")) {
			t.Errorf("%s has a secret, or what looks like one: %.8s...", f.Name, found)
		}
	}
	if logs < 5 {
		t.Errorf("of %s there are %d logs in %d files:\n%s", victim, logs, len(z.File), out)
	}
}

// spare says what is missing until `quorate status` says how many voters may fail.
func (e *environment) spare(t *testing.T, name string, want int) func() string {
	return func() string {
		var cluster report.Cluster
		out := e.quorate(t, "status", name, "-o", "json")
		if err := json.Unmarshal([]byte(out), &cluster); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if q := cluster.Quorum(); !q.Known || q.CanStand != want {
			return fmt.Sprintf("the quorum is %+v", q)
		}
		return ""
	}
}

// says says what is missing until the page has a text that can be seen.
func says(t *testing.T, b *browser, text string) func() string {
	return func() string {
		if said := b.text(t, "document.body ? document.body.innerText : ''"); !strings.Contains(said, text) {
			return "the page says " + said
		}
		return ""
	}
}

// level says what is missing until the page is at one of some levels.
func level(t *testing.T, b *browser, wanted ...string) func() string {
	return func() string {
		if is := b.text(t, "document.documentElement.dataset.level"); !slices.Contains(wanted, is) {
			return "the page is at " + is + ": " + b.text(t, "document.body.innerText")
		}
		return ""
	}
}

// keyboard goes to an element by the key Tab, and presses Enter there.
func keyboard(t *testing.T, b *browser, to string) {
	t.Helper()
	reach(t, b, to)
	b.do(t, "key", "Enter", nil)
}

// reach goes to an element by the key Tab.
func reach(t *testing.T, b *browser, to string) {
	t.Helper()
	for range 100 {
		b.do(t, "key", "Tab", nil)
		var there bool
		if b.do(t, "eval", fmt.Sprintf("document.activeElement === document.querySelector(%q)", to), &there); there {
			return
		}
	}
	t.Errorf("the key Tab does not lead to %s", to)
}

// everything expects that the key Tab leads to all that can be used on the page, and that it can be seen where it is.
func everything(t *testing.T, b *browser) {
	t.Helper()
	const all = `[...document.querySelectorAll("a[href], button, input, summary")].filter(e => e.checkVisibility())`
	var number int
	b.do(t, "eval", all+".length", &number)
	b.do(t, "eval", "(document.activeElement.blur(), window.reached = new Set(), 0)", nil)
	for range number + 60 { // tables that can be scrolled are reached too
		b.do(t, "key", "Tab", nil)
		b.do(t, "eval", "(window.reached.add(document.activeElement), 0)", nil)
	}
	var not []string
	b.do(t, "eval", all+`.filter(e => !window.reached.has(e)).map(e => e.outerHTML)`, &not)
	if number == 0 || len(not) > 0 {
		t.Errorf("%s: of %d elements the key Tab does not reach %v", b.text(t, "location.pathname"), number, not)
	}
}

// picture keeps a picture of the page in the folder QUORATE_PICTURES, if there is one.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	if folder := os.Getenv("QUORATE_PICTURES"); folder != "" {
		b.do(t, "picture", filepath.Join(folder, name+".png"), nil)
	}
}

// axe is the text of axe-core, which looks for what keeps people from using a page.
type axe string

// accessibility reads axe-core. QUORATE_AXE is its path.
func accessibility(t *testing.T) axe {
	t.Helper()
	text, err := os.ReadFile(os.Getenv("QUORATE_AXE"))
	if err != nil {
		t.Fatalf("QUORATE_AXE names no axe.min.js: run this by make e2e RUN=dashboard: %v", err)
	}
	return axe(text)
}

// check expects no violation on the page, in both colour schemes, wide and narrow.
func (a axe) check(t *testing.T, b *browser, page string) {
	t.Helper()
	b.do(t, "eval", string(a)+"\n;0", nil)
	for _, width := range []string{"1280", "360"} {
		for _, scheme := range []string{"light", "dark"} {
			b.do(t, "width", width, nil)
			b.do(t, "scheme", scheme, nil)
			var found []struct {
				ID, Help string
				Nodes    []struct{ HTML string }
			}
			b.do(t, "eval", "axe.run(document).then(r => r.violations.map(v => "+
				"({id: v.id, help: v.help, nodes: v.nodes.map(n => ({html: n.html}))})))", &found)
			for _, v := range found {
				t.Errorf("%s, %s pixels, %s: %s (%s): %+.600v", page, width, scheme, v.ID, v.Help, v.Nodes)
			}
			var wide bool
			if b.do(t, "eval", "document.documentElement.scrollWidth > innerWidth", &wide); wide {
				t.Errorf("%s is wider than %s pixels", page, width)
			}
		}
	}
	b.do(t, "width", "1280", nil)
	b.do(t, "scheme", "light", nil)
}
