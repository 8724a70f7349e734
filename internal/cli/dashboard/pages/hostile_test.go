package pages_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"github.com/quorate/quorate/internal/cli/dashboard/actions"
	"github.com/quorate/quorate/internal/cli/dashboard/pages"
	"github.com/quorate/quorate/internal/cli/dashboard/recorded"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/plan"
)

// hostile are texts that a page must show as they are, and not obey.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</title><script>alert(1)</script>`,
	`javascript:alert(1)`, `{{.}}`, "`<b>`", "[x](javascript:alert(1))", "</svg><script>alert(1)</script>", "&lt;script&gt;",
	"\x1b[31mred\x1b[0m", "\u202egnp.exe", "\u009b31m", "a\x00b", "--><script>alert(1)</script><!--", "]]><x>",
}

// poison puts a text into each text of a value.
func poison(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() && v.Kind() == reflect.Pointer {
			poison(v.Elem(), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				poison(v.Field(i), text)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), text)
		}
	case reflect.String:
		v.SetString(v.String() + text)
	}
}

// parsed are all elements of a page, as a browser reads it.
func parsed(t *testing.T, page string) []*html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var all []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	return all
}

// TestHostile: names and messages of tenants make no element and no attribute, whatever they hold. No inline script or style is on a page,
// and nothing that a terminal acts on.
func TestHostile(t *testing.T) {
	plain, most := map[string]bool{}, 0
	each := func(text string, do func(page string)) {
		recorded.Lives(3, 6, func(r recorded.Recording) {
			for _, view := range []string{pages.ViewStatus, pages.ViewRules, pages.ViewPlan, pages.ViewHistory} {
				value := addressable(&r, view)
				poison(value, text)
				do(drawn(t, views(r)[view]))
			}
			var b bytes.Buffer
			rows := []pages.Row{{Cluster: r.Cluster, Looked: now, Failed: text}, {Cluster: r.Cluster}}
			if err := pages.Fleet(&b, pages.Frame{Base: "/base/", Assets: "/assets/", Now: now}, text, rows); err != nil {
				t.Fatal(err)
			}
			do(b.String())
			b.Reset()
			if err := pages.Failure(&b, frame(r, pages.ViewPlan), text, text); err != nil {
				t.Fatal(err)
			}
			do(b.String())
			for _, draw := range actionPages(r, text) {
				do(drawn(t, draw))
			}
			f := frame(r, pages.ViewPlan)
			f.Change, f.Query, f.Same = true, text, text
			do(drawn(t, func(b *bytes.Buffer) error {
				typed := pages.Typed{Version: text, Replicas: text, InPlace: text, Policies: []string{"Only"}, Why: "no" + text}
				return pages.Change(b, f, typed, r.Plans)
			}))
		})
	}
	each("", func(page string) {
		for _, e := range parsed(t, page) {
			plain[e.Data] = true
		}
		most++
	})
	for _, text := range hostile {
		each(text, func(page string) {
			for _, e := range parsed(t, page) {
				if !plain[e.Data] && !known[e.Data] {
					t.Fatalf("%q made an element %s", text, e.Data)
				}
				for _, a := range e.Attr {
					value := strings.ToLower(strings.TrimSpace(a.Val))
					switch {
					case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
						t.Fatalf("%q made an attribute %s", text, a.Key)
					case (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(value, "/") &&
						!strings.HasPrefix(value, "?") && !strings.HasPrefix(value, "#"), strings.HasPrefix(value, "//"):
						t.Fatalf("%q made %s=%q", text, a.Key, a.Val)
					}
				}
			}
			if strings.Count(page, "<script") != 1 || strings.Contains(page, "<style") {
				t.Fatalf("%q: there is an inline script or style", text)
			}
			if at := strings.IndexFunc(page, func(r rune) bool {
				return unicode.IsControl(r) && r != '\n' && r != '\t' || r >= 0x202a && r <= 0x202e
			}); at >= 0 {
				t.Fatalf("%q: the page has the character %q", text, page[at:at+4])
			}
		})
	}
	if most != 6*13 || !plain["script"] || !plain["td"] {
		t.Errorf("%d pages with the elements %v", most, plain)
	}
}

// actionPages draw the pages of actions on a recording, with a text in each text.
func actionPages(r recorded.Recording, text string) []func(*bytes.Buffer) error {
	f := frame(r, pages.ViewActions)
	f.Acts = true
	of := actions.All()[0]
	offer := actions.Offer{Action: of, Command: of.Command(r.Key, ""), Plans: r.Plans, Shown: []string{"a line"},
		Writes:   []actions.Write{{Object: "KubeadmControlPlane demo", Patch: "{}", Says: "done"}},
		Upgrades: []report.Upgrade{{Name: "a", Of: "KubeadmControlPlane demo", Version: "v1", Nodes: []report.UpgradedNode{{Machine: "m"}}}}}
	refused := offer
	refused.Why, refused.PlanWhy, refused.Missing = "a reason", "no plan", []actions.Right{{Verb: "patch", Resource: "things", Name: "demo"}}
	left := []actions.Left{{Title: "Replace", When: "then", Effect: "this", Against: "that",
		Commands: []actions.Command{{Text: "quorate replace demo", Machine: "m"}}}}
	outcome := actions.Outcome{Command: "quorate approve demo", Done: []string{"one"}, Gone: []string{"two"}, Come: []string{"three"},
		Missing: refused.Missing, Failed: "four"}
	form := pages.Form{ID: "id", Issued: "1", Shown: "s", Proof: "p"}
	for _, v := range []any{&offer, &refused, &left, &outcome, &form} {
		poison(reflect.ValueOf(v).Elem(), text)
	}
	return []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return pages.Actions(b, f, []actions.Offer{offer, refused}, left) },
		func(b *bytes.Buffer) error { return pages.Action(b, f, offer, form) },
		func(b *bytes.Buffer) error { return pages.Action(b, f, refused, form) },
		func(b *bytes.Buffer) error { return pages.Outcome(b, f, of, now, outcome) },
		func(b *bytes.Buffer) error { return pages.Replacement(b, f, text, text, r.Plans[0], "") },
		func(b *bytes.Buffer) error { return pages.Replacement(b, f, text, text, report.Plan{}, "no plan"+text) },
	}
}

// TestActionPages: an action shows what it writes, its plan and its command, and is confirmed by a button; one that cannot be done has no
// form, and says why and which right is missing. The outcome says what was done, and what changed.
func TestActionPages(t *testing.T) {
	recorded.Lives(3, 1, func(r recorded.Recording) {
		var texts []string
		for _, draw := range actionPages(r, "") {
			texts = append(texts, drawn(t, draw))
		}
		for i, want := range [][]string{
			{"The same as quorate approve", "show the plan and confirm", "Not possible now: a reason", "patch things. demo in namespace",
				"Left to the command line", "quorate replace demo", "Not yet that"},
			{"quorate approve default/", "KubeadmControlPlane demo {}", "What becomes of each machine", "I have read", "Approve",
				"KubeadmControlPlane demo to v1"},
			{"Not possible now: a reason", "You lack the right to: patch things. demo", "There is no plan: no plan"},
			{"Not all was done", "one", "Holds no more two", "Holds now three", "four", "The command was quorate approve demo"},
			{"What the replacement would do", "What becomes of each machine"},
			{"There is no plan: no plan"},
		} {
			for _, w := range want {
				if text := shown(texts[i]); !strings.Contains(text, w) {
					t.Errorf("page %d does not say %q: %s", i, w, text)
				}
			}
			if has := strings.Contains(texts[i], "<form"); has != (i == 1) {
				t.Errorf("page %d has a form: %v", i, has)
			}
		}
	})
}

// known are elements that a page may have or not, whatever the text.
var known = map[string]bool{
	"br": true, "code": true, "ul": true, "li": true, "details": true, "summary": true, "strong": true, "time": true,
}

// section is a part of docs/troubleshooting.md with a table of reasons.
var section = regexp.MustCompile(`(?m)^\| ([A-Z]\w+) \| (.*) \|$`)

// TestReasons: each reason of docs/troubleshooting.md is shown, and each that a control plane can have with what to do about it.
func TestReasons(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	waits, rest, found := strings.Cut(string(page), "\n## Workers that are changed in place\n")
	if !found {
		t.Fatal("docs/troubleshooting.md has other parts")
	}
	n := 0
	recorded.Lives(1, 1, func(r recorded.Recording) {
		r.Cluster.ControlPlane.Name = "demo-cp"
		for _, row := range section.FindAllStringSubmatch(waits, -1) {
			n++
			r.Cluster.ControlPlane.Next = report.Next{Step: "Wait", Rule: "hold", Reason: row[1], Message: "a message"}
			text := shown(drawn(t, views(r)[pages.ViewStatus]))
			for _, want := range []string{row[1], "a message", "It means", "What to do", "What ends it", "quorate explain default/"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s: the page does not say %q", row[1], want)
				}
			}
			if strings.Contains(text, "](") || strings.Contains(text, "`") {
				t.Errorf("%s: the page has Markdown: %s", row[1], text)
			}
		}
		for _, row := range section.FindAllStringSubmatch(rest, -1) {
			n++
			r.Cluster.ControlPlane.Conditions = []report.Condition{{Type: "Ready", Status: "False", Reason: row[1], Message: "a message"}}
			if text := shown(drawn(t, views(r)[pages.ViewStatus])); !strings.Contains(text, row[1]) {
				t.Errorf("%s is not shown", row[1])
			}
		}
	})
	if n < 180 {
		t.Errorf("only %d reasons were found", n)
	}
	t.Logf("%d reasons", n)
}

// TestUnknown: the pages show a missing value as unknown, and never as wanted.
func TestUnknown(t *testing.T) {
	recorded.Lives(1, 1, func(r recorded.Recording) {
		r.Cluster.ControlPlane.CertificateExpiry = report.CertificateExpiry{}
		r.Cluster.ControlPlane.Next = report.Next{}
		r.Cluster.Etcd = report.Etcd{Managed: true, Why: "no member answered"}
		text := shown(drawn(t, views(r)[pages.ViewStatus]))
		for _, want := range []string{
			"Can the API be written? Unknown", "Can it lose another member? Unknown", "The controller has reported no step.",
			"when the first ends is not known", "no member answered",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page does not say %q: %s", want, text)
			}
		}
		var b bytes.Buffer
		if err := pages.Fleet(&b, pages.Frame{Now: now}, "", []pages.Row{{Cluster: r.Cluster}}); err != nil {
			t.Fatal(err)
		}
		if text := shown(b.String()); !strings.Contains(text, "1 Unknown") || strings.Contains(text, "As wanted") ||
			!strings.Contains(text, "not yet") {
			t.Errorf("the page of all says %s", text)
		}
	})
}

// mostBytes is how large the largest page and all that it needs may be together, as they are sent.
const mostBytes = 150 << 10

// fleetOf are so many clusters from recordings.
func fleetOf(n int) []pages.Row {
	var rows []pages.Row
	recorded.Lives(1, n, func(r recorded.Recording) { rows = append(rows, pages.Row{Cluster: r.Cluster, Looked: now}) })
	return rows
}

// TestSize: the page of 500 clusters and all that it needs have a size that a slow line carries.
func TestSize(t *testing.T) {
	var page bytes.Buffer
	if err := pages.Fleet(&page, pages.Frame{Base: "/base/", Assets: "/assets/", Now: now}, "", fleetOf(500)); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := fs.WalkDir(pages.Assets(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(pages.Assets(), path)
		files += compressed(t, content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := compressed(t, page.Bytes()) + files
	if all > mostBytes {
		t.Errorf("page and assets have %d bytes, at most %d", all, mostBytes)
	}
	t.Logf("%d bytes as sent, of them assets %d; the page has %d before it is compressed", all, files, page.Len())
	for _, outside := range []string{"http://", "https://", "//"} {
		if regexp.MustCompile(`(?:src|href|action)="` + outside).Match(page.Bytes()) {
			t.Errorf("the page asks for something that begins with %s", outside)
		}
	}
}

// compressed is how many bytes are sent of a content.
func compressed(t *testing.T, content []byte) int {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Len()
}

// BenchmarkFleet draws the page of 500 clusters.
func BenchmarkFleet(b *testing.B) {
	rows := fleetOf(500)
	var page bytes.Buffer
	for b.Loop() {
		page.Reset()
		if err := pages.Fleet(&page, pages.Frame{Base: "/base/", Assets: "/assets/", Now: now}, "", rows); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFleet: the most urgent clusters stand first, and a cluster that was not looked at yet shows what it is known to wait for.
func TestFleet(t *testing.T) {
	waits := report.Cluster{Namespace: "default", Name: "waits", ControlPlane: report.ControlPlane{
		Name: "cp", Current: true, Next: report.Next{Step: "Wait", Reason: "ApprovalRequired", Message: "revision 7 waits"},
	}, Etcd: report.Etcd{Managed: true, Why: "not looked at yet"}}
	lost := waits
	lost.Name, lost.ControlPlane.Next = "lost", report.Next{Step: "Wait", Reason: "QuorumLost", Message: "2 of 3 are silent"}
	joins := waits
	joins.Name, joins.ControlPlane.Next = "joins", report.Next{Step: "Wait", Reason: "Joining", Message: "2 machines join"}
	members := []plan.Member{{ID: "a", Health: plan.Healthy, Machine: "m"}}
	joins.Etcd = report.NewEtcd(plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true, Members: members})
	rows := []pages.Row{{Cluster: joins, Looked: now}, {Cluster: waits}, {Cluster: joins, Looked: now, Failed: "refused"}, {Cluster: lost}}
	draw := func(query string) string {
		return shown(drawn(t, func(b *bytes.Buffer) error { return pages.Fleet(b, pages.Frame{Now: now}, query, rows) }))
	}
	text, at := draw(""), -1
	for _, want := range []string{
		"4 of 4 not as wanted", "Quorum lost", "Quorum lost default/ lost", "2 of 3 are silent", "Unknown default/ joins",
		"2 machines join refused", "Waits for a person default/ waits", "revision 7 waits", "Working default/ joins",
	} {
		next := strings.Index(text, want)
		if next < at {
			t.Errorf("%q does not follow: %s", want, text)
		}
		at = max(at, next)
	}
	if text := draw("person WAITS"); strings.Contains(text, "default/ lost") || !strings.Contains(text, "default/ waits") {
		t.Errorf("filtered it says %s", text)
	}
	if text := draw("nobody"); !strings.Contains(text, "No cluster matches.") {
		t.Errorf("without a match it says %s", text)
	}
}
