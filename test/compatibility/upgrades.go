// Package compatibility holds docs/compatibility.md against what the code accepts and is built with. It has the upgrades between pinned
// versions of Kubernetes that are to be run on machines, and what was measured where they were.
package compatibility

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// UpgradesFile has what was measured, by its path from the root of the sources. The life versions writes it:
//
//	make e2e RUN=versions CELLS=test/compatibility/upgrades.json CELL=next
const UpgradesFile = "test/compatibility/upgrades.json"

// The ways of an upgrade.
const (
	Rolled  = "rolled"
	InPlace = "in place"
)

// Cell is one way from a version of Kubernetes to another.
type Cell struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Way is Rolled or InPlace.
	Way string `json:"way"`
	// Machines is how many machines the control plane has, Workers how many there are beside it.
	Machines int `json:"machines"`
	Workers  int `json:"workers"`
}

// Name returns the cell's name, by which it is chosen and its cluster is called, such as roll3-1-36-3-1-37-2. Its letters and digits tell
// where a failure is from.
func (c Cell) Name() string {
	way := map[string]string{InPlace: "place", Rolled: "roll"}[c.Way]
	return fmt.Sprintf("%s%d-%s", way, c.Machines, strings.NewReplacer(".", "-", "v", "").Replace(c.From+"-"+c.To))
}

// Next chooses the first cell that was not run, and then the first one that failed.
const Next = "next"

// Choose returns the cells that asked names: all of them if it is empty, one for Next, otherwise those whose names it lists, separated by
// commas. The file of measured upgrades decides what comes next, so that a matrix can be run in pieces.
func Choose(all []Cell, measured []Measured, asked string) ([]Cell, error) {
	switch asked {
	case "":
		return all, nil
	case Next:
		return next(all, measured)
	}
	var chosen []Cell
	for name := range strings.SplitSeq(asked, ",") {
		at := slices.IndexFunc(all, func(c Cell) bool { return c.Name() == name })
		if at < 0 {
			return nil, fmt.Errorf("invalid cell %q: must be %s or some of %s", name, Next, strings.Join(names(all), ", "))
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// next returns the cell that Next stands for.
func next(all []Cell, measured []Measured) ([]Cell, error) {
	failed := []Cell{}
	for _, c := range all {
		at := slices.IndexFunc(measured, func(m Measured) bool { return m.Cell == c })
		switch {
		case at < 0:
			return []Cell{c}, nil
		case !measured[at].Passed:
			failed = append(failed, c)
		}
	}
	if len(failed) == 0 {
		return nil, fmt.Errorf("no cell is left: all %d were run and passed", len(all))
	}
	return failed[:1], nil
}

// names returns the names of cells.
func names(all []Cell) []string {
	var text []string
	for _, c := range all {
		text = append(text, c.Name())
	}
	return text
}

// Measured is what a run of a cell took.
type Measured struct {
	Cell
	// Passed reports whether all was as it had to be; of a run that failed the rest may be missing.
	Passed bool `json:"passed"`
	// Seconds is how long it took from the start of `quorate up` until all nodes had the version.
	Seconds float64 `json:"seconds"`
	// Writes is how many a client tried meanwhile, Failed how many of these failed, and Lost how many were acknowledged and could not be read.
	Writes int `json:"writes"`
	Failed int `json:"failed"`
	Lost   int `json:"lost"`
	// Gap is the longest time between two acknowledged writes, in seconds.
	Gap float64 `json:"gap"`
	// Etcd is the tags of the images of stacked etcd before and after.
	Etcd string `json:"etcd"`
	// Date is the day of the run, in UTC.
	Date string `json:"date"`
}

// Upgrades returns the cells of the pinned versions: three machines and a worker that are replaced, the same in place, and a single machine
// with a worker in place.
func Upgrades() []Cell {
	var all []Cell
	for _, u := range artifacts.Upgrades() {
		all = append(all, Ways(u.From, u.To)...)
	}
	return all
}

// Ways returns the cells from one version to another.
func Ways(from, to string) []Cell {
	return []Cell{{from, to, Rolled, 3, 1}, {from, to, InPlace, 3, 1}, {from, to, InPlace, 1, 1}}
}

// ReadUpgrades returns what a file like UpgradesFile has; nothing, if there is no file.
func ReadUpgrades(path string) ([]Measured, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading measured upgrades: %w", err)
	}
	var all []Measured
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	return all, nil
}

// Rows returns the cells, and then those that were measured between other versions that are pinned: a pin that stays beside a newer patch
// keeps what was measured with it.
func Rows(cells []Cell, measured []Measured) []Cell {
	cells = slices.Clone(cells)
	for _, m := range measured {
		if !slices.Contains(cells, m.Cell) && isPinned(m.From) && isPinned(m.To) {
			cells = append(cells, m.Cell)
		}
	}
	return cells
}

func isPinned(kubernetes string) bool { return slices.Contains(artifacts.Versions(), kubernetes) }

// AddUpgrade writes a run into a file like UpgradesFile, in place of an earlier run of the same cell. Runs of versions that are not pinned
// any more are removed.
func AddUpgrade(path string, run Measured) error {
	all, err := ReadUpgrades(path)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m Measured) bool { return m.Cell == run.Cell })
	all = append(all, run)
	cells := append(Rows(Upgrades(), all), run.Cell) // of FROM and TO, which may be any
	all = slices.DeleteFunc(all, func(m Measured) bool { return !slices.Contains(cells, m.Cell) })
	slices.SortFunc(all, func(a, b Measured) int { return slices.Index(cells, a.Cell) - slices.Index(cells, b.Cell) })
	var text strings.Builder
	encoder := json.NewEncoder(&text) // a line for each
	encoder.SetEscapeHTML(false)
	for i, m := range all {
		text.WriteString(map[bool]string{true: "[\n", false: ","}[i == 0])
		if err := encoder.Encode(m); err != nil {
			return fmt.Errorf("encoding a measured upgrade: %w", err)
		}
	}
	text.WriteString("]\n")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("writing measured upgrades: %w", err)
	}
	return nil
}

// Table returns the lines of a table in Markdown: each cell with what was measured, or that it was not run.
func Table(cells []Cell, measured []Measured) string {
	var b strings.Builder
	b.WriteString("| from | to | way | machines + workers | seconds | failed writes | longest gap, s | lost | stacked etcd | run on |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, c := range cells {
		fmt.Fprintf(&b, "| %s | %s | %s | %d + %d |", c.From, c.To, c.Way, c.Machines, c.Workers)
		at := slices.IndexFunc(measured, func(m Measured) bool { return m.Cell == c })
		switch {
		case at < 0:
			b.WriteString(" | | | | | not run |\n")
		case !measured[at].Passed:
			fmt.Fprintf(&b, " | | | | | failed on %s |\n", measured[at].Date)
		default:
			m := measured[at]
			fmt.Fprintf(&b, " %.0f | %d of %d | %.1f | %d | %s | %s |\n", m.Seconds, m.Failed, m.Writes, m.Gap, m.Lost, m.Etcd, m.Date)
		}
	}
	return b.String()
}
