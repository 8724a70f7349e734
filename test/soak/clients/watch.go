package clients

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/quorate/quorate/test/soak/history"
)

// informer is the client whose watch is kept open for the whole run, like an informer's.
const informer = "informer"

// listAgain is how long the other watch lasts before it lists again.
const listAgain = 25 * time.Second

// patience is the time between two tries of a watch that was refused.
const patience = 200 * time.Millisecond

// follow lists all objects and watches them from there on. A watch that ends goes on from the last revision that it delivered; only when
// that is gone, or after a while if there is one, the client lists again.
func (l *Load) follow(ctx context.Context, name string, c kubernetes.Interface, lasts time.Duration) {
	var from int64
	var since time.Time
	every(ctx, patience, func(int) {
		if from == 0 || lasts > 0 && time.Since(since) > lasts {
			from, since = l.list(name, c, swapped, casPrefix, metav1.ListOptions{}), time.Now()
			if from == 0 {
				return
			}
			l.reached(name, from)
		}
		during, cancel := ctx, func() {}
		if lasts > 0 {
			during, cancel = context.WithDeadline(ctx, since.Add(lasts))
		}
		defer cancel()
		from = l.watch(during, name, c, from)
	})
}

// watch records what a watch delivers until it ends, and returns from where the next one goes on; 0: that is gone.
func (l *Load) watch(ctx context.Context, name string, c kubernetes.Interface, from int64) int64 {
	begun := history.Entry{Kind: history.Watch, Client: name, Revision: from, Begin: l.record.Now()}
	stream, err := c.CoreV1().ConfigMaps(swapped).Watch(ctx, metav1.ListOptions{ResourceVersion: text(from), AllowWatchBookmarks: true})
	begun.End, begun.Outcome = l.record.Now(), outcome(err)
	if err != nil {
		begun.Error = err.Error()
		l.record.Write(begun)
		return l.goneOr(name, err, from)
	}
	l.record.Write(begun)
	defer stream.Stop()
	for event := range stream.ResultChan() {
		if event.Type == watch.Error {
			return l.goneOr(name, apierrors.FromObject(event.Object), from)
		}
		m, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			continue
		}
		from = revision(m.ResourceVersion)
		l.record.Write(history.Entry{
			Kind: history.Event, Client: name, Begin: l.record.Now(), Type: string(event.Type), Object: m.Name, Value: m.Data[valueKey],
			Revision: from,
		})
		l.reached(name, from)
	}
	return from
}

// goneOr returns 0 if the revision to go on from is gone, which it records.
func (l *Load) goneOr(name string, err error, from int64) int64 {
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		return from
	}
	l.record.Write(history.Entry{Kind: history.Expired, Client: name, Begin: l.record.Now(), Revision: from, Error: err.Error()})
	return 0
}

// reached notes how far a watch has followed.
func (l *Load) reached(name string, at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.positions[name] = at
}
