package store

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/backup/store/s3test"
)

// TestBelow: a folder of a store is a store, and no way leads out of it: not by a key, not by a folder to list, and not by the folder's
// own name.
func TestBelow(t *testing.T) {
	root := t.TempDir()
	folder, err := OpenFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	_, bucket := serve(t, s3test.Dialect{Pages: 2})
	for name, whole := range map[string]Store{"folder": folder, "bucket": bucket} {
		t.Run(name, func(t *testing.T) {
			own, err := Below(whole, "team")
			if err != nil {
				t.Fatal(err)
			}
			contract(t, own, true)
			before := strangers(t, whole)
			tried := escapes(t, own)
			for key, data := range before {
				if got := string(get(t, whole, key)); got != data {
					t.Errorf("%s is %q, want %q", key, got, data)
				}
			}
			t.Logf("ways tried: %d", tried)
		})
	}
	for _, name := range []string{"", "..", ".", "../team", "/etc", "team/../victim", "team//x", ".hidden", "a\x00"} {
		if _, err := Below(folder, name); err == nil {
			t.Errorf("folder %q: it is taken", name)
		}
	}
}

// strangers stores what belongs to others: beside the folder, above it, and in folders whose names begin as its own.
func strangers(t *testing.T, whole Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range []string{"victim/uid/a/archive", "team-b/uid/a/archive", "teamuid/a", "uid/a/archive", "top"} {
		all[key] = "secret of " + key
		if err := whole.Put(t.Context(), key, strings.NewReader(all[key])); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// escapes tries ways to what belongs to others, and returns how many.
func escapes(t *testing.T, own Store) int {
	t.Helper()
	ctx, soon := t.Context(), time.Now().Add(time.Hour)
	tried := 0
	for _, prefix := range []string{
		"../victim", "/victim", "../../victim", "uid/../../victim", "./../victim", "uid/./../../victim", "..", "../team-b", "-b", "",
		"%2e%2e/victim", "..%2fvictim",
		`..\victim`, `uid\..\..\victim`, "../victim\x00", "//victim", "…/victim", "\u2024\u2024/victim",
		"~/victim", "victim", "uid/a/../../../victim", ".\n./victim",
	} {
		key := prefix + "/uid/a/archive"
		if body, err := own.Get(ctx, key); err == nil {
			_ = body.Close()
			t.Errorf("%q is read", key)
		}
		_ = own.List(ctx, prefix, func(key string) error {
			if !strings.HasPrefix(key, prefix+"/") {
				t.Errorf("listing %q finds %q", prefix, key)
			}
			return nil
		})
		// Where the name is one of the folder's own, that is what is written and deleted.
		_, _ = own.Put(ctx, key, strings.NewReader("overwritten")), own.Put(ctx, prefix+"-b/uid/a/archive", strings.NewReader("overwritten"))
		_, _ = own.Delete(ctx, key), own.ClearUploads(ctx, prefix, soon)
		tried += 6
	}
	return tried
}

// TestBelowFollowsNoLink: a link that somebody put into the folder does not lead out of the volume.
func TestBelowFollowsNoLink(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "archive")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Mkdir(filepath.Join(root, "team"), 0o700),
		os.Symlink(outside, filepath.Join(root, "team", "uid"))); err != nil {
		t.Fatal(err)
	}
	folder, err := OpenFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	own, err := Below(folder, "team")
	if err != nil {
		t.Fatal(err)
	}
	_, err = own.Get(t.Context(), "uid/archive")
	if err == nil || own.Put(t.Context(), "uid/archive", strings.NewReader("x")) == nil || own.Delete(t.Context(), "uid/archive") == nil {
		t.Errorf("the link is followed: %v", err)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "secret" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestFound: credentials are found in the environment, or else asked of a workload identity, and the error says what is missing. A
// service's own redirects and errors are bounded by what the store asks of it.
func TestFound(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(`{"AccessKeyId":"of-the-pod","SecretAccessKey":"s","Token":"t","Expiration":"2100-01-01T00:00:00Z"}`))
	}))
	defer agent.Close()
	asked := ""
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Authorization")
		s3test.Refuse(w, http.StatusNotFound, "NoSuchKey")
	}))
	defer service.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	const uri = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
	for name, test := range map[string]struct {
		environment map[string]string
		asked, err  string
	}{
		"environment":       {map[string]string{"AWS_ACCESS_KEY_ID": "of-env", "AWS_SECRET_ACCESS_KEY": "s"}, "Credential=of-env/", ""},
		"workload identity": {map[string]string{uri: agent.URL, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token}, "Credential=of-the-pod/", ""},
		"refused":           {map[string]string{uri: agent.URL}, "", "AWS_ACCESS_KEY_ID is not set, and no workload identity: 403"},
		"no token": {map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": token + "-gone", "AWS_ROLE_ARN": "r"}, "",
			"no workload identity: open "},
	} {
		t.Run(name, func(t *testing.T) {
			asked = ""
			for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY"} {
				t.Setenv(variable, test.environment[variable])
			}
			for variable, value := range test.environment {
				t.Setenv(variable, value)
			}
			s, err := S3{Endpoint: service.URL, Bucket: "backups", PathStyle: true, Found: true}.Open()
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Get(t.Context(), "uid/a")
			if test.err == "" && !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), test.err) || !strings.Contains(asked, test.asked) {
				t.Errorf("asked with %q, %v", asked, err)
			}
			if test.err != "" && asked != "" {
				t.Errorf("the service is asked without credentials")
			}
		})
	}
}
