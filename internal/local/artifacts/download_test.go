package artifacts

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bundleFile writes a small bundle, and returns its content and checksum.
func bundleFile(t *testing.T) (text []byte, sum string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle")
	if _, err := Export(t.Context(), builtCache(t), []string{DefaultVersion}, file, ""); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text, sumOf(text)
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// server serves over https what a handler says, and counts its requests.
func server(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s, &requests
}

// cutting serves a file, or the part of it that is asked for, and cuts each connection after some bytes.
func cutting(text []byte, after int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(&cutWriter{ResponseWriter: w, left: after}, r, "", time.Time{}, bytes.NewReader(text))
	}
}

// cutWriter cuts the connection when some bytes were written.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		_, _ = c.ResponseWriter.Write(p[:c.left])
		if f, ok := c.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// TestCutDownload: a download that is cut goes on where it was, and arrives whole.
func TestCutDownload(t *testing.T) {
	text, sum := bundleFile(t)
	for name, test := range map[string]struct {
		after int
		sum   string
	}{
		"without a checksum":            {len(text)/4 + 1, ""},
		"with a checksum":               {len(text)/4 + 1, sum},
		"never cut":                     {len(text), sum},
		"upper case digits":             {len(text), strings.ToUpper(sum)},
		"after a few bytes, many times": {len(text)/40 + 1, sum},
	} {
		t.Run(name, func(t *testing.T) {
			s, requests := server(t, cutting(text, test.after))
			to := Options{Cache: t.TempDir()}
			imported, err := ImportBundle(t.Context(), to, Bundle{From: s.URL + "/bundle", SHA256: test.sum, Client: s.Client()})
			if err != nil || len(imported) == 0 {
				t.Fatalf("imported %v, %v", imported, err)
			}
			if cut := test.after < len(text); cut != (requests.Load() > 1) {
				t.Errorf("%d requests", requests.Load())
			}
			if missing, err := Missing(t.Context(), to, DefaultVersion); err != nil || len(missing) > 0 {
				t.Errorf("%v are missing, %v", missing, err)
			}
			if left, err := filepath.Glob(filepath.Join(to.Cache, downloadsFolder, "*.part")); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

// TestCutWithoutRanges: a server that only sends whole files, with or without a version, sends again what was read before, which is
// skipped.
func TestCutWithoutRanges(t *testing.T) {
	text, sum := bundleFile(t)
	for _, tag := range []string{"", `"one"`} {
		for _, sum := range []string{"", sum} {
			var again atomic.Bool
			s, requests := server(t, func(w http.ResponseWriter, _ *http.Request) {
				if tag != "" {
					w.Header().Set("ETag", tag)
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(text)))
				left := len(text) / 2
				if again.Swap(true) {
					left = len(text)
				}
				_, _ = (&cutWriter{ResponseWriter: w, left: left}).Write(text)
			})
			to := Options{Cache: t.TempDir()}
			imported, err := ImportBundle(t.Context(), to, Bundle{From: s.URL + "/bundle", SHA256: sum, Client: s.Client()})
			if err != nil || len(imported) == 0 || requests.Load() != 2 {
				t.Errorf("tag %q, checksum %q: imported %v after %d requests, %v", tag, sum, imported, requests.Load(), err)
			}
		}
	}
}

// TestDownloadGoesOn: with a checksum an interrupted download goes on in the next run; what it left is removed by Prune, and not used if it
// is something else.
func TestDownloadGoesOn(t *testing.T) {
	text, sum := bundleFile(t)
	var asked sync.Map
	var turn atomic.Int32 // the first answer is cut, the second is a refusal, later ones are whole
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Range"), true)
		switch turn.Add(1) {
		case 1:
			cutting(text, len(text)*2/3)(w, r)
		case 2:
			w.WriteHeader(http.StatusForbidden)
		default:
			cutting(text, len(text))(w, r)
		}
	})
	to := Options{Cache: t.TempDir()}
	b := Bundle{From: s.URL + "/bundle", SHA256: sum, Client: s.Client()}
	if _, err := ImportBundle(t.Context(), to, b); err == nil || !strings.Contains(err.Error(), "403 Forbidden") {
		t.Fatalf("%v", err)
	}
	part := filepath.Join(to.Cache, downloadsFolder, sum+".part")
	if info, err := os.Stat(part); err != nil || info.Size() != int64(len(text)*2/3) || info.Mode().Perm() != 0o600 {
		t.Fatalf("left is %v, %v", info, err)
	}
	if would, err := Prune(t.Context(), to, nil, true); err != nil || len(would) != 1 || !strings.HasSuffix(part, would[0].Folder) {
		t.Errorf("would be pruned: %v, %v", would, err)
	}
	if imported, err := ImportBundle(t.Context(), to, b); err != nil || len(imported) == 0 {
		t.Fatalf("%v, %v", imported, err)
	}
	if _, was := asked.Load(fmt.Sprintf("bytes=%d-", len(text)*2/3)); !was {
		t.Error("the second run did not go on where the first was")
	}
	for name, left := range map[string][]byte{"another file": []byte("something else"), "too long": append(bytes.Clone(text), 'x'),
		"all of it": text} {
		to := Options{Cache: t.TempDir()}
		part := filepath.Join(to.Cache, downloadsFolder, sum+".part")
		if err := os.MkdirAll(filepath.Dir(part), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(part, left, 0o600); err != nil {
			t.Fatal(err)
		}
		if imported, err := ImportBundle(t.Context(), to, b); err != nil || len(imported) == 0 {
			t.Errorf("%s: %v, %v", name, imported, err)
		}
	}
}

// TestHostileServers: what a server sends instead of the bundle is refused, with nothing imported and nothing left.
func TestHostileServers(t *testing.T) {
	text, sum := bundleFile(t)
	whole := func(w http.ResponseWriter, r *http.Request) { cutting(text, len(text))(w, r) }
	other, _ := server(t, whole)
	zip := &bytes.Buffer{}
	z := gzip.NewWriter(zip)
	if _, err := io.CopyN(z, zeros{}, 1<<24); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	first := func(first, then http.HandlerFunc) http.HandlerFunc {
		var again atomic.Bool
		return func(w http.ResponseWriter, r *http.Request) {
			if again.Swap(true) {
				then(w, r)
				return
			}
			first(w, r)
		}
	}
	cut := cutting(text, len(text)/2)
	say := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			_, _ = w.Write(text[:10])
		}
	}
	for name, test := range map[string]struct {
		serve http.HandlerFunc
		sum   string
		want  string
	}{
		"another host": {http.RedirectHandler(other.URL+"/b?token=secret", http.StatusFound).ServeHTTP, "", "it redirects to " +
			other.URL + "/b?xxxxx: another host needs a public key"},
		"plain http": {http.RedirectHandler("http://secret@example.org/b", http.StatusFound).ServeHTTP, "",
			"it redirects to http://xxxxx@example.org/b: http:// needs a public key"},
		"a file of this host": {http.RedirectHandler("file:///etc/passwd", http.StatusFound).ServeHTTP, sum, "unsupported protocol scheme"},
		"redirects for ever": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, "",
			"it redirects more than 10 times"},
		"a gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zip.Bytes())
		}, "", `sends Content-Encoding "gzip"`},
		"an endless body": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, zeros{}) }, sum,
			"the server sends more than 4 MiB"},
		"an endless body, no sum": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text[:20]); _, _ = io.Copy(w, zeros{}) }, "",
			"bundle"},
		"too large a body": {say(http.StatusOK, "Content-Length", "5000000"), sum, "the server sends more than 4 MiB: 5 MiB"},
		"another checksum": {whole, strings.Repeat("0", 64), "it has the SHA-256 " + sum + " instead of 000000"},
		"no checksum":      {whole, "0123", `invalid checksum "0123": must be the 64 hexadecimal digits of a SHA-256`},
		"a shorter file":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text[:len(text)-1]) }, sum, "it has the SHA-256"},
		"another file after a cut": {first(cut, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"two"`)
			withoutVersion(w, r, text)
		}), "", "the file was replaced on the server"},
		"another size after a cut": {first(cut, func(w http.ResponseWriter, r *http.Request) { cutting(text[:len(text)-1], len(text))(w, r) }),
			"", "the file was replaced on the server"},
		"another part after a cut": {first(cut, say(http.StatusPartialContent, "ETag", `"one"`, "Content-Range", "bytes 7-9/10")), "",
			`sends the part "bytes 7-9/10" of the file: must begin with byte`},
		"no part after a cut": {first(cut, say(http.StatusPartialContent, "ETag", `"one"`, "Content-Range", "nonsense")), "",
			`sends the part "nonsense"`},
		"nothing more after a cut": {first(cut, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "",
			"the server cut the connection 6 times"},
		"refused after a cut":        {first(cut, say(http.StatusUnauthorized)), sum, "the server answers 401 Unauthorized"},
		"down after a cut":           {first(cut, say(http.StatusBadGateway)), sum, "the server cut the connection 6 times"},
		"a status of its own making": {say(599), "", "the server answers 599"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := server(t, test.serve)
			to := Options{Cache: t.TempDir()}
			from := strings.Replace(s.URL, "https://", "https://user:secret@", 1) + "/bundle?token=secret"
			imported, err := ImportBundle(t.Context(), to, Bundle{From: from, SHA256: test.sum, Most: 4 << 20, Client: s.Client()})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") ||
				strings.Contains(err.Error(), "user") {
				t.Errorf("%v, want %q", err, test.want)
			}
			if len(imported) > 0 && test.sum != "" {
				t.Errorf("imported %v", imported)
			}
		})
	}
}

// withoutVersion serves a file without a version of its own.
func withoutVersion(w http.ResponseWriter, r *http.Request, text []byte) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// zeros are endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestRedirectedElsewhere: with a checksum another host may send the bundle. It learns neither credentials nor where the request came from.
func TestRedirectedElsewhere(t *testing.T) {
	text, sum := bundleFile(t)
	told := make(chan http.Header, 10)
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Clone()
		cutting(text, len(text))(w, r)
	}))
	t.Cleanup(other.Close)
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "user" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other.URL+"/elsewhere", http.StatusFound)
	})
	from := strings.Replace(s.URL, "https://", "https://user:secret@", 1) + "/bundle?token=secret"
	if _, err := ImportBundle(t.Context(), Options{Cache: t.TempDir()}, Bundle{From: from, SHA256: sum, Client: s.Client()}); err != nil {
		t.Fatal(err)
	}
	for name, values := range <-told {
		if name == "Authorization" || name == "Referer" || strings.Contains(strings.Join(values, " "), "secret") {
			t.Errorf("the other host is told %s: %s", name, values)
		}
	}
}

// TestChecksumOfFile: the checksum of a bundle that is a file is compared too; where there is no file it is refused.
func TestChecksumOfFile(t *testing.T) {
	text, sum := bundleFile(t)
	file := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var warned []string
	b := Bundle{From: file, SHA256: sum, Warn: func(text string) { warned = append(warned, text) }}
	if imported, err := ImportBundle(t.Context(), Options{Cache: t.TempDir()}, b); err != nil || len(imported) == 0 || len(warned) > 0 {
		t.Errorf("%v, %v, %v", imported, err, warned)
	}
	for want, b := range map[string]Bundle{
		"it has the SHA-256 " + sum + " instead of": {From: file, SHA256: sumOf([]byte("other"))},
		"a checksum cannot be combined with -":      {From: "-", Input: bytes.NewReader(text), SHA256: sum},
		"a checksum cannot be combined with oci://": {From: "oci://example.org/a/b:c", SHA256: sum},
	} {
		if _, err := ImportBundle(t.Context(), Options{Cache: t.TempDir()}, b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestDownloadReports: how much of a bundle was downloaded is reported, and the row goes when all of it is there.
func TestDownloadReports(t *testing.T) {
	text, sum := bundleFile(t)
	s, _ := server(t, cutting(text, len(text)))
	var said []string
	to := Options{Cache: t.TempDir(), Progress: func(p Progress) {
		if p.Product == "bundle" {
			said = append(said, string(p.Phase)+" "+p.Detail)
		}
	}}
	if _, err := ImportBundle(t.Context(), to, Bundle{From: s.URL, SHA256: sum, Client: s.Client()}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("downloading %d bytes of %d bytes", len(text), len(text))
	if len(said) < 2 || said[len(said)-2] != want || said[len(said)-1] != "cached " {
		t.Errorf("said %q, want %q", said, want)
	}
	if got := progress(25<<20, 100<<20, 20<<20, 4*time.Second); got != "25 MiB of 100 MiB, about 15s left" {
		t.Error(got)
	}
}

// TestCancelledDownload: who stops waiting is not kept by tries.
func TestCancelledDownload(t *testing.T) {
	text, _ := bundleFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var again atomic.Bool
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if again.Swap(true) {
			cancel()
			panic(http.ErrAbortHandler)
		}
		cutting(text, len(text)/2)(w, r)
	})
	if _, err := ImportBundle(ctx, Options{Cache: t.TempDir()}, Bundle{From: s.URL, Client: s.Client()}); err == nil {
		t.Error("it succeeds")
	}
}
