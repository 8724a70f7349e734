package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/test/soak/history"
)

const second = 1_000_000_000

// scene is a history with two rounds, one of which met its fault, and with a violation.
func scene() []history.Entry {
	return []history.Entry{
		{Kind: history.Swap, Client: "writer-1", Object: "cas-0-0", Begin: 1, End: 2 * second, Outcome: history.OK, Value: "a", Revision: 7},
		{Kind: history.Look, Begin: 2 * second, End: 2 * second, Object: "m-1", Items: []history.Item{{Object: "m-1", Value: "there"},
			{Object: "m-2", Value: "there"}}},
		{Kind: history.Look, Begin: 20 * second, End: 20 * second, Object: "m-2", Items: []history.Item{{Object: "m-1", Value: "deleting"},
			{Object: "m-2", Value: "there"}}},
		{Kind: history.Operation, Client: "scale", Round: 1, Begin: 3 * second, End: 20 * second, Outcome: history.OK},
		{Kind: history.Fault, Client: "cut", Object: "m-1", Round: 1, Begin: 4 * second, End: 10 * second, Outcome: history.OK,
			Value: "<script>alert(1)</script>"},
		{Kind: history.Settled, Round: 1, Begin: 20 * second, End: 21 * second, Outcome: history.OK},
		{Kind: history.Operation, Client: "roll", Round: 2, Begin: 30 * second, End: 31 * second, Outcome: history.Unknown, Error: "it failed"},
		{Kind: history.Fault, Client: "freeze", Round: 2, Begin: 40 * second, End: 41 * second, Outcome: history.OK},
		{Kind: history.Settled, Round: 2, Begin: 41 * second, End: 42 * second, Outcome: history.Refused, Value: "JoinFailed: it hangs"},
		{Kind: history.Swap, Client: "writer-1", Object: "cas-0-0", Begin: 9 * second, End: 9 * second, Outcome: history.OK, Expected: 7,
			Value: "b", Revision: 8},
		{Kind: history.Swap, Client: "writer-1", Object: "cas-0-0", Begin: 50 * second, End: 50 * second, Outcome: history.OK, Expected: 8,
			Value: "c", Revision: 9},
		{Kind: history.List, Client: "end", Object: "cas-", Begin: 51 * second, End: 51 * second, Outcome: history.OK, Revision: 9,
			Items: []history.Item{{Object: "cas-0-0", Value: "b", Revision: 8}}},
	}
}

// TestOf: sums, and pairs that were met with their longest gap.
func TestOf(t *testing.T) {
	r := Of(5, []Run{{"one", scene()}, {"two", scene()}})
	if r.Seed != 5 || r.Operations != 8 || r.Acknowledged != 6 || r.Lost != 2 || r.Rounds != 4 || r.Violations == 0 ||
		math.Abs(r.Hours-2*51.0/3600) > 1e-9 {
		t.Errorf("%+v", r)
	}
	want := Pair{Operation: "scale", Fault: "cut", Met: 2, Gap: 41, Bound: 5, Over: true, Settled: 18}
	if len(r.Pairs) != 1 || r.Pairs[0] != want {
		t.Errorf("pairs are %+v, want %+v", r.Pairs, want)
	}
	all := strings.Join(r.Figures(), "\n")
	for _, words := range []string{"scale met cut 2 times: longest gap 41.0 s, above 5.0 s", "roll and freeze did not meet",
		"acknowledged is kept"} {
		if !strings.Contains(all, words) {
			t.Errorf("the figures do not say %q:\n%s", words, all)
		}
	}
}

// TestAlone: an operation that meets no fault has a smaller bound.
func TestAlone(t *testing.T) {
	for fault, over := range map[string]bool{Alone: true, "cut": false} {
		all := scene()
		for i := range all {
			if all[i].Kind == history.Fault && all[i].Round == 1 {
				all[i].Client = fault
			}
			if all[i].Kind == history.Swap && all[i].End == 9*second {
				all[i].End, all[i].Begin = 5*second, 5*second
			}
			if all[i].Kind == history.Swap && all[i].End == 50*second {
				all[i].End, all[i].Begin = 8*second, 8*second
			}
			if all[i].Kind == history.Settled && all[i].Round == 1 {
				all[i].End = 8 * second
			}
			if all[i].Kind == history.Operation && all[i].Round == 1 {
				all[i].End = 7 * second
			}
		}
		if r := Of(5, []Run{{"one", all}}); len(r.Pairs) != 1 || r.Pairs[0].Gap != 3 || r.Pairs[0].Over != over {
			t.Errorf("%s: %+v, want over %v", fault, r.Pairs, over)
		}
	}
}

// TestManager: of the process that lived longest, what it used after its first hour, in the end and at most.
func TestManager(t *testing.T) {
	look := func(process string, at time.Duration, memory int64) history.Entry {
		return history.Entry{Kind: history.Manager, Client: process, Begin: int64(at),
			Items: []history.Item{{Object: "memory", Revision: memory}}}
	}
	all := []history.Entry{look("1", 0, 10), look("1", time.Minute, 90), look("2", 2*time.Minute, 50), look("2", 50*time.Minute, 500),
		look("2", 70*time.Minute, 100), look("2", 3*time.Hour, 130), look("2", 4*time.Hour, 110)}
	want := Usage{Name: "memory", Process: "2", Hours: 238.0 / 60, First: 100, Last: 110, Most: 130}
	if got := usages(all); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want = Usage{Name: "memory", Process: "1", Hours: 1.0 / 60, First: 10, Last: 90, Most: 90}
	if got := usages(all[:3]); len(got) != 1 || got[0] != want {
		t.Errorf("of a young process: %+v, want %+v", got, want)
	}
	if got := usages(scene()); got != nil {
		t.Errorf("no look was taken, and it used %+v", got)
	}
}

// TestPage: the page has what was drawn, needs nothing else, and what comes from a cluster is text in it.
func TestPage(t *testing.T) {
	runs := []Run{{"one", scene()}}
	var out bytes.Buffer
	if err := Of(5, runs).HTML(&out, runs); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, outside := range []string{"<script", "<link", "<img", "<iframe", "src=", "href=", "url(", "@import"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %s", outside)
		}
	}
	for _, words := range []string{"&lt;script&gt;", `class="machine leads"`, `class="machine deleting"`, `class="operation failed"`,
		`class="fault"`, `class="gap"`, `class="violation"`, "acknowledged is kept", "JoinFailed: it hangs", ">m-2</text>", ">41.0</td>"} {
		if !strings.Contains(page, words) {
			t.Errorf("the page does not have %s", words)
		}
	}
	if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "NaN") {
		t.Error("a value is missing in the page")
	}
}

// TestWrite: histories in files become a page and JSON; without one it is an error.
func TestWrite(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "cluster-1.jsonl")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	r := history.NewRecorder(out)
	for _, e := range scene() {
		r.Write(e)
	}
	out.Close()
	wrote, err := Write(folder, "soak", 5, []string{file})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "soak.json"))
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(text, &again); err != nil || again.Operations != wrote.Operations || again.Clusters[0].Name != "cluster-1" {
		t.Errorf("%+v, %v", again, err)
	}
	if page, err := os.ReadFile(filepath.Join(folder, "soak.html")); err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("the page has %d bytes, %v", len(page), err)
	}
	if _, err := Write(folder, "soak", 5, []string{file + "x"}); err == nil {
		t.Error("a file that is not there was judged")
	}
}
