package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// Status is the etcds of one cluster.
type Status struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Etcds     []Etcd `json:"etcds"`
}

// Etcd is one etcd, as its members tell.
type Etcd struct {
	// Group is the object that keeps it.
	Group string `json:"group"`
	// HasQuorum: a majority of the voters are healthy and agree on the members.
	HasQuorum bool `json:"hasQuorum"`
	// Trouble says what is wrong; empty: nothing is.
	Trouble string   `json:"trouble,omitempty"`
	Members []Member `json:"members"`
	// StrayAlarms are active alarms of members that are not in the list.
	StrayAlarms []string `json:"strayAlarms,omitempty"`
}

// Member is one member. What is left out it did not tell.
type Member struct {
	ID      string      `json:"id"`
	Name    string      `json:"name,omitempty"`
	Machine string      `json:"machine,omitempty"`
	Learner bool        `json:"learner,omitempty"`
	Leader  bool        `json:"leader,omitempty"`
	Health  plan.Health `json:"health,omitempty"`
	// Why is what keeps it from being healthy, or from being asked.
	Why      string `json:"why,omitempty"`
	Version  string `json:"version,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Behind is how many entries of the log it has applied less than the member that has applied most.
	Behind *uint64 `json:"behind,omitempty"`
	// Size is how many bytes its data take on its disk, and InUse how many of them they need.
	Size  int64 `json:"size,omitempty"`
	InUse int64 `json:"inUse,omitempty"`
	// Quota is how many they may take; 0: the member does not tell it, as 3.5 does not.
	Quota  int64    `json:"quota,omitempty"`
	Alarms []string `json:"alarms,omitempty"`
	// Latency is how long it took to answer once, in milliseconds.
	Latency *float64 `json:"latencyMilliseconds,omitempty"`
}

// answered reports whether the member told its status.
func (m Member) answered() bool { return m.Behind != nil }

// free is how many percent of what its data take a defragmentation would give back.
func (m Member) free() int { return percent(m.Size-m.InUse, m.Size) }

// percent is a part of a whole. Both may be any numbers that a member tells.
func percent(part, whole int64) int {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return int(float64(part) / float64(whole) * 100)
}

func (a *app) statusCommand() *cobra.Command {
	var output command.Format
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the members of a cluster's etcd: leader, lag, space and alarms",
		Long: `Show the members of a cluster's etcd: which one leads, how far each is behind, and how much space its data take. FREE is what a
defragmentation would give back of that. Shown are also how full the quota is, active alarms, and how long an answer took. The command asks
each member by itself, without a quorum. Members that cannot be asked are listed with the reason.`,
		Example: `  quorate etcd status demo
  quorate etcd status demo -o json | jq '.etcds[].members[] | select(.leader)'
  quorate etcd status demo --context management             # in a management cluster of your own`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			status, err := readStatus(cmd.Context(), c, key)
			switch {
			case err != nil:
				return err
			case output == "table":
				a.NewScreen().Show(statusTable(status))
				return nil
			}
			return a.Data(output, status)
		},
	}
	a.AddManagementTo(cmd)
	output.AddTo(cmd)
	return cmd
}

// readStatus asks the members of all etcds of a cluster.
func readStatus(ctx context.Context, c client.Reader, key client.ObjectKey) (Status, error) {
	status := Status{Namespace: key.Namespace, Cluster: key.Name, Etcds: []Etcd{}}
	all, err := stores(ctx, c, key)
	if err != nil {
		return status, err
	}
	defer closeAll(all)
	for _, s := range all {
		status.Etcds = append(status.Etcds, s.status(ctx))
	}
	return status, nil
}

// status asks all members of an etcd, and then each once more how long it takes.
func (s store) status(ctx context.Context) Etcd {
	survey := s.survey(ctx)
	e := etcdOf(facts.Title(s.of), survey)
	var all sync.WaitGroup
	for i, m := range survey.Members {
		e.Members[i].Machine = s.machineOf(m.ID)
		target, found := s.target(m.At)
		if !found {
			continue
		}
		all.Go(func() {
			if took, err := s.asks.Latency(ctx, target); err == nil {
				milliseconds := float64(took.Round(time.Microsecond)) / float64(time.Millisecond)
				e.Members[i].Latency = &milliseconds
			}
		})
	}
	all.Wait()
	return e
}

// etcdOf is what a survey found.
func etcdOf(group string, survey etcd.Survey) Etcd {
	e := Etcd{Group: group, HasQuorum: survey.HasQuorum(), Trouble: survey.Why, Members: []Member{}, StrayAlarms: survey.StrayAlarms}
	applied := uint64(0)
	for _, m := range survey.Members {
		applied = max(applied, m.Applied)
	}
	for _, m := range survey.Members {
		of := Member{ID: etcd.FormatID(m.ID), Name: m.Name, Learner: m.Learner, Leader: m.Leader, Health: m.Health, Why: m.Why,
			Version: m.Version, Revision: m.Revision, Size: m.Size, InUse: m.InUse, Quota: m.Quota, Alarms: m.Alarms}
		if m.At != "" {
			behind := applied - m.Applied
			of.Behind = &behind
		}
		e.Members = append(e.Members, of)
	}
	return e
}

// statusTable draws a table for each etcd, and below it what is wrong.
func statusTable(s Status) []screen.Line {
	var lines []screen.Line
	for i, e := range s.Etcds {
		if i > 0 {
			lines = append(lines, screen.Line{})
		}
		lines = append(lines, screen.Line{{Text: e.Group, Colour: screen.Strong}})
		rows := [][]screen.Span{cells(screen.Faint, "MEMBER", "MACHINE", "ROLE", "VERSION", "REVISION", "BEHIND", "SIZE", "IN USE", "FREE",
			"QUOTA", "FULL", "ANSWERS IN", "ALARMS")}
		for _, m := range e.Members {
			rows = append(rows, memberRow(m))
		}
		lines = append(lines, screen.Columns(rows)...)
		lines = append(lines, troubles(e)...)
	}
	return lines
}

// troubles says what is wrong with an etcd: which members could not be asked, and what its members tell.
func troubles(e Etcd) []screen.Line {
	var texts []string
	for _, m := range e.Members {
		if m.Why != "" {
			texts = append(texts, fmt.Sprintf("%s: %s", cmp.Or(m.Machine, m.Name, m.ID), m.Why))
		}
	}
	texts = append(texts, e.StrayAlarms...)
	if len(texts) == 0 && e.Trouble != "" {
		texts = append(texts, e.Trouble)
	}
	if !e.HasQuorum {
		texts = append(texts, "etcd has no quorum, as far as its members can be asked")
	}
	var lines []screen.Line
	for _, text := range texts {
		lines = append(lines, screen.Line{{Text: text, Colour: screen.Doubt}})
	}
	return lines
}

// memberRow is one member.
func memberRow(m Member) []screen.Span {
	role := "voter"
	switch {
	case m.Learner:
		role = "learner"
	case m.Leader:
		role = "leader"
	}
	row := cells(screen.Plain, cmp.Or(m.Name, m.ID), cmp.Or(m.Machine, "-"), role)
	if !m.answered() {
		return append(row, cells(screen.Doubt, "-", "-", "-", "-", "-", "-", "-", "-", "-", dashed(m.Alarms))...)
	}
	quota, full, latency := "-", "-", "-"
	if m.Quota > 0 {
		quota, full = size(m.Quota), fmt.Sprintf("%d%%", percent(m.Size, m.Quota))
	}
	if m.Latency != nil {
		latency = fmt.Sprintf("%.1f ms", *m.Latency)
	}
	row = append(row, cells(screen.Plain, m.Version, fmt.Sprint(m.Revision), fmt.Sprint(*m.Behind), size(m.Size), size(m.InUse),
		fmt.Sprintf("%d%%", m.free()), quota, full, latency)...)
	return append(row, screen.Span{Text: dashed(m.Alarms), Colour: screen.Bad})
}

func dashed(texts []string) string { return cmp.Or(strings.Join(texts, ","), "-") }

func cells(colour screen.Colour, texts ...string) []screen.Span {
	row := make([]screen.Span, len(texts))
	for i, text := range texts {
		row[i] = screen.Span{Text: text, Colour: colour}
	}
	return row
}

// size writes a number of bytes.
func size(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	case bytes < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
