package report

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/plan"
)

// etcdIsApart reports whether etcd is that of an EtcdCluster, which has a branch of its own.
func (c Cluster) etcdIsApart() bool {
	return !c.Etcd.Managed && !c.Etcd.Operated && len(c.EtcdClusters) > 0
}

// Tree draws the cluster, its control plane, machines, etcd, on whichever machines it runs, and workers.
func (c Cluster) Tree() []screen.Line {
	head := screen.Line{{Text: c.Name, Colour: screen.Strong}, {Text: "  "}, c.phase()}
	if c.Endpoint != "" {
		head = append(head, screen.Span{Text: "  https://" + c.Endpoint, Colour: screen.Faint})
	}
	lines := []screen.Line{head}
	if c.Problem != "" {
		lines = append(lines, screen.Line{{Text: "   "}, {Text: c.Problem, Colour: screen.Doubt}})
	}
	branches := [][]screen.Line{c.controlPlaneBranch()}
	if c.ControlPlane.Name != "" && !c.etcdIsApart() {
		branches = append(branches, c.Etcd.branch())
	}
	for _, e := range c.EtcdClusters {
		branches = append(branches, e.branch(), e.Etcd.branch())
	}
	for _, w := range c.Workers {
		branches = append(branches, w.branch())
	}
	return append(lines, nest(branches)...)
}

func (c Cluster) phase() screen.Span {
	switch {
	case c.Deleting:
		return screen.Span{Text: "Deleting", Colour: screen.Doubt}
	case c.Paused:
		return screen.Span{Text: "Paused", Colour: screen.Doubt}
	case c.Phase == "Provisioned":
		return screen.Span{Text: c.Phase, Colour: screen.Good}
	case c.Phase == "Failed":
		return screen.Span{Text: c.Phase, Colour: screen.Bad}
	case c.Phase == "":
		return screen.Span{Text: "Pending", Colour: screen.Doubt}
	}
	return screen.Span{Text: c.Phase, Colour: screen.Doubt}
}

// nest draws branches under their stem: each branch is its head and what lies under it.
func nest(branches [][]screen.Line) []screen.Line {
	var lines []screen.Line
	for i, branch := range branches {
		first, rest := "├─ ", "│  "
		if i == len(branches)-1 {
			first, rest = "└─ ", "   "
		}
		for j, l := range branch {
			stem := rest
			if j == 0 {
				stem = first
			}
			lines = append(lines, append(screen.Line{{Text: stem, Colour: screen.Faint}}, l...))
		}
	}
	return lines
}

func (c Cluster) controlPlaneBranch() []screen.Line {
	cp := c.ControlPlane
	if cp.Name == "" {
		return []screen.Line{{{Text: "control plane  "}, {Text: "none yet", Colour: screen.Doubt}}}
	}
	head := "control plane " + cp.Name + "  "
	if cp.Version != "" {
		head += cp.Version + "  "
	}
	lines := []screen.Line{{{Text: head}, Readiness(cp.Machines, cp.Replicas)}}
	if cp.Next.Step != "" {
		lines = append(lines, screen.Line{{Text: "next  "}, cp.Next.Span()})
	}
	if !cp.CertificateExpiry.Date.IsZero() {
		lines = append(lines, screen.Line{{Text: "certificates  "}, cp.CertificateExpiry.Span()})
	}
	lines = append(lines, cp.Recovery.Lines()...)
	return append(lines, machineLines(cp.Machines)...)
}

// Span is when the first certificate expires, and whose it is.
func (e CertificateExpiry) Span() screen.Span {
	what := e.Date.UTC().Format(time.DateOnly) + " (" + e.Component + " on " + e.Machine + ")"
	switch {
	case e.Past:
		return screen.Span{Text: "EXPIRED: since " + what, Colour: screen.Bad}
	case e.Soon:
		return screen.Span{Text: "the first expires soon: " + what, Colour: screen.Doubt}
	}
	return screen.Span{Text: "the first expires " + what, Colour: screen.Faint}
}

// Span is the next step and why.
func (n Next) Span() screen.Span {
	s := screen.Span{Text: n.Step}
	switch n.Step {
	case string(plan.Nothing):
		s = screen.Span{Text: "nothing to do", Colour: screen.Faint}
	case string(plan.Wait):
		s = screen.Span{Text: "wait", Colour: screen.Doubt}
	}
	if n.Message != "" {
		s.Text += ": " + n.Message
	}
	return s
}

func (e EtcdCluster) branch() []screen.Line {
	lines := []screen.Line{{{Text: "etcd cluster " + e.Name + "  " + e.Version + "  "}, Readiness(e.Machines, e.Replicas)}}
	if e.Next.Step != "" {
		lines = append(lines, screen.Line{{Text: "next  "}, e.Next.Span()})
	}
	lines = append(lines, e.Recovery.Lines()...)
	return append(lines, machineLines(e.Machines)...)
}

func (w Workers) branch() []screen.Line {
	head := screen.Line{{Text: "workers of no MachineDeployment"}}
	if w.EtcdCluster != "" {
		head = screen.Line{{Text: "machines of etcd cluster " + w.EtcdCluster}}
	}
	if w.Name != "" {
		head = screen.Line{{Text: "workers " + w.Name + "  " + w.Version + "  "}, Readiness(w.Machines, w.Replicas)}
	}
	return append([]screen.Line{head}, machineLines(w.Machines)...)
}

// Readiness says how many machines are ready of those that are wanted.
func Readiness(machines []Machine, wanted int) screen.Span {
	ready := Ready(machines)
	s := screen.Span{Text: fmt.Sprintf("%d of %d ready", ready, wanted), Colour: screen.Good}
	if len(machines) > wanted {
		s.Text += fmt.Sprintf(" (%d too many)", len(machines)-wanted)
	}
	if ready != wanted || len(machines) != wanted {
		s.Colour = screen.Doubt
	}
	return s
}

func machineLines(machines []Machine) []screen.Line {
	rows := make([][]screen.Span, 0, len(machines))
	for _, m := range machines {
		rows = append(rows, []screen.Span{
			{Text: m.Name}, {Text: dash(m.Domain)}, {Text: dash(m.Address), Colour: screen.Faint}, m.State(),
		})
	}
	return stems(screen.Columns(rows))
}

// stems hangs each line under the one before.
func stems(lines []screen.Line) []screen.Line {
	var branches [][]screen.Line
	for _, l := range lines {
		branches = append(branches, []screen.Line{l})
	}
	return nest(branches)
}

// State is what a machine waits for, or that it is ready.
func (m Machine) State() screen.Span {
	switch {
	case m.Failed:
		return screen.Span{Text: "failed: " + m.Waiting, Colour: screen.Bad}
	case m.Deleting:
		return screen.Span{Text: "leaving: " + m.Waiting, Colour: screen.Doubt}
	case m.Waiting != "":
		return screen.Span{Text: "waits for " + m.Waiting, Colour: screen.Doubt}
	case len(m.Components) > 0:
		return screen.Span{Text: fmt.Sprintf("ready, %d of %d components healthy", len(m.Components), len(m.Components)), Colour: screen.Good}
	}
	return screen.Span{Text: "ready", Colour: screen.Good}
}

func (e Etcd) branch() []screen.Line {
	lines := []screen.Line{{{Text: "etcd  "}, {Text: e.Sentence(), Colour: e.Colour()}}}
	rows := make([][]screen.Span, 0, len(e.Members))
	states := e.MemberStates()
	for i, m := range e.Members {
		leader, role := " ", "voter"
		if m.Leader {
			leader, role = "^", "leader"
		}
		if m.Learner {
			role = "learner"
		}
		if m.Differs {
			role += ", its data differ"
		}
		rows = append(rows, []screen.Span{
			{Text: leader + " " + MemberName(m)}, {Text: m.ID, Colour: screen.Faint}, {Text: role}, states[i],
		})
	}
	return append(lines, stems(screen.Columns(rows))...)
}

// Colour is that of the sentence about etcd.
func (e Etcd) Colour() screen.Colour {
	switch {
	case e.Known && e.CanStand < 0:
		return screen.Bad
	case !e.Known || e.Why != "" || e.Healthy < e.Voters:
		return screen.Doubt
	}
	return screen.Good
}

// MemberName is what people call a member of etcd.
func MemberName(m plan.Member) string {
	if m.Name != "" {
		return m.Name
	}
	if m.Machine != "" {
		return "(" + m.Machine + ", not started)"
	}
	return "(not started)"
}

// MemberStates says of each member how it is, in their order.
func (e Etcd) MemberStates() []screen.Span {
	states := make([]screen.Span, 0, len(e.Members))
	for _, m := range plan.Assess(plan.Observed{Etcd: plan.Etcd{Members: e.Members}}).Members {
		states = append(states, health(m))
	}
	return states
}

func health(m plan.MemberAssessment) screen.Span {
	switch {
	case m.Health == plan.Healthy:
		return screen.Span{Text: "healthy", Colour: screen.Good}
	case m.Health == plan.Unknown, m.Fault == plan.FaultJoining:
		return screen.Span{Text: oneLine(m.Why), Colour: screen.Doubt}
	}
	return screen.Span{Text: oneLine(m.Why), Colour: screen.Bad}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
