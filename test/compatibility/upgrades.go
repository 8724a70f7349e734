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
//	make e2e RUN=versions CELLS=test/compatibility/upgrades.json
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

// Measured is what a run of a cell took.
type Measured struct {
	Cell
	// Passed reports whether all was as it had to be; of a run that failed the rest may be missing.
	Passed bool `json:"passed"`
	// Seconds is how long `quorate up` took.
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

// AddUpgrade writes a run into a file like UpgradesFile, in place of an earlier run of the same cell. Runs of versions that are not pinned
// any more are removed.
func AddUpgrade(path string, run Measured) error {
	all, err := ReadUpgrades(path)
	if err != nil {
		return err
	}
	cells := append(Upgrades(), run.Cell)
	all = slices.DeleteFunc(all, func(m Measured) bool { return m.Cell == run.Cell || !slices.Contains(cells, m.Cell) })
	all = append(all, run)
	slices.SortFunc(all, func(a, b Measured) int { return slices.Index(cells, a.Cell) - slices.Index(cells, b.Cell) })
	lines := make([]string, 0, len(all))
	for _, m := range all {
		line, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("encoding a measured upgrade: %w", err)
		}
		lines = append(lines, string(line))
	}
	text := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
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
