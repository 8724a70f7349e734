package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/test/soak/history"
)

// width is that of a timeline, lane the height of one of its lanes, and left where time begins.
const (
	width = 1200
	lane  = 18
	left  = 170
)

// bar is a part of a lane.
type bar struct {
	Class string
	Text  string
	X, W  float64
}

// row is a lane of a timeline.
type row struct {
	Name string
	Y    int
	Bars []bar
}

// TextY returns where the name of the lane stands.
func (r row) TextY() int { return r.Y + 11 }

// tick is a mark of time.
type tick struct {
	X    float64
	Text string
}

// timeline is what a page shows of a cluster over time.
type timeline struct {
	Width, Height int
	Left          int
	Rows          []row
	Ticks         []tick
}

// draw returns the timeline of a run.
func draw(run Run, c Cluster) timeline {
	end := max(lasted(run.Entries), 1)
	t := timeline{Width: width, Left: left}
	scale := float64(width-left) / float64(end)
	shown := func(class string, from, to int64, text string) bar {
		return bar{class, fmt.Sprintf("%s (%.1f s to %.1f s)", text, seconds(from), seconds(to)), left + float64(from)*scale,
			max(float64(to-from)*scale, 1.5)}
	}
	operations, faults, gaps, broken := row{Name: "operations"}, row{Name: "faults"}, row{Name: "no write"}, row{Name: "violations"}
	for _, e := range run.Entries {
		switch e.Kind {
		case history.Operation:
			operations.Bars = append(operations.Bars, shown(class(e.Outcome, "operation"), e.Begin, e.End, e.Client+" "+e.Error))
		case history.Fault:
			faults.Bars = append(faults.Bars, shown(class(e.Outcome, "fault"), e.Begin, e.End, e.Client+" "+e.Object+": "+e.Value+" "+e.Error))
		}
	}
	for _, g := range c.Gaps {
		gaps.Bars = append(gaps.Bars, shown("gap", g.Begin, g.End, fmt.Sprintf("no write for %.1f s", seconds(g.End-g.Begin))))
	}
	for _, v := range c.Verdict.Violations {
		broken.Bars = append(broken.Bars, shown("violation", v.At, v.At, string(v.Rule)+": "+v.Text))
	}
	t.Rows = append([]row{operations, faults, gaps, broken}, machines(run.Entries, shown)...)
	for i := range t.Rows {
		t.Rows[i].Y = 24 + i*lane
	}
	t.Height = 24 + len(t.Rows)*lane + 6
	every := tickEvery(end)
	for at := int64(0); at <= end; at += int64(every) {
		t.Ticks = append(t.Ticks, tick{left + float64(at)*scale, time.Duration(at).String()})
	}
	return t
}

// class is how a bar of a kind looks that came out so.
func class(o history.Outcome, kind string) string {
	if o != history.OK {
		return kind + " failed"
	}
	return kind
}

// machines returns a lane for each machine: when it was there, when it was being deleted, and when its member led.
func machines(all []history.Entry, shown func(class string, from, to int64, text string) bar) []row {
	var names []string
	bars := map[string][]bar{}
	type stretch struct {
		class    string
		from, to int64
	}
	current := map[string]*stretch{}
	flush := func(name string) {
		if s := current[name]; s != nil {
			bars[name] = append(bars[name], shown("machine "+s.class, s.from, s.to, name+" "+s.class))
			delete(current, name)
		}
	}
	for _, e := range all {
		if e.Kind != history.Look {
			continue
		}
		seen := map[string]bool{}
		for _, m := range e.Items {
			seen[m.Object] = true
			if !slices.Contains(names, m.Object) {
				names = append(names, m.Object)
			}
			is := m.Value
			if e.Object == m.Object {
				is = "leads"
			}
			if s := current[m.Object]; s == nil || s.class != is {
				flush(m.Object)
				current[m.Object] = &stretch{is, e.Begin, e.Begin}
			}
			current[m.Object].to = e.End
		}
		for _, name := range names {
			if !seen[name] {
				flush(name)
			}
		}
	}
	var rows []row
	for _, name := range names {
		flush(name)
		rows = append(rows, row{Name: name, Bars: bars[name]})
	}
	return rows
}

// tickEvery returns the time between two marks, so that there are about ten.
func tickEvery(end int64) time.Duration {
	for _, every := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
		30 * time.Minute} {
		if time.Duration(end)/every <= 12 {
			return every
		}
	}
	return time.Hour
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }
