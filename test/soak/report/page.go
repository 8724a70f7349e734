package report

import (
	_ "embed" // page.html
	"fmt"
	"html/template"
	"io"
	"slices"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"seconds": func(ns int64) string { return fmt.Sprintf("%.1f", seconds(ns)) },
	"between": func(from, to int64) string {
		if to < from {
			return "-"
		}
		return fmt.Sprintf("%.1f", seconds(to-from))
	},
}).Parse(page))

// cell is a pair in the table.
type cell struct {
	Text string
	Over bool
}

// line is the pairs of an operation.
type line struct {
	Name  string
	Cells []cell
}

// shownCluster is a cluster on the page.
type shownCluster struct {
	Cluster  Cluster
	Timeline timeline
}

// HTML writes the page of a report of runs. It refers to nothing outside itself.
func (r Report) HTML(out io.Writer, runs []Run) error {
	var clusters []shownCluster
	for i, c := range r.Clusters {
		clusters = append(clusters, shownCluster{c, draw(runs[i], c)})
	}
	faults, matrix := r.table()
	if err := pageTemplate.Execute(out, map[string]any{
		"Report": r, "Clusters": clusters, "Faults": faults, "Matrix": matrix, "Planned": PlannedGap.Seconds(),
		"Unplanned": UnplannedGap.Seconds(),
	}); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// table returns the faults and a line for each operation.
func (r Report) table() (faults []string, matrix []line) {
	for _, p := range r.Pairs {
		if !slices.Contains(faults, p.Fault) {
			faults = append(faults, p.Fault)
		}
		if len(matrix) == 0 || matrix[len(matrix)-1].Name != p.Operation {
			matrix = append(matrix, line{Name: p.Operation})
		}
	}
	slices.Sort(faults)
	for i := range matrix {
		for _, f := range faults {
			c := cell{Text: ""}
			for _, p := range r.Pairs {
				if p.Operation == matrix[i].Name && p.Fault == f {
					c = cell{fmt.Sprintf("%.1f", p.Gap), p.Over}
				}
			}
			matrix[i].Cells = append(matrix[i].Cells, c)
		}
	}
	return faults, matrix
}
