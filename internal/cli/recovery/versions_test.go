package recovery

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/cluster/backup/store/s3test"
)

// TestChooseDeleted: of the backups in a bucket that keeps versions the newest verified one is restored that is there. One that was deleted
// is named, and restored by its name.
func TestChooseDeleted(t *testing.T) {
	e := newElsewhere(t, "", nil)
	service := s3test.Serve(t, s3test.Dialect{Versioned: true})
	opened, err := store.S3{
		Endpoint: service.URL, Bucket: s3test.Bucket, AccessKey: "id", SecretKey: "key", PathStyle: true, CA: service.CA,
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	catalog := backup.Catalog{Store: opened, UID: formerUID}
	e.saveIn(catalog)
	chosen := func(from string) (name, newer string, err error) {
		w := e.wants
		w.backup = from
		found, old, err := choose(t.Context(), catalog, w)
		if found != nil {
			name = found.Name
		}
		if old != nil {
			newer = old.Name
		}
		return name, newer, err
	}
	if name, newer, err := chosen(""); name != backupName || newer != "" || err != nil {
		t.Errorf("chosen is %q, newer %q: %v", name, newer, err)
	}
	for _, object := range []string{"manifest.json", "verified.json", "archive"} {
		service.Delete(formerUID + "/" + backupName + "/" + object)
	}
	if _, _, err := chosen(""); err == nil || !strings.Contains(err.Error(), "was deleted") ||
		!strings.Contains(err.Error(), "--from "+backupName) {
		t.Errorf("the only one was deleted: %v", err)
	}
	if name, _, err := chosen(backupName); name != backupName || err != nil {
		t.Errorf("by its name: %q, %v", name, err)
	}
	const olderName = "20261127t160312z-x7k2p"
	e.taken = e.taken.Add(-time.Hour)
	e.name = olderName
	e.saveIn(catalog)
	if name, newer, err := chosen(""); name != olderName || newer != backupName || err != nil {
		t.Errorf("chosen is %q, newer %q: %v", name, newer, err)
	}
	from := &source{manifest: nil, newer: nil}
	if from.newer, err = catalog.Find(t.Context(), backupName); err != nil || !strings.Contains(from.left(), backupName+", taken ") {
		t.Errorf("%v: %q", err, from.left())
	}
}
