//go:build e2e

package e2e

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/local/embed"
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

// noteRights adds what Quorate's controllers asked the management plane for, as the API server's own logs tell, to what is told at the end:
// the logs go with the plane.
func (e *environment) noteRights() error {
	logs, err := embed.AuditLogs(e.state)
	if err != nil {
		return err
	}
	for _, path := range logs {
		needed, err := rightsOf(path)
		if err != nil {
			return err
		}
		maps.Copy(e.asked, needed)
	}
	return nil
}

// tellRights says which grants of the role nothing used in this run. Where QUORATE_E2E_RIGHTS names a file, what was used in the runs
// before is read from it, and what was used in this one is added.
func (e *environment) tellRights(t *testing.T) {
	t.Helper()
	if err := e.noteRights(); err != nil {
		t.Fatal(err)
	}
	if file := os.Getenv("QUORATE_E2E_RIGHTS"); file != "" {
		if before, err := os.ReadFile(file); err == nil {
			for line := range strings.Lines(string(before)) {
				if words := strings.Split(strings.TrimSpace(line), " "); len(words) == 3 {
					e.asked[rights.Right{Verb: words[0], Resource: words[1], Group: words[2]}]++
				}
			}
		}
		var all []string
		for r := range e.asked {
			all = append(all, r.Verb+" "+r.Resource+" "+r.Group+"\n")
		}
		slices.Sort(all)
		if err := os.WriteFile(file, []byte(strings.Join(all, "")), 0o600); err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, role); err != nil {
		t.Fatal(err)
	}
	role.Rules = append(role.Rules, e.granted...)
	unused, missing := rights.Compare(role, e.asked)
	t.Logf("FIGURE rights granted that nothing used: %d %v", len(unused), unused)
	if len(missing) > 0 {
		t.Errorf("Quorate asked for what config/rbac does not grant: %v", missing)
	}
}

// rightsIn are the rights that an audit log shows in use by Quorate's own controllers.
func rightsIn(t *testing.T, path string) map[rights.Right]int {
	t.Helper()
	needed, err := rightsOf(path)
	if err != nil {
		t.Fatal(err)
	}
	return needed
}

func rightsOf(path string) (map[rights.Right]int, error) {
	log, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	return rights.Read(log, "quorate:manager")
}
