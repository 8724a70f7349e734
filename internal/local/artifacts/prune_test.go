package artifacts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// put makes a product's folder, as if it had been built.
func put(t *testing.T, root string, p cache.Product) string {
	t.Helper()
	folder := filepath.Join(root, p.Folder())
	text, err := json.Marshal(map[string]any{"product": p.Name, "version": p.Version, "inputs": p.Inputs, "host": p.Host})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "manifest.json"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// What a version is made of stays, down to the store, and so does what an environment was made with.
func TestPruneKeepsWhatIsAskedFor(t *testing.T) {
	root := t.TempDir()
	m := newTestMaker(t, root)
	for _, p := range append(m.products(), m.store(nil)) {
		put(t, root, p)
	}
	old := func(name string) cache.Product {
		return cache.Product{Name: name, Version: "v1.30.0", Inputs: cache.Sum("old"), Host: cache.Sum("any")}
	}
	set := Set{
		Management: put(t, root, old("management")), Machine: put(t, root, old("machine")), CNI: put(t, root, old("cni")),
		Images: []string{filepath.Join(put(t, root, old("images")), "etcd.tar")}, Store: put(t, root, old("store")),
		CRDs: put(t, root, old("cluster-api")),
	}
	leaf := filepath.Base(put(t, root, old("kubernetes"))) // what was linked from it lives on
	for _, tt := range []struct {
		name string
		used []Set
		want []string
	}{
		{"used", []Set{{}, set}, []string{leaf}},
		{"not used", nil, []string{old("cluster-api").Folder(), old("cni").Folder(), old("images").Folder(), leaf,
			old("machine").Folder(), old("management").Folder(), old("store").Folder()}},
	} {
		for _, prebuilt := range []string{"", t.TempDir()} { // which is not what is pruned
			pruned, err := Prune(t.Context(), Options{Cache: root, Prebuilt: prebuilt}, tt.used, true)
			var folders []string
			for _, p := range pruned {
				folders = append(folders, p.Folder)
			}
			if err != nil || !slices.Equal(folders, tt.want) {
				t.Errorf("%s: %q, %v\nwant %q", tt.name, folders, err, tt.want)
			}
		}
	}
}
