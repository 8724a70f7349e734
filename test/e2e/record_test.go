//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/test/releases"
)

// recordAtRest records the management objects of a cluster of which a test has just seen that there is nothing to do, where QUORATE_RECORD
// names a folder: newer releases are held against it. The file is named after the test.
func (e *environment) recordAtRest(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv(releases.Environment)
	if folder == "" {
		return
	}
	e.recordings++
	file := fmt.Sprintf("e2e-%s-%s-%d", strings.ToLower(strings.NewReplacer("/", "-", "Test", "").Replace(t.Name())), name, e.recordings)
	err := releases.Record(context.Background(), e.management(t), folder, file, "test/e2e "+t.Name()+", on real machines",
		client.ObjectKey{Namespace: "default", Name: name})
	switch {
	case errors.Is(err, releases.ErrBusy): // what was looked at is at rest, and another group of the cluster is not
		t.Log(err)
	case err != nil:
		t.Error(err)
	}
}
