package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
)

const (
	// stuckFor is how long nothing may be under way beside machines that failed before waiting ends: a controller
	// may be about to replace them.
	stuckFor = 20 * time.Second
)

// waitFor draws how a cluster comes up until it has, cannot, or the time is over.
func (b *bringUp) waitFor(ctx context.Context, c client.Client, key client.ObjectKey) error {
	begun := time.Now()
	w := &watcher{Watcher: command.Watcher{Invocation: b.Invocation, Screen: b.screen, Client: c, Key: key}}
	last, err := b.watch(ctx, w, w.up)
	if err != nil {
		return err
	}
	if last.ControlPlane.Inactive() {
		b.screen.Printf("cluster %s: %s is inactive and changes nothing; `quorate status %s` shows what it would do, and spec.state Active has "+
			"it done",
			key.Name, last.ControlPlane.Name, key.Name)
		return nil
	}
	if w.Looks == 1 && !b.changed {
		return b.finish(ctx, c, key, "is already up")
	}
	b.ready(key, time.Since(begun))
	return b.finish(ctx, c, key, "is up")
}

// watch draws a cluster until it is as wanted, or returns an error that says what is missing.
func (b *bringUp) watch(ctx context.Context, w *watcher, wanted func(report.Cluster) (bool, error)) (report.Cluster, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.timeout, command.ErrTimeout)
	defer cancel()
	last, err := w.Watch(ctx, wanted)
	b.screen.Settle()
	if err != nil {
		err = b.explain(ctx, w.Key, last, err)
	}
	return last, err
}

// ready says that a cluster is as wanted.
func (b *bringUp) ready(key client.ObjectKey, after time.Duration) {
	b.screen.Print(screen.Line{
		{Text: "✓ ", Colour: screen.Good}, {Text: fmt.Sprintf("%-18s", "cluster "+key.Name)},
		{Text: "all machines are ready"},
		{Text: "  " + report.Elapsed(after), Colour: screen.Faint},
	})
}

var errStuck = errors.New("a machine failed")

// watcher looks at one cluster that comes up.
type watcher struct {
	command.Watcher
	// stuck is since when machines that failed are all that is missing.
	stuck time.Time
}

// up reports whether the cluster is as wanted, or never will be by itself. Nothing waits for an inactive control plane.
func (w *watcher) up(c report.Cluster) (bool, error) {
	if c.Missing() == "" || c.ControlPlane.Inactive() {
		return true, nil
	}
	if !onlyFailed(c) {
		w.stuck = time.Time{}
		return false, nil
	}
	if w.stuck.IsZero() {
		w.stuck = time.Now()
	}
	if time.Since(w.stuck) < stuckFor {
		return false, nil
	}
	return false, errStuck
}

// onlyFailed reports whether nothing is under way: some machine failed, and no other waits for anything that may come.
func onlyFailed(c report.Cluster) bool {
	failed := false
	for _, m := range c.Machines() {
		if m.Failed {
			failed = true
		} else if m.Waiting != "" {
			return false
		}
	}
	return failed
}

// explain makes an error of what is missing.
func (b *bringUp) explain(ctx context.Context, key client.ObjectKey, last report.Cluster, err error) error {
	switch {
	case errors.Is(err, command.ErrTimeout):
		return &command.ExitError{Code: command.ExitTimeout, Err: fmt.Errorf("after %s cluster %s is not up: %s; the work goes on, `quorate "+
			"status %s --watch` shows it",
			b.timeout, key.Name, cmp.Or(last.Missing(), "Machines have no Nodes"), key.Name)}
	case errors.Is(err, errStuck):
		var failed []string
		name := ""
		for _, m := range last.Machines() {
			if m.Failed {
				failed = append(failed, m.Name+": "+m.Waiting)
				name = m.Name
			}
		}
		return fmt.Errorf("cluster %s cannot come up by itself: %s; `quorate logs %s --component bootstrap` shows more, `quorate explain %s` "+
			"says what it waits for",
			key.Name, strings.Join(failed, "; "), name, key.Name)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}
