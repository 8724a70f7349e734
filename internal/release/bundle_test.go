package release

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// TestBundles: a release has a bundle of the default version unless others, or none, are asked for. Where the release is for another
// architecture than the host's there is none, and the report says so. A version that cannot be built is refused first.
func TestBundles(t *testing.T) {
	o := options(t)
	if r := release(t, o); len(r.Bundles) != 1 || r.Bundles[0] != artifacts.DefaultVersion {
		t.Errorf("bundles of %v, want %s", r.Bundles, artifacts.DefaultVersion)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for want, change := range map[string]func(*Options){
		"":          func(o *Options) { o.Bundles, o.Architectures = []string{}, []string{runtime.GOARCH} },
		"no bundle": func(o *Options) { o.Architectures = []string{other} },
	} {
		var said strings.Builder
		o := options(t)
		change(&o)
		o.Artifacts.Prebuilt = t.TempDir() // has nothing: an error where a bundle is made
		o.Report = func(format string, values ...any) { fmt.Fprintf(&said, format+"\n", values...) }
		if err := release(t, o).WriteBundles(t.Context()); err != nil {
			t.Errorf("%q: %v", want, err)
		}
		if want == "" && said.Len() > 0 || !strings.Contains(said.String(), want) {
			t.Errorf("reported %q, want %q", said.String(), want)
		}
	}
	o = options(t)
	o.Architectures, o.Artifacts.Prebuilt = []string{runtime.GOARCH}, t.TempDir()
	want := "writing the bundle of Kubernetes " + artifacts.DefaultVersion
	if err := release(t, o).WriteBundles(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if left, err := os.ReadDir(o.Out); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for want, change := range map[string]func(*Options){
		`invalid version "v1.2.3" of bundles`:   func(o *Options) { o.Bundles = []string{"v1.2.3"} },
		`invalid version "v1.2.3" of upgraders`: func(o *Options) { o.Kubernetes = []string{"v1.2.3"} },
	} {
		o := options(t)
		change(&o)
		if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
