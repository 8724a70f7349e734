//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bundled exports the artifacts of this host, and makes three machines as a host would that has nothing but the bundle of a release, by its
// URL: with an empty cache, no Go, and nothing to fetch Go modules from.
func bundled(t *testing.T, env *environment) {
	// The environment's management plane would stay with the cache that it was made from.
	env.quorate(t, "down", "--yes")
	folder, err := os.MkdirTemp("/var/lib", "quorate-e2e-bundle-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			env.tellWhy(t)
		}
		env.quorate(t, "down", "--yes") // nothing may be left of an environment whose cache is removed
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	bundle, cache := filepath.Join(folder, "quorate-bundle.tar.zst"), filepath.Join(folder, "cache")
	start := time.Now()
	env.quorate(t, "artifacts", "export", "--to", bundle)
	info, err := os.Stat(bundle)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("exported %d MB: %.1f s", info.Size()/1_000_000, time.Since(start).Seconds())

	released, public := releaseBundle(t, filepath.Join(folder, "dist"))

	t.Setenv("QUORATE_CACHE", cache)
	t.Setenv("QUORATE_ARTIFACTS", "")
	t.Setenv("GOPROXY", "off")
	withoutGo(t)
	t.Run("import", func(t *testing.T) {
		start := time.Now()
		env.quorate(t, "artifacts", "import", bundle)
		t.Logf("imported: %.1f s", time.Since(start).Seconds())
		env.onlyImported(t, cache)
	})
	if err := os.RemoveAll(cache); err != nil {
		t.Fatal(err)
	}
	t.Run("up", func(t *testing.T) {
		server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(released))))
		defer server.Close()
		t.Setenv("QUORATE_BUNDLE", server.URL+"/"+filepath.Base(released))
		t.Setenv("QUORATE_BUNDLE_KEY", public)
		start := time.Now()
		env.up(t, "bundled", "--replicas", "3")
		eventually(t, "all nodes are ready", 5*time.Minute, env.healthy(t, "bundled", 3))
		t.Logf("FIGURE from nothing to three ready machines with the bundle's URL: %.1f s", time.Since(start).Seconds())
		env.onlyImported(t, cache)
	})
}

// releaseBundle makes the bundle of a release in a folder, by make, and returns its file and the public key of its signature.
func releaseBundle(t *testing.T, folder string) (file, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	verifies, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	signs := filepath.Join(t.TempDir(), "release.key")
	public = filepath.Join(t.TempDir(), "release.pub")
	for name, block := range map[string]*pem.Block{
		signs: {Type: "PRIVATE KEY", Bytes: private}, public: {Type: "PUBLIC KEY", Bytes: verifies},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	c := exec.CommandContext(t.Context(), "make", "-C", "../..", "bundle", "OUT="+folder)
	c.Env = append(os.Environ(), "QUORATE_RELEASE_KEY="+signs)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("make bundle: %v\n%s", err, out)
	}
	made, err := filepath.Glob(filepath.Join(folder, "quorate-bundle-*.tar.zst"))
	if err != nil || len(made) != 1 {
		t.Fatalf("make bundle made %v, %v", made, err)
	}
	info, err := os.Stat(made[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("FIGURE %s: %d MiB, made in %.1f s", filepath.Base(made[0]), info.Size()>>20, time.Since(start).Seconds())
	return made[0], public
}

// withoutGo takes the folders with a Go toolchain out of PATH.
func withoutGo(t *testing.T) {
	t.Helper()
	folders := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, "go"))
		return err == nil
	})
	t.Setenv("PATH", strings.Join(folders, string(filepath.ListSeparator)))
	if found, err := exec.LookPath("go"); err == nil {
		t.Fatalf("go is still found: %s", found)
	}
}

// onlyImported fails the test unless all that the newest version needs is in a cache, and was imported. Stores and upgraders are made from
// the others, without Go.
func (e *environment) onlyImported(t *testing.T, cache string) {
	t.Helper()
	e.quorate(t, "artifacts", "build")
	manifests, err := filepath.Glob(filepath.Join(cache, "*", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	imported := 0
	for _, file := range manifests {
		name := filepath.Base(filepath.Dir(file))
		if strings.HasPrefix(name, "store-") || strings.HasPrefix(name, "upgrader-") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `"imported": true`) {
			t.Errorf("%s was built here", name)
		}
		imported++
	}
	if imported == 0 {
		t.Errorf("nothing was imported to %s", cache)
	}
}
