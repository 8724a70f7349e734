package cache

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzManifest reads the manifest of a product, whatever became of it: what it lists is compared, and nothing more.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"product":"etcd","version":"v3","inputs":"a","host":"b","entries":[{"path":"etcd","mode":"-rwxr-xr-x","size":1,` +
		`"sum":"x"},{"path":"l","mode":"L","link":"etcd"}]}`))
	f.Add([]byte(`{"entries":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, manifestFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readManifest(folder)
		if err != nil {
			return
		}
		if d := m.difference(nil); (d == "") != (len(m.Entries) == 0) {
			t.Errorf("%d entries that are not there make the difference %q", len(m.Entries), d)
		}
		_ = m.difference(m.Entries)
		_ = m.Inputs.short() + m.Host.short()
	})
}
