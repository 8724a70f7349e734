package workload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
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
	// replace makes the objects of all pages all that there are, unless a page is an error.
	replace(pages iter.Seq2[[]T, error]) error
	put(T)
	remove(T)
}

// page is a part of a list: its objects, the version of the whole list, and where the next part begins, empty: nowhere.
type page[T any] struct {
	objects       []T
	version, next string
}

// feed puts all objects of one kind on a shelf and keeps them up to date. client-go's reflector
// does the same, but retries a lost connection by itself after up to 30 s and does not
// tell that it is lost.
type feed[T metav1.Object] struct {
	selector string
	shelf    keeper[T]
	read     func(context.Context, metav1.ListOptions) (page[T], error)
	watch    func(context.Context, metav1.ListOptions) (watch.Interface, error)

	// version is where the next watch begins.
	version string
}

// list reads all objects.
func (f *feed[T]) list(ctx context.Context) error {
	err := f.shelf.replace(f.pages(ctx))
	if apierrors.IsResourceExpired(err) {
		// It took so long that the version of the first page is gone: once more, from the beginning.
		err = f.shelf.replace(f.pages(ctx))
	}
	return err
}

// pages reads all objects, page by page, so that a large list is never decoded as a whole.
func (f *feed[T]) pages(ctx context.Context) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		o := metav1.ListOptions{LabelSelector: f.selector, Limit: pageSize}
		for {
			p, err := f.readPage(ctx, o)
			if err == nil {
				f.version, o.Continue = p.version, p.next
			}
			if !yield(p.objects, err) || err != nil || p.next == "" {
				return
			}
		}
	}
}

func (f *feed[T]) readPage(ctx context.Context, o metav1.ListOptions) (page[T], error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return f.read(ctx, o)
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
	stream, err := f.watch(ctx, metav1.ListOptions{
		LabelSelector:       f.selector,
		ResourceVersion:     f.version,
		AllowWatchBookmarks: true,
		// Spread, so that not all watches are renewed at once.
		TimeoutSeconds: ptr.To[int64](watchSeconds + rand.Int64N(watchSeconds)),
	})
	if err != nil {
		return err
	}
	defer stream.Stop()
	return f.consume(stream)
}

// isTooOld reports whether a watch was refused because the server has forgotten its version.
func isTooOld(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// consume takes in all that one watch tells, until it ends.
func (f *feed[T]) consume(stream watch.Interface) error {
	for change := range stream.ResultChan() {
		if change.Type == watch.Error {
			return apierrors.FromObject(change.Object)
		}
		object, ok := change.Object.(T)
		if !ok {
			return fmt.Errorf("the API server told of a %T where a %T was asked for", change.Object, *new(T))
		}
		f.version = object.GetResourceVersion()
		switch change.Type {
		case watch.Added, watch.Modified:
			f.shelf.put(object)
		case watch.Deleted:
			f.shelf.remove(object)
		}
	}
	return nil
}
