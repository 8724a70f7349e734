package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/quorate/quorate/internal/cluster/backup/store/s3test"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// contract is what each store must do.
func contract(t *testing.T, s Store, mayDelete bool) {
	t.Helper()
	ctx := t.Context()
	large := bytes.Repeat([]byte("0123456789abcdef"), (2*part+part/2)/16)
	want := map[string][]byte{"u/a/archive": large, "u/a/manifest.json": []byte("{}"), "u/b/archive": bytes.Repeat([]byte("x"), part),
		"u/empty": {}}
	for key, data := range want {
		if err := s.Put(ctx, key, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	for key, data := range want {
		if got := get(t, s, key); !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, want %d", key, len(got), len(data))
		}
	}
	for _, key := range []string{"u/c", "u/a/none", "x/y"} {
		if _, err := s.Get(ctx, key); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", key, err)
		}
	}
	half(t, s, want)
	if err := s.Put(ctx, "u/empty", strings.NewReader("new")); err != nil || string(get(t, s, "u/empty")) != "new" {
		t.Errorf("written anew: %v, %q", err, get(t, s, "u/empty"))
	}
	if got := list(t, s, "u/a"); got != "u/a/archive u/a/manifest.json" {
		t.Error(got)
	}
	if got := list(t, s, "none"); got != "" {
		t.Error(got)
	}
	for _, key := range []string{"", "/etc/passwd", "../x", "u/../../x", "u//x", "u/.hidden", "u/a\x00"} {
		_, err := s.Get(ctx, key)
		if s.Put(ctx, key, strings.NewReader("x")) == nil || err == nil || s.Delete(ctx, key) == nil ||
			s.List(ctx, key, func(string) error { return nil }) == nil {
			t.Errorf("key %q is taken", key)
		}
	}
	err := s.Delete(ctx, "u/a/archive")
	if mayDelete && (err != nil || s.Delete(ctx, "u/a/archive") != nil || list(t, s, "u/a") != "u/a/manifest.json") || !mayDelete &&
		!errors.Is(err, ErrForbidden) {
		t.Errorf("deleting: %v; left %s", err, list(t, s, "u/a"))
	}
}

// serve starts a service and returns a store in it.
func serve(t *testing.T, d s3test.Dialect) (*s3test.Service, Store) {
	t.Helper()
	s := s3test.Serve(t, d)
	store, err := S3{
		Endpoint: s.URL, Bucket: s3test.Bucket, Prefix: "team/x", AccessKey: "id", SecretKey: "key", PathStyle: true, CA: s.CA,
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	return s, store
}

// half stores bodies that fail, early and late, in each way: nothing of them is there, and what was there stays.
func half(t *testing.T, s Store, want map[string][]byte) {
	t.Helper()
	for i, failure := range []error{io.ErrUnexpectedEOF, io.ErrClosedPipe, fmt.Errorf("x: %w", io.ErrUnexpectedEOF),
		fmt.Errorf("x: %w", io.EOF), errors.Join(io.EOF)} {
		for _, size := range []int{0, 5, part, part + 5} {
			key := []string{"u/half", "u/a/manifest.json"}[i%2]
			body := io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(failure))
			if err := s.Put(t.Context(), key, body); err == nil {
				t.Errorf("a body that fails with %q after %d bytes is stored", failure, size)
			}
		}
	}
	if got := list(t, s, "u"); strings.Contains(got, "half") {
		t.Error(got)
	}
	if got := get(t, s, "u/a/manifest.json"); !bytes.Equal(got, want["u/a/manifest.json"]) {
		t.Errorf("%d bytes", len(got))
	}
}

func get(t *testing.T, s Store, key string) []byte {
	t.Helper()
	body, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

func list(t *testing.T, s Store, folder string) string {
	t.Helper()
	var keys []string
	if err := s.List(t.Context(), folder, func(key string) error { keys = append(keys, key); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// TestFolder: a folder keeps the contract, shows no upload that has not ended, and never leaves its root.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	contract(t, f, true)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, nil, 0o600), os.Symlink(filepath.Dir(secret), filepath.Join(dir, "u", "link"))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), "u/link/secret"); err == nil {
		t.Error("a link leads out of the folder")
	}
	left := filepath.Join(dir, "u", uploading+"archive")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := list(t, f, "u"); strings.Contains(got, "uploading") {
		t.Error(got)
	}
	now := time.Now()
	for _, test := range []struct {
		before time.Time
		gone   bool
	}{{now.Add(-time.Hour), false}, {now.Add(time.Hour), true}} {
		if err := f.ClearUploads(t.Context(), "u", test.before); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); (err != nil) != test.gone {
			t.Errorf("cleared before %s: %v", test.before, err)
		}
	}
	if _, err := OpenFolder(filepath.Join(dir, "unmounted")); err == nil {
		t.Error("a folder that does not exist is opened")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Put(ctx, "u/late", strings.NewReader("x")); err == nil || strings.Contains(list(t, f, "u"), "late") {
		t.Errorf("given up: %v", err)
	}
}

// TestDialects: the store works with each kind of service.
func TestDialects(t *testing.T) {
	for name, d := range map[string]s3test.Dialect{
		"AWS":                    {},
		"no trailers":            {NoTrailers: true},
		"no checksum headers":    {NoChecksums: true, NoTrailers: true},
		"Object Lock, wants MD5": {WantsMD5: true, Versioned: true},
		"bare lists in pages":    {BareLists: true, Pages: 1},
		"no right to delete":     {NoDelete: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, store := serve(t, d)
			contract(t, store, !d.NoDelete)
			for _, key := range s.Keys() {
				if !strings.HasPrefix(key, "team/x/") {
					t.Errorf("%s is outside of the prefix", key)
				}
			}
		})
	}
}

// TestService: a service that is down for a moment, cuts objects short or says anything does no harm.
func TestService(t *testing.T) {
	s, store := serve(t, s3test.Dialect{})
	s.Fail = 2
	if err := store.Put(t.Context(), "u/a", strings.NewReader("hello")); err != nil {
		t.Errorf("two answers of 503: %v", err)
	}
	s.Truncate = true
	body, err := store.Get(t.Context(), "u/a")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(body); err == nil {
		t.Errorf("an object that was cut short is read as %q", data)
	}
	_ = body.Close()
	s.Fail = 100
	err = store.Put(t.Context(), "u/b", strings.NewReader("hello"))
	if err == nil || strings.Contains(err.Error(), "\x1b") || strings.Contains(err.Error(), "hunter2") ||
		!strings.Contains(err.Error(), "503") {
		t.Errorf("%q", err)
	}
	s.Fail = 0
	s.Begin("old", "team/x/u/c", time.Now().Add(-48*time.Hour))
	s.Begin("new", "team/x/u/c", time.Now())
	s.Begin("other", "team/y/u/c", time.Now().Add(-48*time.Hour))
	if err := store.ClearUploads(t.Context(), "u", time.Now().Add(-24*time.Hour)); err != nil ||
		!slices.Equal(s.Uploads(), []string{"new", "other"}) {
		t.Errorf("%v, %v", err, s.Uploads())
	}
}

// TestSettings: what cannot be worked with is refused before anything is connected, by name.
func TestSettings(t *testing.T) {
	for want, s := range map[string]S3{
		`endpoint ""`:               {Bucket: "b"},
		`endpoint "ftp://x"`:        {Endpoint: "ftp://x", Bucket: "b"},
		`endpoint "https://u@x"`:    {Endpoint: "https://u@x", Bucket: "b"},
		`endpoint "https://x/path"`: {Endpoint: "https://x/path", Bucket: "b"},
		`key "../other"`:            {Endpoint: "https://x", Bucket: "b", Prefix: "../other"},
		"CA":                        {Endpoint: "https://x", Bucket: "b", CA: []byte("x")},
		`proxy "nonsense"`:          {Endpoint: "https://x", Bucket: "b", Proxy: "nonsense"},
		`encryption "rot13"`:        {Endpoint: "https://x", Bucket: "b", Encryption: "rot13"},
	} {
		if _, err := s.Open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestTenantEndpoints: a tenant's endpoint reaches nothing of the manager's own host and network, nor of the ranges that the manager
// refuses, neither directly nor by a redirect nor by a proxy.
func TestTenantEndpoints(t *testing.T) {
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reached.Add(1) }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tenant := untrusted.DialerExcept([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:10::/64")})
	tried := 0
	var all sync.WaitGroup
	for _, host := range []string{
		"127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "127.1.2.3", "169.254.169.254", "[fe80::1%25lo]",
		"100.100.100.200",
		"[fd00:ec2::254]", "168.63.129.16", "10.96.0.1", "[::ffff:10.96.0.10]", "[fd00:10::1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]",
	} {
		for _, s := range []S3{
			{Endpoint: "http://" + host + ":" + port},
			{Endpoint: "http://s3.example.com", Proxy: "http://" + host + ":" + port},
		} {
			s.Bucket, s.AccessKey, s.SecretKey, s.Dial, s.PathStyle = "backups", "id", "key", tenant.DialContext, true
			store, err := s.Open()
			if err != nil {
				continue // refused even earlier
			}
			tried++
			all.Go(func() {
				if err := store.Put(t.Context(), "u/a", strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "is not dialed") {
					t.Errorf("%s, proxy %q: %v", s.Endpoint, s.Proxy, err)
				}
			})
		}
	}
	all.Wait()
	if n := reached.Load(); n > 0 || tried < 12 {
		t.Errorf("%d endpoints were tried, %d requests got through", tried, n)
	}
	t.Logf("%d endpoints were tried, %d requests got through", tried, reached.Load())
}

// TestRedirect: a redirect is not followed, wherever it leads.
func TestRedirect(t *testing.T) {
	var reached atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer inner.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		outer := httptest.NewServer(http.RedirectHandler(inner.URL, code))
		store, err := S3{Endpoint: outer.URL, Bucket: "backups", AccessKey: "id", SecretKey: "key", PathStyle: true}.Open()
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Put(t.Context(), "u/a", strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "redirect") {
			t.Errorf("%d: %v", code, err)
		}
		if _, err := store.Get(t.Context(), "u/a"); err == nil || !strings.Contains(err.Error(), "redirect") {
			t.Errorf("%d: %v", code, err)
		}
		outer.Close()
	}
	if reached.Load() > 0 {
		t.Errorf("%d redirects were followed", reached.Load())
	}
}
