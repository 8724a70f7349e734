package artifacts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// madeSet is a set of a version that nobody pins, as an older program left it.
func madeSet(t *testing.T) Set {
	t.Helper()
	dir := t.TempDir()
	path := func(name string) string {
		p := filepath.Join(dir, name)
		if err := os.Mkdir(p, 0o700); err != nil {
			t.Fatal(err)
		}
		return p
	}
	return Set{Kubernetes: "v1.30.1", Management: path("management"), Machine: path("machine"), CNI: path("cni"), CRDs: path("crds"),
		Images: []string{path("image.tar")}}
}

// A version that newer pins have dropped stays what it was for those who have it, and is built for nobody.
func TestVersionOfThePast(t *testing.T) {
	s := madeSet(t)
	o := Options{Cache: t.TempDir(), Made: []Set{{}, s, s}}
	if got, want := o.Versions(), append(Versions(), "v1.30.1"); !slices.Equal(got, want) {
		t.Errorf("versions %v, want %v", got, want)
	}
	if missing, err := Missing(t.Context(), o, "1.30.1"); err != nil || len(missing) > 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
	got, err := Ensure(t.Context(), o, "v1.30.1")
	if err != nil {
		t.Fatal(err)
	}
	if got.Machine != s.Machine || got.Management != s.Management || !slices.Equal(got.Images, s.Images) {
		t.Errorf("%+v, want %+v", got, s)
	}
	if got.CRDs == s.CRDs || !strings.Contains(got.CRDs, "cluster-api-") {
		t.Errorf("the manifests in %s are not those of this program", got.CRDs)
	}
	if err := os.RemoveAll(s.Machine); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(t.Context(), o, "v1.30.1"); err == nil ||
		!strings.Contains(err.Error(), "cannot be had, only "+strings.Join(Versions(), ", ")) {
		t.Errorf("of a set that is not whole: %v", err)
	}
}
