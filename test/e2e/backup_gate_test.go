//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	corebackup "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/local/embed"
)

// gateAdds bounds how long a change may wait for a backup of a small etcd.
const gateAdds = 20 * time.Second

// backupGate: another minor version of Kubernetes waits for a verified backup that is young enough, which is taken at once, whatever the
// schedule says. Writes go on meanwhile without a failure.
//
//quorate:shows kubernetes replaced older>newer
func backupGate(t *testing.T, e *environment) {
	const name, never = "gated", "0 0 29 2 *"
	e.up(t, name, "--replicas", "1", "--kubernetes-version", older, "--backup", never)
	eventually(t, "the first backup is taken and verified", patience, func() string {
		c := conditions.Get(e.controlPlane(t, name), controlplanev1.BackupCurrentCondition)
		if c == nil || c.Status != metav1.ConditionTrue {
			return "BackupCurrent: " + conditionText(c)
		}
		return ""
	})
	first := e.backups(t, name)[0].Name
	aged := ageBackup(t, filepath.Join(embed.BackupFolder(e.state), "default", embed.BackupStore), first, 2*time.Hour)
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Backup.Before = []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion}
		kcp.Spec.Backup.MaxAgeBefore = &metav1.Duration{Duration: 10 * time.Minute}
	})
	eventually(t, "the backup of two hours ago is the newest", patience, func() string {
		kcp := e.controlPlane(t, name)
		if noted := kcp.Annotations[controlplanev1.BackupVerifiedAnnotation]; !strings.Contains(noted, ",name="+aged+",") {
			return "noted is " + noted
		}
		return ""
	})
	if plans := e.plans(t, 2, name, "--kubernetes-version", newer); len(plans) != 1 || plans[0].Steps[0].Step.Verb != plan.RequestBackup {
		t.Errorf("the plan of another minor version does not begin with a backup: %+v", plans)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	gated := e.watchGate(t, ctx, name)
	began := time.Now()
	e.underWrites(t, name, func() { e.up(t, name, "--kubernetes-version", newer, "--backup", never) })
	took := time.Since(began)
	stop()
	added := <-gated
	t.Logf("FIGURE %s -> %s of one machine with before: [MinorVersion]: %.1f s; the gate added %.1f s (bound %s); then %s", older, newer,
		took.Seconds(), added.waited.Seconds(), gateAdds, added.then)
	t.Logf("FIGURE writes while the gate waited: %s", added.writes)
	if added.waited == 0 || added.writes.failed > 0 || len(added.writes.acknowledged) == 0 {
		t.Errorf("the gate waited for %s; of %d writes meanwhile %d failed", added.waited, added.writes.tried, added.writes.failed)
	}
	all := e.backups(t, name)
	if len(all) != 2 || all[0].Name != aged || !all[1].Verified {
		t.Errorf("after the change the store has %+v, want %s and a verified one", all, aged)
	}
	e.isVersion(t, name, newer)
	e.takeDown(t, name)
}

// storedBackup reads the manifest and the proof of a backup that a folder holds.
func storedBackup(t *testing.T, folder string) (*corebackup.Manifest, *corebackup.Verification) {
	t.Helper()
	manifest, err := corebackup.DecodeManifest(readFile(t, folder, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	proof, err := corebackup.DecodeVerification(readFile(t, folder, "verified.json"))
	if err != nil {
		t.Fatal(err)
	}
	return manifest, proof
}

// readFile reads a file of a folder.
func readFile(t *testing.T, folder, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ageBackup makes a backup of a store in a folder as old as if it had been taken so much earlier, and returns its name then.
func ageBackup(t *testing.T, folder, name string, by time.Duration) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(folder, "*", name))
	if len(found) != 1 {
		t.Fatalf("%d backups named %s are in %s", len(found), name, folder)
	}
	manifest, proof := storedBackup(t, found[0])
	manifest.Taken = manifest.Taken.Add(-by)
	manifest.Name = corebackup.Name(manifest.Taken, "aged")
	proof.Name = manifest.Name
	for file, encode := range map[string]func() ([]byte, error){"manifest.json": manifest.Encode, "verified.json": proof.Encode} {
		data, err := encode()
		if err == nil {
			err = os.WriteFile(filepath.Join(found[0], file), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(found[0], filepath.Join(filepath.Dir(found[0]), manifest.Name)); err != nil {
		t.Fatal(err)
	}
	return manifest.Name
}

// gateSeen is what was seen of a change that waited for a backup.
type gateSeen struct {
	// waited is how long it waited, in all, and then is the step that came after the first wait.
	waited time.Duration
	then   string
	// writes are those from just before the change until it waited no more for the first time.
	writes *writer
}

// watchGate yields, once ctx has ended, how long a control plane said that it waits for a backup.
func (e *environment) watchGate(t *testing.T, ctx context.Context, name string) <-chan gateSeen {
	t.Helper()
	stream, err := e.management(t).Watch(ctx, &controlplanev1.KubeadmControlPlaneList{}, client.InNamespace("default"), clusterLabels(name))
	if err != nil {
		t.Fatal(err)
	}
	c, _ := e.workload(t, name)
	writing, stop := context.WithCancel(ctx)
	seen, out, written := gateSeen{writes: newWriter(c)}, make(chan gateSeen, 1), make(chan struct{})
	go func() { defer close(written); seen.writes.run(writing) }()
	go func() {
		var since time.Time
		for event := range stream.ResultChan() {
			kcp, is := event.Object.(*controlplanev1.KubeadmControlPlane)
			if !is || event.Type == watch.Deleted {
				continue
			}
			now := time.Now()
			switch waits := kcp.Status.Plan.Reason == plan.BackupRequired; {
			case waits && since.IsZero():
				since = now
			case !waits && !since.IsZero():
				seen.waited, since = seen.waited+now.Sub(since), time.Time{}
				if seen.then == "" {
					seen.then = kcp.Status.Plan.Step
				}
				stop()
			}
		}
		stop()
		<-written
		out <- seen
	}()
	return out
}
