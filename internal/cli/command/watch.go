package command

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
)

// lookEvery is how often a cluster is looked at while somebody waits for it.
const lookEvery = 500 * time.Millisecond

// ErrTimeout is why waiting ended when the time that --timeout gives was over.
var ErrTimeout = errors.New("the time is over")

// Within does something in the time that --timeout gives. When the time is over, the error is late, with the exit code for that, also where
// a request was cut.
func Within(ctx context.Context, timeout time.Duration, late error, do func(context.Context) error) error {
	over := &ExitError{Code: ExitTimeout, Err: late}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, over)
	defer cancel()
	err := do(ctx)
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), over) {
		return over
	}
	return err
}

// Watcher looks at one cluster again and again.
type Watcher struct {
	*Invocation
	Screen *screen.Screen
	Client client.Client
	Key    client.ObjectKey
	// Looks is how often the cluster was looked at.
	Looks int
}

// Watch looks until done says so. It returns what was seen last.
func (w *Watcher) Watch(ctx context.Context, done func(report.Cluster) (bool, error)) (report.Cluster, error) {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	var last report.Cluster
	for {
		seen, err := w.Look(ctx, w.Client, w.Key)
		if err == nil {
			last = facts.Describe(seen)
			over, err := w.show(last, done)
			if over || err != nil {
				return last, err
			}
		} else if !transient(err) {
			return last, err
		}
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-again.C:
		}
	}
}

// show draws what was seen, unless the first look says that all is done, and returns what done says.
func (w *Watcher) show(seen report.Cluster, done func(report.Cluster) (bool, error)) (bool, error) {
	w.Looks++
	over, err := done(seen)
	if !over || w.Looks > 1 {
		w.Screen.Draw(seen.Progress(time.Now()))
	}
	return over, err
}

// transient reports whether looking again may help: the daemon may be coming back.
func transient(err error) bool {
	return !errors.Is(err, facts.ErrNoCluster)
}
