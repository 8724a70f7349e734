package compatibility

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUpgradesFile: a run takes the place of an earlier one of its cell, runs are in the order of the cells, and runs of versions that are
// not pinned are removed.
func TestUpgradesFile(t *testing.T) {
	file, cells := filepath.Join(t.TempDir(), "upgrades.json"), Upgrades()
	if all, err := ReadUpgrades(file); err != nil || len(all) > 0 {
		t.Fatalf("without a file: %v, %v", all, err)
	}
	foreign := Cell{"v1.1.1", "v1.1.2", Rolled, 3, 1}
	for _, run := range []Measured{
		{Cell: foreign, Passed: true}, {Cell: cells[2], Passed: true}, {Cell: cells[0], Seconds: 1}, {Cell: cells[0], Passed: true, Seconds: 2},
	} {
		if err := AddUpgrade(file, run); err != nil {
			t.Fatal(err)
		}
		if all, err := ReadUpgrades(file); err != nil || !slices.Contains(all, run) {
			t.Errorf("%+v is not in %+v, %v", run, all, err)
		}
	}
	all, err := ReadUpgrades(file)
	if want := []Measured{{Cell: cells[0], Passed: true, Seconds: 2}, {Cell: cells[2], Passed: true}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%+v, %v, want %+v", all, err, want)
	}
}

// TestUpgradesTable: a cell that failed, or was not run, says so.
func TestUpgradesTable(t *testing.T) {
	cells := Ways("v1.36.2", "v1.36.3")
	table := Table(cells, []Measured{{Cell: cells[0], Passed: true, Seconds: 80.3, Writes: 964, Gap: 0.62, Etcd: "3.6.8-0", Date: "2026-11-27"}, {Cell: cells[1], Date: "2026-11-28"}})
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

// TestMeasuredUpgrades: nothing stands in the file that is no cell, and what passed lost nothing.
func TestMeasuredUpgrades(t *testing.T) {
	all, err := ReadUpgrades(root + UpgradesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if !slices.Contains(Upgrades(), m.Cell) {
			t.Errorf("%+v is no upgrade between versions that are pinned: remove it", m.Cell)
		}
		if m.Passed && (m.Lost > 0 || m.Writes == 0 || m.Seconds == 0) {
			t.Errorf("%+v passed, and writes are lost, or nothing was measured", m)
		}
	}
}
