package clients

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endClient is the client that reads all in the end.
const endClient = "end"

// Stop ends those that write, waits until each watch has followed a last write, and reads all that there is in the end. It must be called
// while the cluster serves.
func (l *Load) Stop(ctx context.Context) error {
	l.asking()
	l.askers.Wait()
	err := l.end(ctx)
	l.following()
	l.followers.Wait()
	return err
}

func (l *Load) end(ctx context.Context) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	var last int64
	for n := 1; last == 0; n++ {
		last = l.swapOnce(endClient, c, nil, fmt.Sprintf("%send-%d", casPrefix, n), l.generationNow(), n)
		if err := wait(ctx); err != nil {
			return fmt.Errorf("the last write was not acknowledged: %w", err)
		}
	}
	for namespace, prefix := range map[string]string{swapped: casPrefix, created: newPrefix} {
		for l.list(endClient, c, namespace, prefix, metav1.ListOptions{}) == 0 {
			if err := wait(ctx); err != nil {
				return fmt.Errorf("what was written cannot be read: %w", err)
			}
		}
	}
	for behind := l.behind(last); behind != ""; behind = l.behind(last) {
		if err := wait(ctx); err != nil {
			return fmt.Errorf("the watch of %s has not followed to revision %d: %w", behind, last, err)
		}
	}
	return nil
}

// behind names a client whose watch has not delivered the last write; empty: all have.
func (l *Load) behind(last int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, at := range l.positions {
		if at < last {
			return name
		}
	}
	if len(l.positions) == 0 {
		return informer
	}
	return ""
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return nil
	}
}

// text writes a number as labels and resourceVersions have it.
func text(n int64) string { return strconv.FormatInt(n, 10) }
