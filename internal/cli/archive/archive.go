// Package archive is `quorate report`: one file for somebody who helps from afar, with what is known of a cluster, what the rules say of
// it and what was logged, as pages and as data. Secrets are taken out of each text before it is written.
package archive

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/machine"
	"github.com/quorate/quorate/internal/cli/screen"
)

// app is the command.
type app struct{ *command.Invocation }

// Command is `quorate report`.
func Command(i *command.Invocation) *cobra.Command {
	a := &app{i}
	var to string
	var lines int
	cmd := &cobra.Command{
		Use:   "report [NAME]",
		Short: "Write all that is known of a cluster into one file, for somebody who helps from afar",
		Long: `Write one file for somebody who has no access to the cluster: its status, the facts and what every rule says of them, the plan,
the history, and the last lines that broken machines have logged. They are pages for a browser and data as status, explain, plan and
history print them. index.html is the first page, and CONTENTS.txt lists what is inside and what could not be read.

The control plane's spec, secrets and kubeconfigs are not in it. Tokens, keys, passwords and certificates are taken out of each text. No
rule finds every secret: read the file before you give it to others. Nothing in the cluster is changed.`,
		Example: `  quorate report demo
  quorate report demo --to /tmp/demo.zip --tail 1000
  quorate report demo --context management     # in a management cluster of your own`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 || lines > mostLines {
				return command.Usagef("invalid --tail \"%d\": must be 0 to %d", lines, mostLines)
			}
			return a.run(cmd.Context(), args, to, lines)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the file, which must not exist (default quorate-NAME-TIME.zip in this folder)")
	cmd.Flags().IntVar(&lines, "tail", 300, "how many of the last lines of each log")
	a.AddManagementTo(cmd)
	return cmd
}

// mostLines is the most that --tail takes, so that the file stays one that can be sent.
const mostLines = 100_000

// run writes the file.
func (a *app) run(ctx context.Context, args []string, to string, lines int) error {
	c, key, err := a.Cluster(ctx, args)
	if err != nil {
		return err
	}
	host, err := a.OwnMachines()
	if err != nil {
		return err
	}
	now := time.Now()
	if to == "" {
		to = fmt.Sprintf("quorate-%s-%s.zip", key.Name, now.UTC().Format("20060102t150405z"))
	}
	// Other users of this host must not read the file, and a file that exists is not overwritten.
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("invalid --to %s: %w", to, err)
	}
	from := source{client: c, host: host, settle: a.SettlePlans, lines: lines}
	if host != nil {
		from.daemon = func(ctx context.Context, lines int) (string, error) { return machine.DaemonTail(ctx, a.State, lines) }
	}
	all, err := gather(ctx, from, key, now)
	if err == nil {
		err = write(file, all, now)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(to)
		return fmt.Errorf("writing %s: %w", to, err)
	}
	path, err := filepath.Abs(to)
	if err != nil {
		path = to
	}
	out := []screen.Line{{{Text: "report  "}, {Text: path, Colour: screen.Strong}}}
	out = append(out, screen.Text(fmt.Sprintf("%d files. Unpack it and open index.html; CONTENTS.txt lists what is inside.", len(all.files))))
	for _, left := range all.missing {
		out = append(out, screen.Line{{Text: "not in it: " + left, Colour: screen.Doubt}})
	}
	a.NewScreen().Print(append(out, screen.Text("Read it before you give it to others: no rule finds every secret."))...)
	return nil
}

// write writes files as a zip archive.
func write(to *os.File, all contents, now time.Time) error {
	z := zip.NewWriter(to)
	for _, f := range all.files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: now})
		if err != nil {
			return err
		}
		if _, err := w.Write(f.text); err != nil {
			return err
		}
	}
	return z.Close()
}
