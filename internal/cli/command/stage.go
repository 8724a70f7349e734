package command

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/local/artifacts"
)

// Stage runs one part of the work and keeps a line about it, with the time that it took.
func Stage(s *screen.Screen, name string, do func() (string, error)) error {
	begun := time.Now()
	if s.Live() {
		s.Draw([]screen.Row{{Key: name, Line: screen.Line{{Text: "· "}, {Text: name}}}})
	}
	summary, err := do()
	s.Clear()
	if err != nil {
		s.Print(screen.Line{{Text: "✗ ", Colour: screen.Bad}, {Text: name}})
		return err
	}
	s.Print(screen.Line{
		{Text: "✓ ", Colour: screen.Good}, {Text: fmt.Sprintf("%-18s", name)}, {Text: summary},
		{Text: "  " + report.Elapsed(time.Since(begun)), Colour: screen.Faint},
	})
	return nil
}

// Ticker draws rows again every now and then, so that durations run on while nothing is reported.
type Ticker struct {
	screen *screen.Screen
	mutex  sync.Mutex
	rows   map[string]tickerRow
	ends   chan struct{}
	ended  chan struct{}
}

// worthALine is how long something must take for a line that stays, where lines cannot be redrawn.
const worthALine = time.Second

type tickerRow struct {
	order int
	begun time.Time
	line  screen.Line
	done  bool
}

// NewTicker draws until Stop.
func NewTicker(s *screen.Screen) *Ticker {
	t := &Ticker{screen: s, rows: map[string]tickerRow{}, ends: make(chan struct{}), ended: make(chan struct{})}
	go t.run()
	return t
}

func (t *Ticker) run() {
	defer close(t.ended)
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-t.ends:
			return
		case <-again.C:
			t.mutex.Lock()
			t.draw()
			t.mutex.Unlock()
		}
	}
}

// Stop ends the drawing.
func (t *Ticker) Stop() {
	close(t.ends)
	<-t.ended
}

// Say replaces the only row by a text.
func (t *Ticker) Say(text string) {
	t.set("", screen.Line{{Text: "  " + text}}, time.Now(), false)
}

// Product reports an artifact. Only what takes time is worth a row.
func (t *Ticker) Product(p artifacts.Progress) {
	name := "  " + p.Product + " " + p.Version + "  "
	line := screen.Line{{Text: name}, {Text: string(p.Phase)}}
	if p.Detail != "" {
		line = append(line, screen.Span{Text: ": " + p.Detail, Colour: screen.Faint})
	}
	done := slices.Contains([]string{"cached", "built", "failed", "exported", "imported"}, string(p.Phase))
	if p.Phase == "cached" || p.Phase == "checking" {
		t.remove(p.Product + p.Version)
		return
	}
	t.set(p.Product+p.Version, line, time.Now().Add(-p.Elapsed), done)
}

// remove takes a row away.
func (t *Ticker) remove(key string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.rows, key)
}

func (t *Ticker) set(key string, line screen.Line, begun time.Time, done bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	row, known := t.rows[key]
	if !known {
		row.order = len(t.rows)
	}
	row.line, row.begun, row.done = line, begun, done
	t.rows[key] = row
	t.draw()
}

func (t *Ticker) draw() {
	keys := make([]string, 0, len(t.rows))
	for k := range t.rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(t.rows[a].order-t.rows[b].order, cmp.Compare(a, b)) })
	rows := make([]screen.Row, 0, len(keys))
	for _, k := range keys {
		if !t.screen.Live() && time.Since(t.rows[k].begun) < worthALine {
			continue
		}
		row := screen.Row{Key: k, Line: t.rows[k].line}
		if !t.rows[k].done {
			row.Aside = report.Elapsed(time.Since(t.rows[k].begun))
		}
		rows = append(rows, row)
	}
	t.screen.Draw(rows)
}
