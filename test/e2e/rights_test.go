//go:build e2e

package e2e

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/embed"
	"github.com/quorate/quorate/test/rights"
)

// useRights verifies by the API server's own log that Quorate's controllers asked for nothing that the role for
// management clusters lacks, and, after a life that makes a control plane, or one that repairs it too, that they used
// what it grants.
func (e *environment) useRights(t *testing.T, repair bool) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := e.management(t).Get(context.Background(), client.ObjectKey{Name: "quorate-quorate-manager"}, role); err != nil {
		t.Fatal(err)
	}
	logs, err := embed.AuditLogs(e.state)
	if err != nil {
		t.Fatal(err)
	}
	needed := map[rights.Right]int{}
	for _, path := range logs {
		maps.Copy(needed, rightsIn(t, path))
	}
	if len(needed) == 0 {
		t.Fatalf("no request of Quorate's controllers is in %v", logs)
	}
	unused, missing := rights.Compare(role, needed)
	for _, r := range missing {
		t.Errorf("Quorate asked for what config/rbac does not grant: %s", r)
	}
	for _, r := range rights.Expected(unused, repair) {
		t.Errorf("config/rbac grants what nothing used: %s", r)
	}
	t.Logf("FIGURE rights used: %d; granted and rare: %d", len(needed), len(unused))
}

// rightsIn are the rights that an audit log shows in use by Quorate's own controllers.
func rightsIn(t *testing.T, path string) map[rights.Right]int {
	t.Helper()
	log, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	needed, err := rights.Read(log, "quorate:manager")
	if err != nil {
		t.Fatal(err)
	}
	return needed
}
