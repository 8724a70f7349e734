package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// Top is what fills the etcds of one cluster.
type Top struct {
	Namespace string  `json:"namespace"`
	Cluster   string  `json:"cluster"`
	Etcds     []Usage `json:"etcds"`
}

// Usage is what fills one etcd, as one of its members tells.
type Usage struct {
	// Group is the object that keeps it.
	Group string `json:"group"`
	// Member is the one that was asked; empty: none could be.
	Member string `json:"member,omitempty"`
	// Keys are all that were counted, and Bytes what they and their newest values have.
	Keys  int64 `json:"keys"`
	Bytes int64 `json:"bytes"`
	// Size is how many bytes the member's data take, and InUse how many of them they need, older revisions included.
	Size  int64 `json:"size,omitempty"`
	InUse int64 `json:"inUse,omitempty"`
	// Prefixes are the largest, the one with the most bytes first, and Others how many more there are.
	Prefixes []Prefix `json:"prefixes"`
	Others   int      `json:"others,omitempty"`
	// Cut says why not all keys were counted; empty: all were.
	Cut string `json:"cut,omitempty"`
}

// Prefix is what lies below one prefix.
type Prefix struct {
	Prefix    string `json:"prefix"`
	Namespace string `json:"namespace,omitempty"`
	Keys      int64  `json:"keys"`
	Bytes     int64  `json:"bytes"`
	// Sampled is of how many keys Bytes was computed; where it is Keys, Bytes is exact.
	Sampled int64 `json:"sampled"`
}

// topFlags are those of `quorate etcd top`.
type topFlags struct {
	limit   int
	by      string
	timeout time.Duration
	output  command.Format
}

// What keys are counted by.
const (
	byResource  = "resource"
	byNamespace = "namespace"
)

func (a *app) topCommand() *cobra.Command {
	f := &topFlags{}
	cmd := &cobra.Command{
		Use:   "top [NAME]",
		Short: "Show what fills a cluster's etcd: the largest prefixes",
		Long: `Show what fills a cluster's etcd: for each resource how many keys it has, and how many bytes they and their newest values have. A
follower is asked, by itself. The sizes of at most 16 values of a prefix are read, and the sum is estimated from them (~). No value and
no name of an object is printed; names of namespaces only with --by namespace. What was overwritten or deleted since the last compaction
takes space too: compare BYTES with what is in use.`,
		Example: `  quorate etcd top demo
  quorate etcd top demo --limit 5 --by namespace
  quorate etcd top demo -o json | jq '.etcds[].prefixes[0]'`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.limit < 1:
				return command.Usagef(`invalid --limit "%d": must be greater than 0`, f.limit)
			case f.by != byResource && f.by != byNamespace:
				return command.Usagef("invalid --by %q: must be %s or %s", f.by, byResource, byNamespace)
			case f.timeout <= 0:
				return command.Usagef("invalid --timeout %q: must be greater than 0", f.timeout)
			}
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			top, err := readTop(cmd.Context(), c, key, f)
			switch {
			case err != nil:
				return err
			case f.output == "table":
				a.NewScreen().Show(topTable(top, f.by == byNamespace))
				return nil
			}
			return a.Data(f.output, top)
		},
	}
	cmd.Flags().IntVar(&f.limit, "limit", 20, "how many prefixes to show")
	cmd.Flags().StringVar(&f.by, "by", byResource, "count keys by resource, or by resource and namespace")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to count; what was counted by then is shown")
	a.AddManagementTo(cmd)
	f.output.AddTo(cmd)
	return cmd
}

// readTop counts the keys of all etcds of a cluster.
func readTop(ctx context.Context, c client.Reader, key client.ObjectKey, f *topFlags) (Top, error) {
	top := Top{Namespace: key.Namespace, Cluster: key.Name, Etcds: []Usage{}}
	all, err := stores(ctx, c, key)
	if err != nil {
		return top, err
	}
	defer closeAll(all)
	for _, s := range all {
		usage, err := s.usage(ctx, f)
		if err != nil {
			return top, fmt.Errorf("%s: %w", facts.Title(s.of), err)
		}
		top.Etcds = append(top.Etcds, usage)
	}
	return top, nil
}

// usage counts the keys of one member: a voter that follows, if one is healthy.
func (s store) usage(ctx context.Context, f *topFlags) (Usage, error) {
	survey := s.survey(ctx)
	of, found := followerOf(survey)
	target, known := s.target(of.At)
	if !found || !known {
		return Usage{}, errors.New("no member of etcd can be asked: " + survey.Why)
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	counted, err := s.asks.Usage(ctx, target, f.by == byNamespace)
	if err != nil {
		return Usage{}, err
	}
	usage := usageOf(counted, f.limit)
	usage.Group, usage.Member, usage.Size, usage.InUse = facts.Title(s.of), of.Name, of.Size, of.InUse
	return usage, nil
}

// followerOf is a voter that answered: a healthy one that follows, or else the leader, or else any.
func followerOf(survey etcd.Survey) (best etcd.Member, found bool) {
	rank := func(m etcd.Member) int {
		switch {
		case m.Health != plan.Healthy:
			return 1
		case m.Leader:
			return 2
		}
		return 3
	}
	for _, m := range survey.Members {
		if m.At != "" && !m.Learner && (!found || rank(m) > rank(best)) {
			best, found = m, true
		}
	}
	return best, found
}

// usageOf is what was counted, with the largest prefixes only.
func usageOf(counted etcd.Usage, limit int) Usage {
	usage := Usage{Prefixes: []Prefix{}, Cut: counted.Cut}
	for _, p := range counted.Prefixes {
		usage.Keys += p.Keys
		usage.Bytes += p.Bytes
		if len(usage.Prefixes) == limit {
			usage.Others++
			continue
		}
		usage.Prefixes = append(usage.Prefixes, Prefix{p.Name, p.Namespace, p.Keys, p.Bytes, p.Sampled})
	}
	return usage
}

// topTable draws a table for each etcd.
func topTable(top Top, namespaces bool) []screen.Line {
	var lines []screen.Line
	for i, u := range top.Etcds {
		if i > 0 {
			lines = append(lines, screen.Line{})
		}
		lines = append(lines, screen.Line{{Text: u.Group, Colour: screen.Strong}})
		titles := []string{"PREFIX", "KEYS", "BYTES", "SHARE"}
		if namespaces {
			titles = []string{"PREFIX", "NAMESPACE", "KEYS", "BYTES", "SHARE"}
		}
		rows := [][]screen.Span{cells(screen.Faint, titles...)}
		for _, p := range u.Prefixes {
			row := cells(screen.Plain, p.Prefix)
			if namespaces {
				row = append(row, screen.Span{Text: dashed(one(p.Namespace))})
			}
			rows = append(rows, append(row, cells(screen.Plain, fmt.Sprint(p.Keys), about(p.Sampled < p.Keys)+size(p.Bytes),
				fmt.Sprintf("%d%%", percent(p.Bytes, u.Bytes)))...))
		}
		lines = append(lines, screen.Columns(rows)...)
		lines = append(lines, screen.Line{}, screen.Text(sumOf(u)))
		if u.Cut != "" {
			lines = append(lines, screen.Line{{Text: "Not all keys were counted: " + u.Cut, Colour: screen.Doubt}})
		}
	}
	return lines
}

// one is a list of a text, if it is not empty.
func one(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// about marks what is estimated.
func about(estimated bool) string {
	if estimated {
		return "~"
	}
	return ""
}

// sumOf says what was counted, beside the space that the data take.
func sumOf(u Usage) string {
	text := fmt.Sprintf("Keys: %d, with their newest values about %s. Member %s: %s in use, %s on its disk.", u.Keys, size(u.Bytes), u.Member,
		size(u.InUse), size(u.Size))
	if u.Others > 0 {
		text += fmt.Sprintf(" Prefixes that --limit leaves out: %d.", u.Others)
	}
	return text
}
