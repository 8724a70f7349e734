package compatibility

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// TestUpgradesFile: a run takes the place of an earlier one of its cell, runs are in the order of the cells, and runs of versions that are
// not pinned are removed.
func TestUpgradesFile(t *testing.T) {
	file, cells := filepath.Join(t.TempDir(), "upgrades.json"), Upgrades()
	if all, err := ReadUpgrades(file); err != nil || len(all) > 0 {
		t.Fatalf("without a file: %v, %v", all, err)
	}
	foreign := Measured{Cell: Cell{"v1.1.1", "v1.1.2", Rolled, 3, 1}, Passed: true}
	first, second := Measured{Cell: cells[0], Passed: true, Etcd: "3.6.8-0 -> 3.7.0-0"}, Measured{Cell: cells[2], Passed: true}
	for _, run := range []Measured{foreign, second, {Cell: cells[0], Seconds: 1}, first} {
		if err := AddUpgrade(file, run); err != nil {
			t.Fatal(err)
		}
		if all, err := ReadUpgrades(file); err != nil || !slices.Contains(all, run) {
			t.Errorf("%+v is not in %+v, %v", run, all, err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 4 || !strings.Contains(string(text), "3.6.8-0 -> 3.7.0-0") {
		t.Errorf("not a readable line for each run: %s, %v", text, err)
	}
	all, err := ReadUpgrades(file)
	if want := []Measured{first, second}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%+v, %v, want %+v", all, err, want)
	}
}

// TestChoose: cells are run by name, or one after the other by what the file has, and a name that is none is refused.
func TestChoose(t *testing.T) {
	all := append(Ways("v1.36.3", "v1.37.2"), Ways("v1.35.4", "v1.36.3")...)
	passed := func(cells ...Cell) (runs []Measured) {
		for _, c := range cells {
			runs = append(runs, Measured{Cell: c, Passed: true})
		}
		return runs
	}
	for name, test := range map[string]struct {
		measured []Measured
		asked    string
		want     []Cell
		wrong    string
	}{
		"all":         {passed(all[0]), "", all, ""},
		"by name":     {passed(all[1]), "place3-1-36-3-1-37-2", all[1:2], ""},
		"two by name": {nil, "roll3-1-35-4-1-36-3,place1-1-36-3-1-37-2", []Cell{all[3], all[2]}, ""},
		"no name": {nil, "roll3-1-35-4-1-36-3,roll5", nil,
			`invalid cell "roll5": must be next or some of roll3-1-36-3-1-37-2, place3-1-36-3-1-37-2, `},
		"next of none":             {nil, Next, all[:1], ""},
		"next":                     {passed(all[0], all[2]), Next, all[1:2], ""},
		"what failed comes last":   {append(passed(all[1], all[2], all[3]), Measured{Cell: all[0]}), Next, all[4:5], ""},
		"what failed, comes again": {append(passed(all[1:]...), Measured{Cell: all[0]}), Next, all[:1], ""},
		"all passed":               {passed(all...), Next, nil, "no cell is left: all 6 were run and passed"},
	} {
		cells, err := Choose(all, test.measured, test.asked)
		if got := fmt.Sprint(err); !slices.Equal(cells, test.want) || !strings.HasPrefix(got, cmp.Or(test.wrong, "<nil>")) {
			t.Errorf("%s: %v, %s; want %v, %s", name, cells, got, test.want, test.wrong)
		}
	}
	seen := map[string]bool{}
	for _, c := range Upgrades() {
		if seen[c.Name()] {
			t.Errorf("two cells are called %s", c.Name())
		}
		seen[c.Name()] = true
	}
}

// TestUpgradesTable: a cell that failed, or was not run, says so.
func TestUpgradesTable(t *testing.T) {
	cells := Ways("v1.36.2", "v1.36.3")
	table := Table(cells, []Measured{
		{Cell: cells[0], Passed: true, Seconds: 80.3, Writes: 964, Gap: 0.62, Etcd: "3.6.8-0", Date: "2026-11-27"},
		{Cell: cells[1], Date: "2026-11-28"},
	})
	for _, want := range []string{
		"| v1.36.2 | v1.36.3 | rolled | 3 + 1 | 80 | 0 of 964 | 0.6 | 0 | 3.6.8-0 | 2026-11-27 |\n",
		"| v1.36.2 | v1.36.3 | in place | 3 + 1 | | | | | | failed on 2026-11-28 |\n",
		"| v1.36.2 | v1.36.3 | in place | 1 + 1 | | | | | | not run |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no line %q in\n%s", want, table)
		}
	}
}

// TestRows: what was measured between pinned versions stays when it is no cell any more, as a newer patch was pinned beside.
func TestRows(t *testing.T) {
	versions, cells := artifacts.Versions(), Upgrades()
	newest := artifacts.NewestPatches()
	stays := Cell{versions[slices.Index(versions, newest[1])+1], newest[0], Rolled, 3, 1} // from the second patch of the minor version before
	if slices.Contains(cells, stays) {
		t.Fatalf("%v is a cell", stays)
	}
	rows := Rows(cells, []Measured{{Cell: stays}, {Cell: cells[0]}, {Cell: Cell{"v1.1.1", versions[0], Rolled, 3, 1}}})
	if want := append(Upgrades(), stays); !slices.Equal(rows, want) {
		t.Errorf("%v, want %v", rows, want)
	}
	file := filepath.Join(t.TempDir(), "upgrades.json")
	for _, run := range []Measured{{Cell: stays, Passed: true}, {Cell: cells[0], Passed: true}} {
		if err := AddUpgrade(file, run); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := ReadUpgrades(file); err != nil || len(all) != 2 || all[0].Cell != cells[0] || all[1].Cell != stays {
		t.Errorf("%v, %v", all, err)
	}
}

// TestMeasuredUpgrades: nothing stands in the file that is no upgrade between pinned versions, and what passed lost nothing.
func TestMeasuredUpgrades(t *testing.T) {
	all, err := ReadUpgrades(root + UpgradesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if !slices.Contains(Rows(Upgrades(), all), m.Cell) {
			t.Errorf("%+v is no upgrade between versions that are pinned: remove it", m.Cell)
		}
		if m.Passed && (m.Lost > 0 || m.Writes == 0 || m.Seconds == 0) {
			t.Errorf("%+v passed, and writes are lost, or nothing was measured", m)
		}
	}
}
