package cli

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

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/manifest"
	"github.com/quorate/quorate/internal/cli/removal"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/embed"
	"github.com/quorate/quorate/internal/local"
	"github.com/quorate/quorate/internal/plaintext"
	"github.com/quorate/quorate/internal/sandbox"
)

// down is one run of `quorate down`.
type down struct {
	*app
	all     bool
	yes     bool
	timeout time.Duration
	screen  *screen.Screen
}

func (a *app) downCommand() *cobra.Command {
	d := &down{app: a}
	cmd := &cobra.Command{
		Use:   "down [NAME]",
		Short: "Delete a cluster, or the whole environment",
		Long: `With a name, delete that cluster and wait until its machines are gone. If it is paused, or parts of it are, the pause is ended
once its deletion was asked for, as nothing that is paused is deleted; it says so.

Without one, take the whole environment of --state down: all clusters, machines, endpoints, the daemon and the state
folder. Nothing is left but the cache of artifacts. It needs no daemon, and also removes what is left of an environment
that is half gone. On a terminal it asks first when there are several clusters, unless --all or --yes is given; elsewhere it
does not ask.`,
		Example: `  quorate down demo    # one cluster
  quorate down         # everything
  quorate down --all   # everything, without a question`,
		Args:              oneArgumentAtMost,
		ValidArgsFunction: a.complete(1, a.clusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.screen = a.newScreen()
			if d.all && len(args) > 0 {
				return usagef("NAME (%s) and --all exclude each other", args[0])
			}
			if d.timeout <= 0 {
				return usagef("--timeout is %s: more than 0 would be accepted, for example 10m", d.timeout)
			}
			if err := needRoot(); err != nil {
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
	e, err := d.loadEnvironment()
	if err != nil {
		return err
	}
	if err := d.ensureDaemon(ctx, e); err != nil {
		return err
	}
	c, err := d.connect()
	if err != nil {
		return err
	}
	keys, err := list(ctx, c)
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
		return usage(err)
	}
	return d.delete(ctx, c, key)
}

// ensureDaemon has the daemon run, which does the work; one that is coming up is waited for.
func (d *down) ensureDaemon(ctx context.Context, e embed.Environment) error {
	start := func() (string, error) {
		ticker := newTicker(d.screen)
		defer ticker.stop()
		return "started", embed.Start(ctx, embed.Options{State: d.state, NodeBinary: e.NodeBinary}, ticker.say)
	}
	if _, running := embed.Running(d.state); running {
		_, err := start()
		return err
	}
	return stage(d.screen, "management plane", start)
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
	limited, cancel := context.WithTimeoutCause(ctx, d.timeout, errTimeout)
	defer cancel()
	w := watcher{app: d.app, screen: d.screen, client: c, key: key}
	last, err := w.watch(limited, func(report.Cluster) (bool, error) { return false, nil })
	switch {
	case errors.Is(err, facts.ErrNoCluster):
	case errors.Is(err, errTimeout):
		return &exitError{exitTimeout, fmt.Errorf("after %s cluster %s is not gone: %d machines are left; the work goes on, `quorate status %s --watch` shows it",
			d.timeout, key.Name, len(last.Machines()), key.Name)}
	case ctx.Err() != nil:
		return &exitError{exitInterrupted, fmt.Errorf("interrupted; cluster %s is deleted in the background, `quorate status --watch` shows it", key.Name)}
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

// deleteRest removes what `up` made and nobody owns once the cluster is gone: templates, and the kubeconfig's file.
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
	if err := os.Remove(d.kubeconfigPath(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the kubeconfig: %w", err)
	}
	return nil
}

// environment takes everything down. A part that fails does not keep the others from being tried.
func (d *down) environment(ctx context.Context) error {
	if err := checkState(d.state); err != nil {
		return usage(err)
	}
	e, err := embed.Load(d.state)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.screen.Print(screen.Line{{Text: err.Error() + "; going on with what is found", Colour: screen.Doubt}})
	}
	if !e.Network.IsValid() {
		e.Network = embed.DefaultNetwork
	}
	h, err := sandbox.Open(d.state, e.Network, e.NodeBinary)
	if err != nil {
		return err
	}
	if !d.confirm(h) {
		d.screen.Printf("nothing was changed")
		return nil
	}
	var errs []error
	for _, part := range []struct {
		name string
		do   func() (string, error)
	}{
		// First who would make again what the others remove.
		{"daemon", func() (string, error) { return "stopped", embed.Stop(ctx, d.state) }},
		{"endpoints", func() (string, error) { return "gone", local.Teardown(ctx, d.state) }},
		{"machines", func() (string, error) { return "gone", h.Teardown(ctx) }},
		{"files", func() (string, error) { return d.state + " removed", removeState(d.state) }},
	} {
		if part.name == "files" && len(errs) > 0 {
			break // they say what is left
		}
		if err := stage(d.screen, part.name, part.do); err != nil {
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
	in, is := fileOf(d.In)
	if d.all || d.yes || !is || !term.IsTerminal(int(in.Fd())) {
		return true
	}
	list, err := h.List()
	if err != nil {
		return true // half gone: nothing to count
	}
	var clusters []string
	for _, m := range list {
		if !slices.Contains(clusters, m.Cluster) {
			clusters = append(clusters, m.Cluster)
		}
	}
	if len(clusters) < 2 {
		return true
	}
	_, _ = fmt.Fprintf(d.Out, "This deletes %d clusters (%s) with %d machines. Go on? [y/N] ", len(clusters), plaintext.Visible(strings.Join(clusters, ", ")), len(list))
	answer, _ := bufio.NewReader(d.In).ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// stateMarks are the files of which an environment has one from its beginning to its end.
var stateMarks = []string{"environment.json", "start.lock"}

// stateFiles are what an environment keeps in its state folder, the marks last. What else is there is not ours to remove.
var stateFiles = append([]string{
	".environment.json-*", "daemon.*", ".daemon.*", "network.lock", "management", "machines", "endpoints", kubeconfigFolder,
}, stateMarks...)

// checkState refuses a folder that is no environment's: what has our names there is somebody else's.
func checkState(state string) error {
	entries, err := os.ReadDir(state)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the state folder: %w", err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(stateMarks, e.Name()) }) {
		return nil
	}
	return fmt.Errorf("--state is %s, which has no %s: the folder of an environment would be accepted", state, strings.Join(stateMarks, " and no "))
}

// removeState removes an environment's files, and the folder, if nothing else is in it.
func removeState(state string) error {
	for _, pattern := range stateFiles {
		found, err := filepath.Glob(filepath.Join(globQuote(state), pattern))
		if err != nil {
			return fmt.Errorf("looking for %s: %w", pattern, err)
		}
		for _, f := range found {
			if err := os.RemoveAll(f); err != nil {
				return fmt.Errorf("removing files: %w", err)
			}
		}
	}
	entries, err := os.ReadDir(state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("reading the state folder: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("%s holds %s, which quorate did not make: it stays", state, entries[0].Name())
	}
	if err := os.Remove(state); err != nil {
		return fmt.Errorf("removing the state folder: %w", err)
	}
	return nil
}
