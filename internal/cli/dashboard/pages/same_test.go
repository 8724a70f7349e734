package pages_test

import (
	"bytes"
	"fmt"
	"html"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cli/dashboard/pages"
	"github.com/quorate/quorate/internal/cli/dashboard/recorded"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/program/plaintext"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// recordings is how many moments of random worlds are compared.
const recordings = 1000

func frame(r recorded.Recording, view string) pages.Frame {
	return pages.Frame{Base: "/base/", Assets: "/assets/", Now: now, Looked: now, Namespace: r.Key.Namespace, Name: r.Key.Name, View: view}
}

// views draw each page of a recording, by the name of the view.
func views(r recorded.Recording) map[string]func(*bytes.Buffer) error {
	return map[string]func(*bytes.Buffer) error{
		pages.ViewStatus: func(b *bytes.Buffer) error {
			return pages.Cluster(b, frame(r, pages.ViewStatus), r.Cluster, []report.History{r.History})
		},
		pages.ViewRules:   func(b *bytes.Buffer) error { return pages.Rules(b, frame(r, pages.ViewRules), r.Explanation) },
		pages.ViewPlan:    func(b *bytes.Buffer) error { return pages.Plans(b, frame(r, pages.ViewPlan), r.Plans) },
		pages.ViewHistory: func(b *bytes.Buffer) error { return pages.History(b, frame(r, pages.ViewHistory), r.History) },
	}
}

// data are what the commands print, by the name of the view.
func data(r recorded.Recording) map[string]any {
	return map[string]any{pages.ViewStatus: r.Cluster, pages.ViewRules: r.Explanation, pages.ViewPlan: r.Plans, pages.ViewHistory: r.History}
}

func drawn(t *testing.T, draw func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var tags = regexp.MustCompile(`<[^>]*>`)

// shown is what a page says: its text and the times in it, with one blank between words.
func shown(page string) string {
	times := regexp.MustCompile(`datetime="([^"]*)"`).ReplaceAllString(page, `>$1<`)
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(times, " "))), " ")
}

// leaves calls do with each text and number of a value, as the commands print it. A step is one value: people read it as one.
func leaves(v reflect.Value, path string, do func(path, text string)) {
	switch value := v.Interface().(type) {
	case time.Time:
		if !value.IsZero() {
			do(path, value.UTC().Format(time.RFC3339Nano))
		}
		return
	case plan.Step:
		if value.Verb != "" {
			do(path, value.String())
		}
		return
	case forecast.Duration:
		do(path, value.String())
		return
	case report.Recovery: // the words of a backup that is not wanted are no page's
		if !value.Wanted {
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			leaves(v.Elem(), path, do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !strings.HasPrefix(f.Tag.Get("json"), "-") {
				leaves(v.Field(i), path+"."+f.Name, do)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), do)
		}
	case reflect.String:
		if v.String() != "" {
			do(path, v.String())
		}
	case reflect.Int:
		do(path, fmt.Sprint(v.Int()))
	}
}

// silent are what pages say in other words, or leave to others.
var silent = regexp.MustCompile(`\.(Took|Duration|Again|Verb|Count|Voters|Spare|LeastSpare|Majority|Healthy|CanStand|Ahead)\b|` +
	`Steps\[\d+\]\.(Held|At)|Entries\[\d+\]\.(Machine|Last)|\.Cluster$|\.Approval$`)

// TestSame: each text, name, number and time that the commands print with -o json stands on the page of the same moment.
func TestSame(t *testing.T) {
	n, compared := 0, 0
	recorded.Lives(1, recordings, func(r recorded.Recording) {
		n++
		for view, draw := range views(r) {
			text := shown(drawn(t, draw))
			leaves(reflect.ValueOf(data(r)[view]), view, func(path, want string) {
				if silent.MatchString(path) {
					return
				}
				compared++
				if want = strings.Join(strings.Fields(plaintext.Visible(want)), " "); !strings.Contains(text, want) {
					t.Errorf("%s: %s is %q, and the page does not say it", r.Key.Name, path, want)
				}
			})
		}
	})
	if n != recordings || compared < 100*recordings {
		t.Errorf("%d values of %d recordings were compared", compared, n)
	}
	t.Logf("%d values of %d recordings", compared, n)
}

// TestEachFieldShows: a page changes with each field of the data. So it says booleans and numbers too, in whatever words.
func TestEachFieldShows(t *testing.T) {
	fields := 0
	recorded.Lives(7, 12, func(r recorded.Recording) {
		for view := range views(r) {
			before := drawn(t, views(r)[view])
			mutate(addressable(&r, view), view, func(path string) {
				if unshown.MatchString(path) {
					return
				}
				fields++
				if after := drawn(t, views(r)[view]); after == before {
					t.Errorf("%s: the page of %s is the same with another %s", r.Key.Name, view, path)
				}
			})
		}
	})
	if fields < 1000 {
		t.Errorf("only %d fields were changed", fields)
	}
}

// unshown are fields that no page shows, each with its reason.
var unshown = regexp.MustCompile(`^status\.(Namespace|Name)$|` + // the address says them
	`^(rules|plan\[\d+\]|history)\.(Cluster|Namespace)$|` +
	`Verdicts\[\d+\]\.Decision\.Rule$|` + // the rule of the row
	`Steps\[\d+\]\.Decision\.Again$|` + // the times of a plan are those of its steps
	`\.Entries\[\d+\]\.(Verb|Machine|Error|Last|Count|Ahead)$`)

// addressable is the data of a view, to be changed in place.
func addressable(r *recorded.Recording, view string) reflect.Value {
	switch view {
	case pages.ViewStatus:
		return reflect.ValueOf(&r.Cluster).Elem()
	case pages.ViewRules:
		return reflect.ValueOf(&r.Explanation).Elem()
	case pages.ViewPlan:
		return reflect.ValueOf(&r.Plans).Elem()
	}
	return reflect.ValueOf(&r.History).Elem()
}

// mutate changes one text, number, boolean or time after the other, calls do, and puts it back.
func mutate(v reflect.Value, path string, do func(path string)) {
	switch at := v.Interface().(type) {
	case plan.Step: // one value, which TestSame compares
		return
	case time.Time:
		if !at.IsZero() {
			v.Set(reflect.ValueOf(at.Add(77 * time.Hour)))
			do(path)
			v.Set(reflect.ValueOf(at))
		}
		return
	case report.ControlPlane: // one without a name is none
		if at.Name == "" {
			return
		}
	case plan.Decision: // of a rule that passes
		if at.Rule == "" {
			return
		}
	case forecast.Strength: // of machines without etcd
		if at.Voters == 0 {
			return
		}
	case report.Etcd: // one that Quorate does not keep is not known
		if !at.Managed {
			return
		}
	}
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !strings.HasPrefix(f.Tag.Get("json"), "-") {
				mutate(v.Field(i), strings.TrimSuffix(path+"."+f.Name, ".Forecast"), do)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			mutate(v.Index(i), fmt.Sprintf("%s[%d]", path, i), do)
		}
	case reflect.String:
		if v.String() == "" {
			return
		}
		v.SetString(v.String() + "-other")
		do(path)
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 98765432100)
		do(path)
	case reflect.Bool:
		v.SetBool(!v.Bool())
		do(path)
	default:
		return
	}
	v.Set(old)
}
