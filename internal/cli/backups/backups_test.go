package backups

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cluster/backup"
	corebackup "github.com/quorate/quorate/internal/core/backup"
)

const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// entry is a backup of some hour.
func entry(name string, hour int, verified bool) *backup.Entry {
	w := corebackup.Witness{Revision: 42, CompactRevision: 7, Hash: 9}
	m := &corebackup.Manifest{
		Name: name, Taken: time.Date(2026, 11, 27, hour, 0, 0, 0, time.UTC), Kubernetes: "v1.36.3", Etcd: corebackup.Etcd{Version: "3.6.16"},
		Witnesses: []corebackup.Witness{w}, Keys: 3, Snapshot: corebackup.Digest{Size: 10, SHA256: sum},
		Archive: &corebackup.Archive{Digest: corebackup.Digest{Size: 5, SHA256: sum}, Recipients: []string{"age1"}},
	}
	e := &backup.Entry{Name: name, Manifest: m}
	if verified {
		e.Verification = &corebackup.Verification{Name: name, Archive: m.Archive.Digest, Restored: corebackup.Restored{Witness: w, Keys: 3,
			Latest: 42, Snapshot: m.Snapshot}}
	}
	return e
}

// TestTable: each backup has a line, also one whose manifest cannot be read.
func TestTable(t *testing.T) {
	all := rows([]*backup.Entry{entry("a", 10, true), {Name: "b", Err: errors.New("it was changed")}})
	var out bytes.Buffer
	if err := table(&out, all, time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if got := strings.Join(strings.Fields(lines[1]), " "); got != "a 2h0m0s 42 5 true true 3.6.16 v1.36.3" {
		t.Error(got)
	}
	if got := strings.Join(strings.Fields(lines[2]), " "); got != "b it was changed" {
		t.Error(got)
	}
}

// TestListed: what was deleted is listed where it is newer than the newest verified backup that is there, and else on demand. What was
// overwritten is always.
func TestListed(t *testing.T) {
	changed := func(name string, hour int, how backup.Change) *backup.Entry {
		e := entry(name, hour, true)
		e.Changed = how
		return e
	}
	there := []*backup.Entry{entry("b", 2, true), entry("d", 4, true), entry("e", 5, false)}
	old := []*backup.Entry{
		changed("a", 1, backup.Overwritten), changed("c", 3, backup.Deleted), changed("f", 6, backup.Deleted),
		{Name: "g", Changed: backup.Deleted, Err: errors.New("no version is left that can be used")},
	}
	for deleted, want := range map[bool]string{false: "a overwritten,b ,d ,e ,f deleted,g deleted", true: "a overwritten,b ,c deleted,d ,e " +
		",f deleted,g deleted"} {
		all, hidden := listed(there, old, deleted, time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
		var got []string
		for _, r := range rows(all) {
			got = append(got, r.Name+" "+r.Changed)
		}
		if text := strings.Join(got, ","); text != want || hidden != map[bool]int{false: 1}[deleted] {
			t.Errorf("--deleted=%t lists %q, want %q; %d are not listed", deleted, text, want, hidden)
		}
	}
	if all, hidden := listed(nil, old, false, time.Now()); len(all) != 4 || hidden != 0 {
		t.Errorf("with nothing left, %d are listed, and %d are not", len(all), hidden)
	}
}

// TestNewestVerified: the newest verified backup is the one that is not deleted by mistake, whatever the order. One with a
// time in the future is not.
func TestNewestVerified(t *testing.T) {
	for want, all := range map[string][]*backup.Entry{
		"":  {entry("a", 1, false), {Name: "b", Err: errors.New("x")}},
		"c": {entry("a", 1, true), entry("c", 9, true), entry("b", 5, true), entry("d", 11, false), entry("e", 13, true)},
	} {
		got := backup.Newest(all, true, time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
		if (got == nil) != (want == "") || got != nil && got.Name != want {
			t.Errorf("%v, want %q", got, want)
		}
	}
}

// TestTell: what came of an attempt is told, and everything but a backup is an error.
func TestTell(t *testing.T) {
	verified := controlplanev1.VerifiedBackup{Name: "a", Revision: 42, SizeBytes: 5, Time: metav1.Now()}
	for reason, want := range map[string]string{
		controlplanev1.BackupVerified: "recoverable from a: revision 42, 5 bytes, verified",
		controlplanev1.BackupStored:   "the backup was stored",
		controlplanev1.BackupFailed:   "no verified backup was taken: Failed: why",
	} {
		var out bytes.Buffer
		a := &app{Invocation: &command.Invocation{
			Streams: command.Streams{Out: &out, Err: &out}, Environment: func(string) string { return "" },
		}}
		err := a.tell(controlplanev1.BackupStatus{LastVerified: verified, LastAttempt: controlplanev1.BackupAttempt{Reason: reason,
			Message: "why"}})
		text := out.String()
		if err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, want) || (err != nil) != (reason == controlplanev1.BackupFailed) {
			t.Errorf("%s: %q, want %q", reason, text, want)
		}
	}
}
