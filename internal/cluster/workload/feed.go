package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/quorate/quorate/internal/program/untrusted"
)

const (
	// watchSeconds is the least time for which a watch is asked; it ends in up to twice of it.
	watchSeconds = 300
	// pageSize is how many objects a page of a list has.
	pageSize = 500
	// shortWatch: one that ends earlier was not ended by time, and shortWatches of them in a row are not normal.
	shortWatch   = time.Second
	shortWatches = 3
)

// keeper holds objects of one kind.
type keeper[T any] interface {
	// replace makes the objects of a list all that there are, unless one is an error.
	replace(objects iter.Seq2[T, error]) error
	put(T) error
	remove(T)
}

// mostPages is how many pages a list may have, also where they are all but empty.
const mostPages = 1000

// feed puts all objects of one kind on a shelf and keeps them up to date. client-go's reflector
// does the same, but retries a lost connection by itself after up to 30 s and does not
// tell that it is lost.
type feed[T object] struct {
	source   source[T]
	selector string
	shelf    keeper[T]
	// ask sends a list or a watch. An answer without an error is a good one, and its body must be closed.
	ask func(context.Context, metav1.ListOptions) (*http.Response, error)

	// version is where the next watch begins.
	version string
}

// list reads all objects.
func (f *feed[T]) list(ctx context.Context) error {
	err := f.shelf.replace(f.objects(ctx))
	if apierrors.IsResourceExpired(err) {
		// It took so long that the version of the first page is gone: once more, from the beginning.
		err = f.shelf.replace(f.objects(ctx))
	}
	return err
}

// errEnough ends a page of which no more is wanted.
var errEnough = errors.New("no more is wanted")

// objects reads all objects, page by page and one by one, so that a large list is never decoded as a whole.
func (f *feed[T]) objects(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		o := metav1.ListOptions{LabelSelector: f.selector, Limit: pageSize}
		seen := int64(0)
		each := func(one T) error {
			if seen++; seen > f.source.bounds.Objects {
				return f.source.bounds.ObjectsExceeded()
			}
			if err := f.source.check(one); err != nil {
				return err
			}
			if !yield(one, nil) {
				return errEnough
			}
			return nil
		}
		for range mostPages {
			meta, err := f.page(ctx, o, each)
			switch {
			case errors.Is(err, errEnough):
				return
			case err != nil:
				yield(*new(T), fmt.Errorf("listing %ss: %w", f.source.kind, err))
				return
			}
			f.version, o.Continue = meta.ResourceVersion, meta.Continue
			if o.Continue == "" {
				return
			}
		}
		yield(*new(T), untrusted.Nonsense("listing %ss: the list goes on after %d pages", f.source.kind, mostPages))
	}
}

// page reads one page of a list.
func (f *feed[T]) page(ctx context.Context, o metav1.ListOptions, each func(T) error) (metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	response, err := f.ask(ctx, o)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = response.Body.Close() }()
	return f.source.list(response, each)
}

// follow watches from where list ended, until something is wrong, and says what. A watch that
// the server ends in time, and a version that is too old, are not wrong.
func (f *feed[T]) follow(ctx context.Context) error {
	for short := 0; ctx.Err() == nil; {
		begun := time.Now()
		err := f.watchOnce(ctx)
		switch {
		case isTooOld(err):
			err = f.list(ctx)
		case err == nil && time.Since(begun) >= shortWatch:
			short = 0
		case err == nil:
			if short++; short == shortWatches {
				err = errors.New("the API server ends each watch as soon as it has begun")
			}
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// watchOnce watches until the watch ends, and says what was wrong with it.
func (f *feed[T]) watchOnce(ctx context.Context) error {
	response, err := f.ask(ctx, metav1.ListOptions{
		LabelSelector:       f.selector,
		ResourceVersion:     f.version,
		AllowWatchBookmarks: true,
		// Spread, so that not all watches are renewed at once.
		TimeoutSeconds: ptr.To[int64](watchSeconds + rand.Int64N(watchSeconds)),
	})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	return f.consume(response)
}

// isTooOld reports whether a watch was refused because the server has forgotten its version.
func isTooOld(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// consume takes in all that one watch tells, until it ends.
func (f *feed[T]) consume(response *http.Response) error {
	err := f.source.watch(response, f.take)
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled), utilnet.IsProbableEOF(err),
		isTimeout(err):
		return nil // the next watch reports whether the server is there
	case errors.As(err, &status):
		return err
	}
	return fmt.Errorf("a watch of %ss broke: %w", f.source.kind, err)
}

// take takes in one event.
func (f *feed[T]) take(e watched[T]) error {
	f.version = e.object.GetResourceVersion()
	if len(f.version) > longestToken {
		return untrusted.Nonsense("the API server answered a version of more than %d bytes", longestToken)
	}
	kind := watch.EventType(e.of)
	if kind != watch.Added && kind != watch.Modified && kind != watch.Deleted {
		return nil // a bookmark has a version only
	}
	if err := f.source.check(e.object); err != nil {
		return err
	}
	if kind == watch.Deleted {
		f.shelf.remove(e.object)
		return nil
	}
	return f.shelf.put(e.object)
}
