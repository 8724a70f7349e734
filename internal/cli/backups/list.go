package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/store"
)

func (a *app) listCommand() *cobra.Command {
	var output command.Format
	deleted := false
	cmd := &cobra.Command{
		Use:   "list [NAME]",
		Short: "List the backups of a cluster, as its store has them",
		Long: `List the backups of a cluster, as its store has them. Where a bucket keeps versions, those that were overwritten are listed too, and those that
were deleted though they are newer than the newest that is verified: retention does not delete these. "quorate backup get" and "verify", and
"quorate recover --from", read their old versions by their names.`,
		Example: `  quorate backup list demo
  quorate backup list demo --deleted
  quorate backup list demo -o json`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.list(cmd.Context(), c, key, output, deleted)
		},
	}
	a.AddManagementTo(cmd)
	output.AddTo(cmd)
	cmd.Flags().BoolVar(&deleted, "deleted", false,
		"list all deleted backups of which a bucket has old versions, also those that retention deleted")
	return cmd
}

// row is a backup as people and programs see it.
type row struct {
	Name      string      `json:"name"`
	Taken     metav1.Time `json:"taken,omitzero"`
	Revision  int64       `json:"revision,omitempty"`
	SizeBytes int64       `json:"sizeBytes,omitempty"`
	Verified  bool        `json:"verified"`
	Encrypted bool        `json:"encrypted"`
	Etcd      string      `json:"etcd,omitempty"`
	// Kubernetes is the version that ran.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Changed is deleted or overwritten, where the store keeps versions and it was done; empty: it was not.
	Changed string `json:"changed,omitempty"`
	// Problem is why the backup cannot be used.
	Problem string `json:"problem,omitempty"`
}

func rows(all []*backup.Entry) []row {
	list := []row{}
	for _, e := range all {
		r := row{Name: e.Name, Verified: e.Verified(), Changed: string(e.Changed)}
		if m := e.Manifest; m != nil {
			r.Taken, r.Revision, r.SizeBytes, r.Encrypted = metav1.NewTime(m.Taken), m.Revision(), m.Archive.Size, m.Archive.Encrypted()
			r.Etcd, r.Kubernetes = m.Etcd.Version, m.Kubernetes
		} else {
			r.Problem = e.Err.Error()
		}
		list = append(list, r)
	}
	return list
}

// listed returns the backups that are listed, the oldest name first, and how many deleted ones are not.
func listed(there, changed []*backup.Entry, deleted bool, now time.Time) (all []*backup.Entry, hidden int) {
	newest := backup.Newest(there, true, now)
	for _, e := range changed {
		if !deleted && newest != nil && e.Changed == backup.Deleted && e.Name < newest.Name {
			hidden++
			continue
		}
		all = append(all, e)
	}
	all = append(all, there...)
	slices.SortStableFunc(all, func(a, b *backup.Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, hidden
}

func (a *app) list(ctx context.Context, c client.Client, key client.ObjectKey, output command.Format, deleted bool) error {
	return a.with(ctx, c, key, func(catalog backup.Catalog) error {
		all, err := catalog.List(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		there, changed, unknown := catalog.Changed(ctx, all, "", backup.MostChanged)
		all, hidden := listed(there, changed, deleted, now)
		if output != "table" {
			return a.Data(output, rows(all))
		}
		if err := table(a.Out, rows(all), now); err != nil {
			return err
		}
		a.hints(all, hidden, unknown)
		return nil
	})
}

// hints says below the table what can be done with old versions.
func (a *app) hints(all []*backup.Entry, hidden int, unknown error) {
	s := a.NewScreen()
	if slices.ContainsFunc(all, (*backup.Entry).IsOld) {
		s.Printf("\nThe bucket has old versions of what is deleted or overwritten. `quorate backup get` and `verify`, and " +
			"`quorate recover --from`,\nread them by the backup's name until a rule of the bucket removes them. `quorate backup now` takes " +
			"another backup.")
	}
	if hidden > 0 {
		s.Printf("\nThe bucket has old versions of %d older backups that were deleted: --deleted lists them.", hidden)
	}
	if unknown != nil && !errors.Is(unknown, store.ErrNoVersions) {
		s.Printf("\nOld versions cannot be listed: %v", unknown)
	}
}

func table(to io.Writer, all []row, now time.Time) error {
	w := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tAGE\tREVISION\tSIZE\tVERIFIED\tENCRYPTED\tETCD\tKUBERNETES\tCHANGED")
	for _, r := range all {
		if r.Problem != "" {
			fmt.Fprintf(w, "%s\t%s\n", r.Name, r.Problem)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%t\t%t\t%s\t%s\t%s\n", r.Name, now.Sub(r.Taken.Time).Round(time.Second), r.Revision, r.SizeBytes,
			r.Verified,
			r.Encrypted, r.Etcd, r.Kubernetes, r.Changed)
	}
	return w.Flush()
}
