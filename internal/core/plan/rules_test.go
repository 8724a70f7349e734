package plan

import (
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// TestRulesDescribed: every rule and every reason can be read by a person.
func TestRulesDescribed(t *testing.T) {
	camel := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.Name == "" || r.Says == "" || seen[r.Name] {
			t.Errorf("rule %q: no name, no text, or twice", r.Name)
		}
		seen[r.Name] = true
		for _, g := range r.Gives {
			if !camel.MatchString(g.Word) || g.Says == "" {
				t.Errorf("rule %s: reason %q is not one CamelCase word with a text", r.Name, g.Word)
			}
		}
	}
}

// TestRulesDocumented: docs/rules.md is what the rules are.
func TestRulesDocumented(t *testing.T) {
	got, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Document() {
		t.Error("docs/rules.md is not what the rules are: run go generate ./internal/core/plan")
	}
}

// TestSpan: times are written so coarsely that a message does not change with every look.
func TestSpan(t *testing.T) {
	for want, from := range map[string][2]time.Duration{
		"less than 1 min": {-time.Hour, time.Minute - 1},
		"1 min":           {time.Minute, 2*time.Minute - 1},
		"2 min":           {2 * time.Minute, 5*time.Minute - 1},
		"30 min":          {30 * time.Minute, time.Hour - 1},
		"60 min":          {time.Hour, 2*time.Hour - 1},
		"2 h":             {2 * time.Hour, 6*time.Hour - 1},
		"24 h":            {24 * time.Hour, 48*time.Hour - 1},
		"2 days":          {48 * time.Hour, 72*time.Hour - 1},
	} {
		for _, d := range from {
			if got := span(d); got != want {
				t.Errorf("span(%s) = %s, want %s", d, got, want)
			}
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for name, row := range map[string]string{
		"rest":  "7/abc kubeconfig=364 | 1a 2b 3c 4a 5b 6c 7a | 1^ 2 3 4 5 6 7",
		"grow":  "7/abc kubeconfig=364 | 1a 2b~40s 3c~40s 4a~40s 5b~40s 6c~40s | 1^ 2lu@5s",
		"leave": "5/abc kubeconfig=364 | 1a!! 2b 3c 4a 5b 6c 7ax | 1^ 2 3 4 5 6 7x",
	} {
		o, err := parse(row)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := processor(b)
			for b.Loop() {
				Next(o)
			}
			b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processor is how much of the processor's time this process has used: on a busy
// host it tells more than the time that went by.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkCheck(b *testing.B) {
	o, err := parse("5/abc | 1a 2b 3c 4a 5b 6c 7a | 1^ 2 3 4 5 6 7")
	if err != nil {
		b.Fatal(err)
	}
	d := Next(o)
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(o, d); err != nil {
			b.Fatal(err)
		}
	}
}
