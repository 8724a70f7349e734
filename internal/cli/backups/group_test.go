package backups

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestNextSecond: what was tried before a backup is asked for is older than the request also in whole seconds.
func TestNextSecond(t *testing.T) {
	before := time.Now()
	asked, err := NextSecond(t.Context())
	if err != nil || !asked.Equal(asked.Truncate(time.Second)) || !before.Truncate(time.Second).Before(asked) || time.Now().Before(asked) {
		t.Errorf("begun at %s, asked at %s: %v", before, asked, err)
	}
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := NextSecond(ctx); !errors.Is(err, why) {
		t.Errorf("interrupted: %v", err)
	}
}
