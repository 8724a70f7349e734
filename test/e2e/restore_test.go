//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/local/embed"
)

// restoreElsewhere: a cluster, all its machines and its management plane are gone. A new management plane, to which only the store and the
// identity are left, makes the cluster again with what the backup held, and nothing of the old one comes back.
func restoreElsewhere(t *testing.T, e *environment) {
	const name, other = "yankee", "zulu"
	e.up(t, other, "--replicas", "1") // it has the first address, here and in the new environment: that of the other must be free there
	e.up(t, name, "--replicas", "3", "--workers", "1", "--backup", "@daily")
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	eventually(t, "four healthy nodes", patience, e.healthy(t, name, 4))
	old := e.machines(t, name)
	kept := e.writes(t, name, 5*time.Second)
	e.quorate(t, "backup", "now", name)
	all := e.backups(t, name)
	newest := all[len(all)-1].Name
	former := string(e.cluster(t, name).UID)
	oldNodes := e.nodes(t, name)
	store := filepath.Join(embed.BackupFolder(e.state), "default", embed.BackupStore)
	e.quorate(t, "down", "--yes")

	e.up(t, other, "--replicas", "1")
	restore := []string{"restore", "--store", embed.BackupStore, "--yes", "--timeout", "15m"}
	if out, err := e.try(append(restore, "--cluster", "0f3c9d3e-5f9e-4ad5-a30e-6e3f3a3a3a3a")...); err == nil {
		t.Errorf("a UID that the store does not have is restored:\n%s", out)
	}
	start := time.Now()
	out := e.quorate(t, append(restore, "--cluster", former)...)
	t.Logf("FIGURE restore elsewhere: %.1f s from the command to its end; it printed:\n%s", time.Since(start).Seconds(), out)
	if !strings.Contains(out, newest) {
		t.Errorf("the newest backup is %s, and the command does not name it", newest)
	}
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	t.Logf("FIGURE restore elsewhere: three voters %.1f s after the command", time.Since(start).Seconds())
	eventually(t, "three control plane nodes and a worker, all healthy", patience, e.healthy(t, name, 4))
	if n := kept.lost(context.Background(), t); n > 0 {
		t.Errorf("%d of %d writes are lost that the backup held", n, len(kept.acknowledged))
	}
	t.Logf("FIGURE writes before the backup: %d, lost 0", len(kept.acknowledged))
	if now := e.machines(t, name); slices.ContainsFunc(now, func(m string) bool { return slices.Contains(old, m) }) {
		t.Errorf("machines are %v, and those of before were %v", now, old)
	}
	if now := e.nodes(t, name); slices.ContainsFunc(now, func(n string) bool { return slices.Contains(oldNodes, n) }) {
		t.Errorf("Nodes are %v, and those of before were %v", now, oldNodes)
	}
	e.backsUpApart(t, name, store, former)
	if out, err := e.try(append(restore, "--cluster", former)...); err == nil || !strings.Contains(err.Error(), "was restored already") {
		t.Errorf("restored a second time: %v\n%s", err, out)
	}
	e.hasNothingToDo(t, name)
	e.takeDown(t, name)
	e.takeDown(t, other)
}

// backsUpApart: new backups go under the new UID, and those of before stay as they are.
func (e *environment) backsUpApart(t *testing.T, name, store, former string) {
	t.Helper()
	before, err := os.ReadDir(filepath.Join(store, former))
	if err != nil {
		t.Fatal(err)
	}
	e.quorate(t, "backup", "now", name)
	uid := string(e.cluster(t, name).UID)
	if made, err := os.ReadDir(filepath.Join(store, uid)); err != nil || len(made) == 0 || uid == former {
		t.Errorf("under UID %s, before %s, are %d backups: %v", uid, former, len(made), err)
	}
	after, err := os.ReadDir(filepath.Join(store, former))
	if err != nil || len(after) != len(before) {
		t.Errorf("of the former cluster were %d backups, now %d: %v", len(before), len(after), err)
	}
}

// cluster reads the Cluster.
func (e *environment) cluster(t *testing.T, name string) *clusterv1.Cluster {
	t.Helper()
	c := &clusterv1.Cluster{}
	if err := e.management(t).Get(context.Background(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: name}, c); err != nil {
		t.Fatal(err)
	}
	return c
}
