package pages

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/advice"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/plan"
)

// cluster is the page of one cluster.
type cluster struct {
	Frame
	report.Cluster
	Standing report.Standing
	Writable report.Standing
	Groups   []group
	Workers  []group
	Recent   []past
}

// group is a control plane, an etcd cluster, or workers, as a page shows them.
type group struct {
	Frame
	// Title names it, and ID is for links in the page.
	Title, ID string
	Version   string
	Replicas  int
	Current   bool
	// Flags are the words of what else is said of it.
	Flags      []screen.Span
	Ready      screen.Span
	Next       report.Next
	Way        way
	Machines   []report.Machine
	Domains    []domain
	Quorum     *quorum
	Recovery   []screen.Line
	Backup     report.Recovery
	Expiry     report.CertificateExpiry
	Conditions []report.Condition
}

// way is what a person can know and do about a step that waits.
type way struct {
	Meaning string
	Do      string
	Ends    string
	// Person: nothing else ends it.
	Person bool
	// Commands are what a person copies: first what only shows, then what ends it.
	Commands []string
}

// wayOf is the way out of what a group waits for.
func (f Frame) wayOf(next report.Next) way {
	w := way{Meaning: advice.Meaning(next.Rule, next.Reason)}
	if next.Step != string(plan.Wait) {
		return w
	}
	w.Commands = []string{"quorate explain " + f.named(), "quorate plan " + f.named()}
	a, found := advice.OfWait(next.Reason)
	if !found {
		return w
	}
	w.Do, w.Ends, w.Person = a.Do, a.Ends.Text(), a.Ends.OnlyByPerson()
	for _, c := range a.Ends.Choices {
		w.Commands = append(w.Commands, "quorate decide "+f.named()+" "+string(c))
	}
	for _, c := range a.Ends.Commands {
		if program, rest, _ := strings.Cut(c, " NAME"); strings.HasPrefix(c, "quorate ") && program != c {
			c = program + " " + f.named() + rest
		}
		if !slices.Contains(w.Commands, c) {
			w.Commands = append(w.Commands, c)
		}
	}
	return w
}

// Cluster draws one cluster and what was done to it lately.
func Cluster(w io.Writer, f Frame, c report.Cluster, histories []report.History) error {
	f.HasEtcd = f.HasEtcd || len(c.EtcdClusters) > 0
	page := cluster{Frame: f, Cluster: c, Standing: c.Standing(), Writable: c.Writable(), Recent: recent(f.Now, histories)}
	if cp := c.ControlPlane; cp.Name != "" {
		g := group{
			Frame: f, Title: "Control plane " + cp.Name, ID: "control-plane", Version: cp.Version, Replicas: cp.Replicas, Current: cp.Current,
			Ready: report.Readiness(cp.Machines, cp.Replicas), Next: cp.Next, Way: f.wayOf(cp.Next), Machines: cp.Machines,
			Recovery: cp.Recovery.Lines(), Backup: cp.Recovery, Expiry: cp.CertificateExpiry, Conditions: cp.Conditions,
			Flags: []screen.Span{flag(cp.Available, "available", "not available"), flag(cp.UpToDate, "up to date", "not up to date")},
		}
		g.add(c.Etcd)
		page.Groups = append(page.Groups, g)
	}
	for i, e := range c.EtcdClusters {
		g := group{
			Frame: f, Title: "Etcd cluster " + e.Name, ID: fmt.Sprintf("etcd-%d", i), Version: e.Version, Replicas: e.Replicas,
			Current: e.Current, Ready: report.Readiness(e.Machines, e.Replicas), Next: e.Next, Way: f.wayOf(e.Next), Machines: e.Machines,
			Recovery: e.Recovery.Lines(), Backup: e.Recovery, Conditions: e.Conditions,
		}
		g.add(e.Etcd)
		page.Groups = append(page.Groups, g)
	}
	for i, of := range c.Workers {
		title := "Workers of no MachineDeployment"
		if title = cmp.Or(prefixed("Workers ", of.Name), prefixed("Machines of etcd cluster ", of.EtcdCluster), title); title == "" {
			continue
		}
		page.Workers = append(page.Workers, group{
			Frame: f, Title: title, ID: fmt.Sprintf("workers-%d", i), Version: of.Version, Replicas: of.Replicas, Current: of.Current,
			Ready: report.Readiness(of.Machines, of.Replicas), Machines: of.Machines,
		})
	}
	title := c.Name + ": " + page.Standing.Level.String()
	return draw(w, "cluster.html", page, body{Frame: f, Title: title, Level: page.Standing.Level})
}

// prefixed is a name after a text; empty: there is no name.
func prefixed(before, name string) string {
	if name == "" {
		return ""
	}
	return before + name
}

// flag is one of two words.
func flag(is bool, yes, no string) screen.Span {
	if is {
		return screen.Span{Text: yes, Colour: screen.Good}
	}
	return screen.Span{Text: no, Colour: screen.Doubt}
}

// domain is a failure domain with the machines in it.
type domain struct {
	Name     string
	Machines []placed
}

// placed is a machine with the role of its member of etcd.
type placed struct {
	report.Machine
	Role string
	// State says how the machine is, and Health how its member is.
	Is, Health screen.Span
}

// add adds the quorum, and the machines by their failure domains.
func (g *group) add(e report.Etcd) {
	q := quorumOf(e)
	g.Quorum = &q
	byName := map[string][]placed{}
	for _, m := range g.Machines {
		byName[m.Domain] = append(byName[m.Domain], q.place(m))
	}
	for name, machines := range byName {
		g.Domains = append(g.Domains, domain{name, machines})
	}
	slices.SortFunc(g.Domains, func(a, b domain) int { return strings.Compare(a.Name, b.Name) })
}

// lately is how far back the page of a cluster looks.
const lately = time.Hour

// recent are the entries of the last hour of all groups, the newest first.
func recent(now time.Time, histories []report.History) []past {
	var all []past
	for _, h := range histories {
		for _, e := range h.Entries {
			if now.Sub(later(e)) <= lately {
				all = append(all, pastOf(e, h.Group))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b past) int { return later(b.Entry).Compare(later(a.Entry)) })
	return all
}
