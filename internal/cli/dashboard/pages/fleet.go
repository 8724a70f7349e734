package pages

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/report"
)

// Row is a cluster among all.
type Row struct {
	report.Cluster
	// Looked is when the cluster itself was looked at; zero: not yet, so that only what the management plane says is known.
	Looked time.Time
	// Failed says why the last look failed; empty: it did not.
	Failed string
}

// standing is how urgently the cluster needs a person. That it was not looked at yet is less urgent than what it waits for.
func (r Row) standing() report.Standing {
	s := r.Standing()
	if r.Looked.IsZero() && s.Level == report.Unknown {
		if waits := r.ForPerson(); waits.Why != "" {
			return waits
		}
	}
	if r.Failed != "" && s.Level > report.Unknown {
		return report.Standing{Level: report.Unknown, Why: r.Failed}
	}
	return s
}

// row is a Row with what it amounts to.
type row struct {
	Row
	report.Standing
	Ready, Wanted int
}

// fleet is the page of all clusters.
type fleet struct {
	Frame
	Query  string
	Rows   []row
	Counts []count
	All    int
	// Unseen counts the clusters that were not looked at yet.
	Unseen int
}

// count is how many clusters have a level.
type count struct {
	Level report.Level
	Of    int
}

// Fleet draws all clusters of which a text matches query, the most urgent first.
func Fleet(w io.Writer, f Frame, query string, all []Row) error {
	page := fleet{Frame: f, Query: query, All: len(all)}
	counts := map[report.Level]int{}
	for _, r := range all {
		s := r.standing()
		counts[s.Level]++
		if r.Looked.IsZero() {
			page.Unseen++
		}
		if matches(r, s, query) {
			page.Rows = append(page.Rows, row{r, s, report.Ready(r.ControlPlane.Machines), r.ControlPlane.Replicas})
		}
	}
	slices.SortStableFunc(page.Rows, func(a, b row) int { return int(a.Level) - int(b.Level) })
	level := report.AsWanted
	for _, l := range report.Levels() {
		if counts[l] > 0 {
			page.Counts = append(page.Counts, count{l, counts[l]})
			level = min(level, l)
		}
	}
	return draw(w, "fleet.html", page, body{Frame: f, Title: page.title(), Level: level})
}

// title counts the clusters that are not as wanted, for a window that is not looked at.
func (p fleet) title() string {
	off := p.All
	for _, c := range p.Counts {
		if c.Level == report.AsWanted {
			off -= c.Of
		}
	}
	return fmt.Sprintf("%d of %d not as wanted", off, p.All)
}

// matches reports whether each word of a query stands somewhere in what is shown of a cluster.
func matches(r Row, s report.Standing, query string) bool {
	cp := r.ControlPlane
	shown := []string{r.Namespace, r.Name, cp.Version, cp.Next.Reason, cp.Next.Step, s.Level.String(), s.Why}
	text := strings.ToLower(strings.Join(shown, "\n"))
	for _, word := range strings.Fields(strings.ToLower(query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
