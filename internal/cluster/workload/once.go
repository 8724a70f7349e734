package workload

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// keptOnce is how many bytes are kept of a cluster that is read once: it is not set which Nodes count, and all do.
const keptOnce = 128 << 20

// Once reads a cluster once, without watches, over connections that are closed afterwards. A cluster that does not answer is
// a view that is not Reachable; an error is a config that cannot be used.
func Once(ctx context.Context, config *rest.Config) (View, error) {
	bounds := untrusted.Bounds{Kept: keptOnce}.WithDefaults()
	server, err := newAPI(config, Options{}.withDefaults().Silence, bounds, untrusted.NewMeter(bounds))
	if err != nil {
		return View{}, err
	}
	defer server.close()
	b := newBook(bounds, func() {})
	if err := server.ready(ctx); err != nil {
		v := View{Why: Explain(err), Since: time.Now()}
		v.FailingSince = v.Since
		if isSilence(err) {
			v.SilentSince = v.Since
		}
		return v, nil
	}
	lists, ctx := errgroup.WithContext(ctx)
	lists.Go(func() error { return server.nodes(b).list(ctx) })
	lists.Go(func() error { return server.pods(b).list(ctx) })
	if err := lists.Wait(); err != nil {
		return View{Why: Explain(err), Since: time.Now()}, nil
	}
	b.reach()
	return b.read(), nil
}
