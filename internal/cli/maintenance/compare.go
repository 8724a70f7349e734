package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/cluster/etcd"
)

// Compared is what came of a comparison of the data of a cluster's etcds.
type Compared struct {
	Namespace string    `json:"namespace"`
	Cluster   string    `json:"cluster"`
	Etcds     []Verdict `json:"etcds"`
}

// Verdict is what came of a comparison of one etcd's voters.
type Verdict struct {
	// Group is the object that keeps it.
	Group string `json:"group"`
	// Revision is the one at which the data were compared; 0: they were not.
	Revision int64 `json:"revision,omitempty"`
	// Differ are the voters whose data are others than those of a majority, all of them where no majority has the same.
	Differ []Differing `json:"differ,omitempty"`
	// Why says why the data were not compared.
	Why string `json:"why,omitempty"`
}

// Differing is a voter whose data differ.
type Differing struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Machine string `json:"machine,omitempty"`
}

// compareTime is how long the members may take to read all their data.
const compareTime = 15 * time.Minute

func (a *app) compareCommand() *cobra.Command {
	var output command.Format
	timeout := compareTime
	cmd := &cobra.Command{
		Use:   "compare [NAME]",
		Short: "Compare the data of the voters of a cluster's etcd",
		Long: `Compare the data of the voters of a cluster's etcd, by the hash of all keys at the same revision. One voter after the other
computes it, the leader last. A voter reads all its data for it, some hundred megabytes a second, and may answer writes later
meanwhile. The command changes nothing. It fails if data differ, or if it could not compare them.

The manager compares them too: every six hours, and after each change of members (the condition EtcdDataConsistent).`,
		Example: `  quorate etcd compare demo
  quorate etcd compare demo -o json | jq '.etcds[].differ'`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return command.Usagef("invalid --timeout %q: must be greater than 0", timeout)
			}
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			all, err := stores(cmd.Context(), c, key)
			if err != nil {
				return err
			}
			defer closeAll(all)
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			compared := Compared{Namespace: key.Namespace, Cluster: key.Name, Etcds: []Verdict{}}
			for _, s := range all {
				compared.Etcds = append(compared.Etcds, s.compare(ctx))
			}
			if output == "table" {
				a.NewScreen().Show(comparedLines(compared))
			} else if err := a.Data(output, compared); err != nil {
				return err
			}
			return compared.failure()
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long the comparison may take")
	a.AddManagementTo(cmd)
	output.AddTo(cmd)
	return cmd
}

// compare compares the data of the voters of one etcd.
func (s store) compare(ctx context.Context) Verdict {
	return verdictOf(facts.Title(s.of), s.asks.Compare(ctx, s.from.Targets, s.survey(ctx)), s.machineOf)
}

// verdictOf is what a comparison found. machineOf tells the machine of a member.
func verdictOf(group string, found etcd.Comparison, machineOf func(id uint64) string) Verdict {
	v := Verdict{Group: group, Revision: found.Revision, Why: found.Why}
	for _, m := range found.Differ {
		v.Differ = append(v.Differ, Differing{ID: etcd.FormatID(m.ID), Name: m.Name, Machine: machineOf(m.ID)})
	}
	return v
}

// comparedLines says for each etcd what came of its comparison.
func comparedLines(c Compared) []screen.Line {
	var lines []screen.Line
	for _, v := range c.Etcds {
		lines = append(lines, screen.Line{{Text: v.Group + ": ", Colour: screen.Strong}, v.says()})
	}
	return lines
}

// says is what came of one comparison.
func (v Verdict) says() screen.Span {
	var names []string
	for _, d := range v.Differ {
		names = append(names, cmp.Or(d.Machine, d.Name, d.ID))
	}
	switch {
	case v.Why != "":
		return screen.Span{Text: "the data were not compared: " + v.Why, Colour: screen.Doubt}
	case len(names) > 0:
		return screen.Span{Text: fmt.Sprintf("the data differ at revision %d: those of %s", v.Revision, strings.Join(names, ", ")),
			Colour: screen.Bad}
	}
	return screen.Span{Text: fmt.Sprintf("all voters have the same data at revision %d", v.Revision)}
}

// failure is why the command fails; nil: all voters of each etcd have the same data.
func (c Compared) failure() error {
	for _, v := range c.Etcds {
		if v.Why != "" {
			return errors.New("not all data were compared")
		}
	}
	for _, v := range c.Etcds {
		if len(v.Differ) > 0 {
			return errors.New("data of members of etcd differ: see docs/runbooks/QuorateEtcdDataDiffers.md")
		}
	}
	return nil
}
