// Package down is `quorate down`: it deletes one cluster, or all that an environment has.
package down

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/manifest"
	"github.com/quorate/quorate/internal/cli/removal"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/local/provider"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// down is one run of `quorate down`.
type down struct {
	*command.Invocation
	all     bool
	yes     bool
	timeout time.Duration
	screen  *screen.Screen
}

// Command is `quorate down`.
func Command(a *command.Invocation) *cobra.Command {
	d := &down{Invocation: a}
	cmd := &cobra.Command{
		Use:   "down [NAME]",
		Short: "Delete a cluster, or the whole environment",
		Long: `With a name, delete that cluster and wait until its machines are gone. If it is paused, or parts of it are, the pause is ended
once its deletion was asked for, as nothing that is paused is deleted; it says so.

Without one, take the whole environment of --state down: all clusters, machines, endpoints, the daemon and the state
folder. Nothing is left but the cache of artifacts, and the backups and their key in the folder backups of --state. It needs no
daemon, and also removes what is left of an environment that is half gone. On a terminal it asks first when there are several clusters,
unless --all or --yes is given; elsewhere it does not ask.`,
		Example: `  quorate down demo    # one cluster
  quorate down         # everything
  quorate down --all   # everything, without a question`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.screen = a.NewScreen()
			if d.all && len(args) > 0 {
				return command.Usagef("NAME (%s) cannot be combined with --all", args[0])
			}
			if d.timeout <= 0 {
				return command.Usagef("invalid --timeout \"%s\": must be greater than 0, for example 10m", d.timeout)
			}
			if err := command.NeedRoot(); err != nil {
				return err
			}
			if len(args) > 0 {
				return d.cluster(cmd.Context(), args[0])
			}
			return d.environment(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&d.all, "all", false, "the whole environment, without asking")
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	cmd.Flags().DurationVar(&d.timeout, "timeout", 10*time.Minute, "how long to wait for a cluster to go")
	return cmd
}

// cluster deletes one cluster. One that is not there is gone already.
func (d *down) cluster(ctx context.Context, name string) error {
	e, err := d.LoadEnvironment()
	if err != nil {
		return err
	}
	if kept := e.ManagementCluster; kept != nil && (kept.Name == name || kept.String() == name) {
		return command.Usagef("cluster %s keeps itself and all other Clusters: `quorate up --name %s --self-managed=false` gives them back "+
			"first, `quorate down` deletes all", name, kept.Name)
	}
	if err := d.ensureDaemon(ctx, e); err != nil {
		return err
	}
	c, err := d.Connect()
	if err != nil {
		return err
	}
	keys, err := command.Clusters(ctx, c)
	if err != nil {
		return err
	}
	key, err := facts.Choose(name, keys)
	if errors.Is(err, facts.ErrNoCluster) {
		text := "there is no cluster " + name
		if len(keys) > 0 {
			text += "; there is " + facts.Names(keys)
		}
		d.screen.Printf("%s", text)
		return nil
	}
	if err != nil {
		return command.Usage(err)
	}
	return d.delete(ctx, c, key)
}

// ensureDaemon has the daemon run, which does the work; it waits for one that is coming up.
func (d *down) ensureDaemon(ctx context.Context, e embed.Environment) error {
	start := func() (string, error) {
		ticker := command.NewTicker(d.screen)
		defer ticker.Stop()
		return "started", embed.Start(ctx, embed.Options{State: d.State, NodeBinary: e.NodeBinary}, ticker.Say)
	}
	if _, running := embed.Running(d.State); running {
		_, err := start()
		return err
	}
	return command.Stage(d.screen, "management plane", start)
}

func (d *down) delete(ctx context.Context, c client.Client, key client.ObjectKey) error {
	begun := time.Now()
	ended, err := removal.Delete(ctx, c, key)
	if err != nil {
		return err
	}
	if len(ended) > 0 {
		d.screen.Printf("%s", removal.Sentence(ended))
	}
	limited, cancel := context.WithTimeoutCause(ctx, d.timeout, command.ErrTimeout)
	defer cancel()
	w := command.Watcher{Invocation: d.Invocation, Screen: d.screen, Client: c, Key: key}
	last, err := w.Watch(limited, func(report.Cluster) (bool, error) { return false, nil })
	switch {
	case errors.Is(err, facts.ErrNoCluster):
	case errors.Is(err, command.ErrTimeout):
		return &command.ExitError{Code: command.ExitTimeout, Err: fmt.Errorf("after %s cluster %s is not gone: %d machines are left; the work "+
			"goes on, `quorate status %s --watch` shows it",
			d.timeout, key.Name, len(last.Machines()), key.Name)}
	case ctx.Err() != nil:
		return &command.ExitError{Code: command.ExitInterrupted, Err: fmt.Errorf("interrupted; cluster %s is deleted in the background, "+
			"`quorate status --watch` shows it", key.Name)}
	default:
		return err
	}
	if err := d.deleteRest(ctx, c, key); err != nil {
		return err
	}
	d.screen.Clear()
	d.screen.Print(screen.Line{
		{Text: "✓ ", Colour: screen.Good}, {Text: "cluster " + key.Name + " is gone"},
		{Text: "  " + report.Elapsed(time.Since(begun)), Colour: screen.Faint},
	})
	return nil
}

// deleteRest removes what `up` made and that has no owner once the cluster is gone: templates, and the kubeconfig's file.
func (d *down) deleteRest(ctx context.Context, c client.Client, key client.ObjectKey) error {
	all, err := manifest.Cluster{Name: key.Name, Namespace: key.Namespace}.All()
	if err != nil {
		return err
	}
	for _, o := range all {
		if !strings.HasSuffix(o.GetKind(), clusterv1.TemplateSuffix) {
			continue
		}
		if err := c.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	if err := os.Remove(d.KubeconfigPath(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the kubeconfig: %w", err)
	}
	return nil
}

// environment takes everything down. A part that fails does not keep the others from being tried.
func (d *down) environment(ctx context.Context) error {
	if err := checkState(d.State); err != nil {
		return command.Usage(err)
	}
	e, err := embed.Load(d.State)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.screen.Print(screen.Line{{Text: err.Error() + "; going on with what is found", Colour: screen.Doubt}})
	}
	if !e.Network.IsValid() {
		e.Network = embed.DefaultNetwork
	}
	h, err := sandbox.Open(d.State, e.Network, e.NodeBinary)
	if err != nil {
		return err
	}
	if !d.confirm(h) {
		d.screen.Printf("nothing was changed")
		return nil
	}
	return d.removeParts(ctx, h)
}

// removeParts removes the parts of the environment, its files last.
func (d *down) removeParts(ctx context.Context, h *sandbox.Host) error {
	var errs []error
	for _, part := range []struct {
		name string
		do   func() (string, error)
	}{
		// First who would make again what the others remove.
		{"daemon", func() (string, error) { return "stopped", embed.Stop(ctx, d.State) }},
		{"endpoints", func() (string, error) { return "gone", provider.Teardown(ctx, d.State) }},
		{"machines", func() (string, error) { return "gone", h.Teardown(ctx) }},
		{"files", func() (string, error) {
			err := removeState(d.State)
			return d.State + stateGone(d.State), err
		}},
	} {
		if part.name == "files" && len(errs) > 0 {
			break // they say what is left
		}
		if err := command.Stage(d.screen, part.name, part.do); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("not everything is gone; the same command tries again: %w", err)
	}
	return nil
}

// confirm asks on a terminal before several clusters go at once.
func (d *down) confirm(h *sandbox.Host) bool {
	in, is := command.FileOf(d.In)
	if d.all || d.yes || !is || !term.IsTerminal(int(in.Fd())) {
		return true
	}
	list, err := h.List()
	if err != nil {
		return true // half gone: nothing to count
	}
	clusters := clustersOf(list)
	if len(clusters) < 2 {
		return true
	}
	_, _ = fmt.Fprintf(d.Out, "This deletes %d clusters (%s) with %d machines. Go on? [y/N] ", len(clusters),
		plaintext.Visible(strings.Join(clusters, ", ")), len(list))
	answer, _ := bufio.NewReader(d.In).ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// clustersOf names the clusters of machines, each once.
func clustersOf(machines []sandbox.Status) []string {
	var clusters []string
	for _, m := range machines {
		if !slices.Contains(clusters, m.Cluster) {
			clusters = append(clusters, m.Cluster)
		}
	}
	return clusters
}

// stateMarks are the files of which an environment has one from its beginning to its end.
var stateMarks = []string{"environment.json", "start.lock"}

// stateFiles are what an environment keeps in its state folder, the marks last. What else is there is not ours to remove.
var stateFiles = append([]string{
	".environment.json.*", ".backup-identity.*", "daemon.*", ".daemon.*", "network.lock", "management", "scratch", "machines", "endpoints",
	command.KubeconfigFolder,
}, stateMarks...)

// checkState refuses a folder that is no environment's: what has our names there is somebody else's.
func checkState(state string) error {
	entries, err := os.ReadDir(state)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == filepath.Base(embed.BackupFolder(state)) })
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the state folder: %w", err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(stateMarks, e.Name()) }) {
		return nil
	}
	return fmt.Errorf("invalid --state %q: must be the folder of an environment, and it has no %s", state,
		strings.Join(stateMarks, " and no "))
}

// removeState removes an environment's files, and the folder, if nothing else is in it.
func removeState(state string) error {
	if err := removeStateFiles(state); err != nil {
		return err
	}
	entries, err := os.ReadDir(state)
	entries = withoutBackups(state, entries)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("reading the state folder: %w", err)
	case stateGone(state) != gone && len(entries) == 0:
		return nil
	case len(entries) > 0:
		return fmt.Errorf("%s holds %s, which quorate did not make: it stays", state, entries[0].Name())
	}
	if err := os.Remove(state); err != nil {
		return fmt.Errorf("removing the state folder: %w", err)
	}
	return nil
}

// gone is what is said of a state folder of which nothing is left.
const gone = " removed"

// stateGone says what is left of a state folder: backups outlive it.
func stateGone(state string) string {
	if _, err := os.Stat(embed.BackupFolder(state)); err == nil {
		return gone + ", but for the backups in " + embed.BackupFolder(state) + " and the key to them"
	}
	return gone
}

// withoutBackups returns the entries of a state folder but for its backups. Folders without a backup are removed, and with the last backup
// the identity that decrypts them.
func withoutBackups(state string, entries []fs.DirEntry) []fs.DirEntry {
	folder, identity := embed.BackupFolder(state), embed.BackupIdentity(state)
	var folders []string
	needed := false
	_ = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			folders = append(folders, path)
		} else {
			needed = needed || path != identity
		}
		return nil
	})
	if !needed {
		_ = os.Remove(identity)
	}
	for _, f := range slices.Backward(folders) {
		_ = os.Remove(f) // one that holds something stays
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == filepath.Base(folder) })
}

// removeStateFiles removes what quorate made in the state folder.
func removeStateFiles(state string) error {
	for _, pattern := range stateFiles {
		found, err := filepath.Glob(filepath.Join(command.GlobQuote(state), pattern))
		if err != nil {
			return fmt.Errorf("looking for %s: %w", pattern, err)
		}
		for _, f := range found {
			if err := os.RemoveAll(f); err != nil {
				return fmt.Errorf("removing files: %w", err)
			}
		}
	}
	return nil
}
