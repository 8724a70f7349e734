package artifacts

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// builtCache is a cache in which each product of the newest version of Kubernetes is one small file.
func builtCache(t *testing.T) Options {
	t.Helper()
	o := Options{Cache: t.TempDir()}
	c, err := o.openCache()
	if err != nil {
		t.Fatal(err)
	}
	products, err := bundled(t.Context(), c, []string{DefaultVersion})
	if err != nil {
		t.Fatal(err)
	}
	makeSmall(t, c, products)
	return o
}

// makeSmall puts products into a cache, each as one small file.
func makeSmall(t *testing.T, c *cache.Cache, products []cache.Product) {
	t.Helper()
	for _, p := range products {
		p.HostErr, p.Needs = nil, nil
		p.Build = func(_ context.Context, w cache.Workplace) error {
			return os.WriteFile(filepath.Join(w.Out, p.Name+".tar"), []byte(p.Name), 0o644)
		}
		if _, err := c.Ensure(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
}

// keys are the files of a new pair.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return keyFile(t, "PRIVATE KEY", privateDER), keyFile(t, "PUBLIC KEY", publicDER)
}

func keyFile(t *testing.T, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// folder is a server of the files of a folder, and of redirects.
func folder(root, redirect string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(root)))
	mux.Handle("/moved", http.RedirectHandler(redirect, http.StatusFound))
	return mux
}

// From each source the same arrives, and nothing has to be built then.
func TestBundleSources(t *testing.T) {
	o := builtCache(t)
	private, public := keys(t)
	root := t.TempDir()
	file := filepath.Join(root, "bundle")
	if _, err := Export(t.Context(), o, []string{DefaultVersion}, file, private); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := os.ReadDir(root); err != nil || len(all) != 1 {
		t.Errorf("beside the bundle there are %v, %v", all, err)
	}
	plain := httptest.NewServer(folder(root, "/bundle"))
	defer plain.Close()
	secure := httptest.NewTLSServer(folder(root, plain.URL+"/bundle"))
	defer secure.Close()
	images := httptest.NewServer(registry.New())
	defer images.Close()
	tag := "oci://" + strings.TrimPrefix(images.URL, "http://") + "/quorate/bundle:v1"
	if size, err := Export(t.Context(), o, []string{DefaultVersion}, tag, private); err != nil || int(size) != len(text) {
		t.Fatalf("pushing to a registry: %d bytes, %v, want %d bytes", size, err, len(text))
	}
	for name, b := range map[string]Bundle{
		"file":                          {From: file},
		"file with a key":               {From: file, KeyFile: public},
		"standard input":                {From: "-", Input: bytes.NewReader(text)},
		"https":                         {From: secure.URL + "/bundle", Client: secure.Client()},
		"http with a key":               {From: plain.URL + "/bundle", KeyFile: public},
		"redirected to http with a key": {From: secure.URL + "/moved", KeyFile: public, Client: secure.Client()},
		"registry":                      {From: tag},
		"registry with a key":           {From: tag, KeyFile: public},
	} {
		t.Run(name, func(t *testing.T) {
			to := Options{Cache: t.TempDir()}
			if imported, err := ImportBundle(t.Context(), to, b); err != nil || len(imported) == 0 {
				t.Fatalf("imported %v, %v", imported, err)
			}
			if missing, err := Missing(t.Context(), to, DefaultVersion); err != nil || len(missing) > 0 {
				t.Errorf("%v are missing, %v", missing, err)
			}
		})
	}
}

func TestRefusedSources(t *testing.T) {
	root := t.TempDir()
	plain := httptest.NewServer(folder(root, "/bundle"))
	defer plain.Close()
	secure := httptest.NewTLSServer(folder(root, plain.URL+"/bundle"))
	defer secure.Close()
	images := httptest.NewServer(registry.New())
	defer images.Close()
	address := strings.TrimPrefix(images.URL, "http://")
	other, err := name.NewTag(address + "/other/image:v1")
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(16, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(other, image); err != nil {
		t.Fatal(err)
	}
	private, public := keys(t)
	for want, b := range map[string]Bundle{
		"http:// needs a public key": {From: plain.URL + "/bundle"},
		"it redirects to " + plain.URL + "/bundle: http:// needs a public key":         {From: secure.URL + "/moved", Client: secure.Client()},
		"the server answers 404 Not Found":                                             {From: secure.URL + "/none", Client: secure.Client()},
		"ftp:// is not supported: a file or http:// or https:// or oci:// is accepted": {From: "ftp://example.org/bundle"},
		"oci://REGISTRY/REPOSITORY:TAG is accepted":                                    {From: "oci://" + address + "/quorate/bundle"},
		"NAME_UNKNOWN": {From: "oci://" + address + "/quorate/none:v1"},
		"one layer of type application/vnd.oci.image.layer.v1.tar+zstd": {From: "oci://" + address + "/other/image:v1"},
		"no such file": {From: filepath.Join(root, "none")},
		"a PEM file with a PUBLIC KEY is accepted":                       {From: "-", KeyFile: private},
		"gopher://xxxxx@example.org/x?xxxxx: gopher:// is not supported": {From: "gopher://secret:secret@example.org/x?token=secret#secret"},
		"is it one of `quorate artifacts export`":                        {From: "-", Input: strings.NewReader(""), KeyFile: public},
	} {
		to := Options{Cache: t.TempDir()}
		_, err := ImportBundle(t.Context(), to, b)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", b.From, err, want)
		}
	}
}

func TestRefusedExports(t *testing.T) {
	_, public := keys(t)
	o := builtCache(t)
	root := t.TempDir()
	file := filepath.Join(root, "bundle")
	for want, try := range map[string]func() (cache.Bytes, error){
		"https:// is not supported: a file or oci:// is accepted": func() (cache.Bytes, error) {
			return Export(t.Context(), o, []string{DefaultVersion}, "https://example.org/bundle", "")
		},
		"oci://REGISTRY/REPOSITORY:TAG is accepted": func() (cache.Bytes, error) {
			return Export(t.Context(), o, []string{DefaultVersion}, "oci://bundle", "")
		},
		"a PEM file with a PRIVATE KEY is accepted": func() (cache.Bytes, error) {
			return Export(t.Context(), o, []string{DefaultVersion}, file, public)
		},
		"it is not in the cache: `quorate artifacts build` makes it": func() (cache.Bytes, error) {
			return Export(t.Context(), Options{Cache: t.TempDir()}, []string{DefaultVersion}, file, "")
		},
	} {
		if _, err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("failed exports leave %v, %v", left, err)
	}
}

// What QUORATE_BUNDLE names is imported before anything is built, and not asked for when all is there.
func TestEnsureTakesBundle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bundle")
	if _, err := Export(t.Context(), builtCache(t), []string{DefaultVersion}, file, ""); err != nil {
		t.Fatal(err)
	}
	var built []string
	o := Options{Cache: t.TempDir(), Bundle: &Bundle{From: file}, Progress: func(p Progress) {
		if p.Phase == cache.Building && p.Product != "store" {
			built = append(built, p.Product)
		}
	}}
	for range 2 {
		set, err := Ensure(t.Context(), o, DefaultVersion)
		if err != nil || len(set.Images) != 1 || !strings.HasPrefix(set.Machine, o.Cache) {
			t.Fatalf("%+v, %v", set, err)
		}
		if _, err := EnsureEtcd(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.Bundle = &Bundle{From: "/nowhere/bundle"}
	}
	if len(built) > 0 {
		t.Errorf("%v were built", built)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that sends nothing more for a minute is given up; time in which nothing is read from it does not count.
func TestStalledServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		to := roundTrip(func(r *http.Request) (*http.Response, error) {
			body, server := io.Pipe()
			context.AfterFunc(r.Context(), func() { _ = server.CloseWithError(r.Context().Err()) })
			go func() { _, _ = server.Write([]byte("x")) }()
			return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", ContentLength: -1, Body: body, Request: r}, nil
		})
		from, err := Bundle{From: "https://example.org/bundle", Client: &http.Client{Transport: to}}.open(ctx, cancel, t.TempDir(),
			func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * stallTimeout)
		if n, err := from.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("while nothing was asked for: %d, %v", n, err)
		}
		if _, err := from.Read(make([]byte, 1)); err == nil || !errors.Is(context.Cause(ctx), errStalled) {
			t.Errorf("%v, %v", err, context.Cause(ctx))
		}
	})
}

// TestUnverified: whoever takes a bundle for which nobody vouches is warned, and nobody else.
func TestUnverified(t *testing.T) {
	o := builtCache(t)
	private, public := keys(t)
	for _, test := range []struct{ key, public, want string }{
		{"", "", "is not signed"},
		{private, "", "its signature is not verified"},
		{private, public, ""},
	} {
		file := filepath.Join(t.TempDir(), "bundle")
		if _, err := Export(t.Context(), o, []string{DefaultVersion}, file, test.key); err != nil {
			t.Fatal(err)
		}
		var said []string
		b := Bundle{From: file, KeyFile: test.public, Warn: func(text string) { said = append(said, text) }}
		_, err := ImportBundle(t.Context(), Options{Cache: t.TempDir()}, b)
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(said, "\n"); (all != "") != (test.want != "") || !strings.Contains(all, test.want) || len(said) > 1 {
			t.Errorf("signed: %t, a public key: %t: %q, want %q", test.key != "", test.public != "", all, test.want)
		}
	}
}

// TestBuildBundle: what BuildBundle writes follows from the versions, not from what else the cache has. It is signed, and
// spares all builds.
func TestBuildBundle(t *testing.T) {
	private, public := keys(t)
	var files []string
	for _, withProviders := range []bool{false, true} {
		o := builtCache(t)
		if withProviders {
			c, err := o.openCache()
			if err != nil {
				t.Fatal(err)
			}
			more, err := providers(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			makeSmall(t, c, more)
		}
		o.Progress = func(p Progress) {
			if p.Phase == cache.Building && p.Product != "store" {
				t.Errorf("%s was built, and is in the cache", p.Product)
			}
		}
		file := filepath.Join(t.TempDir(), "bundle")
		if _, err := BuildBundle(t.Context(), o, []string{DefaultVersion}, file, private); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	without, errWithout := cache.SumFile(files[0])
	with, errWith := cache.SumFile(files[1])
	if errWithout != nil || errWith != nil || with != without {
		t.Errorf("without providers in the cache %s, with them %s; %v, %v", without, with, errWithout, errWith)
	}
	to := Options{Cache: t.TempDir()}
	if _, err := ImportBundle(t.Context(), to, Bundle{From: files[0], KeyFile: public}); err != nil {
		t.Fatal(err)
	}
	if missing, err := Missing(t.Context(), to, DefaultVersion); err != nil || len(missing) > 0 {
		t.Errorf("%v are missing, %v", missing, err)
	}
}

// TestBuildBundleRefuses: a bad key or target is an error before anything is built.
func TestBuildBundleRefuses(t *testing.T) {
	_, public := keys(t)
	for want, try := range map[string][2]string{
		"a PEM file with a PRIVATE KEY is accepted": {filepath.Join(t.TempDir(), "bundle"), public},
		"ftp:// is not supported":                   {"ftp://example.org/bundle", ""},
	} {
		o := Options{Cache: t.TempDir(), Progress: func(p Progress) { t.Errorf("%s: %s is %s", want, p.Product, p.Phase) }}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // nothing is built where it is not refused
		if _, err := BuildBundle(ctx, o, []string{DefaultVersion}, try[0], try[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
