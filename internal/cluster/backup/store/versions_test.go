package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/backup/store/s3test"
)

// versionsOf lists versions, with a minus those that are markers. Where a marker comes among the versions of its object is up to the
// server.
func versionsOf(t *testing.T, s Store, folder, after string) (text []string, all []Version) {
	t.Helper()
	err := s.(Versioned).ListVersions(t.Context(), folder, after, func(v Version) error {
		all = append(all, v)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	word := func(v Version) string {
		if v.Deleted {
			return v.Key + "-"
		}
		return v.Key
	}
	slices.SortStableFunc(all, func(a, b Version) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), -strings.Compare(word(a), word(b)))
	})
	for _, v := range all {
		text = append(text, word(v))
	}
	return text, all
}

// keepsVersions: each version of an object is listed, the newest first, and can be read, also of one that was deleted, and above the size
// of a part.
func keepsVersions(t *testing.T, s Store) {
	t.Helper()
	ctx := t.Context()
	large := bytes.Repeat([]byte("0123456789abcdef"), (part+part/2)/16)
	for _, put := range []struct{ key, data string }{{"w/a/x", "1"}, {"w/a/x", "22"}, {"w/b/x", string(large)}, {"w/c", "333"}} {
		if err := s.Put(ctx, put.key, strings.NewReader(put.data)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"w/a/x", "w/b/x"} {
		if err := s.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	text, all := versionsOf(t, s, "w", "")
	if want := []string{"w/a/x-", "w/a/x", "w/a/x", "w/b/x-", "w/b/x", "w/c"}; !slices.Equal(text, want) {
		t.Fatalf("%q, want %q", text, want)
	}
	if text, _ := versionsOf(t, s, "w", "b"); !slices.Equal(text, []string{"w/b/x-", "w/b/x", "w/c"}) {
		t.Errorf("from b on: %q", text)
	}
	if text, _ := versionsOf(t, s, "w/a", ""); len(text) != 3 {
		t.Errorf("below a: %q", text)
	}
	if text, _ := versionsOf(t, s, "none", ""); len(text) != 0 {
		t.Errorf("of no object: %q", text)
	}
	for i, want := range map[int]string{1: "22", 2: "1", 4: string(large), 5: "333"} {
		body, err := s.(Versioned).GetVersion(ctx, all[i].Key, all[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil || string(data) != want {
			t.Errorf("version %d of %s: %d bytes, want %d: %v", i, all[i].Key, len(data), len(want), err)
		}
	}
	if all[1].Content == all[2].Content || all[1].Size != 2 || all[4].Size != int64(len(large)) {
		t.Errorf("%+v", all)
	}
}

// TestVersions: a bucket tells its versions, in pages too, and below a folder; one without versions tells what is there. Other stores say
// that they keep none.
func TestVersions(t *testing.T) {
	for _, pages := range []int{0, 1, 2} {
		_, s := serve(t, s3test.Dialect{Versioned: true, Pages: pages})
		keepsVersions(t, s)
		below, err := Below(s, "team")
		if err != nil {
			t.Fatal(err)
		}
		keepsVersions(t, below)
		// The real server of TestServer, versitygw, lists what is stored again as one more marker.
		if err := below.Put(t.Context(), "w/b/x", strings.NewReader("4444")); err != nil {
			t.Fatal(err)
		}
		if text, _ := versionsOf(t, below, "w/b", ""); !slices.Equal(text, []string{"w/b/x", "w/b/x"}) {
			t.Errorf("below b, stored again: %q", text)
		}
	}
	_, plain := serve(t, s3test.Dialect{})
	for _, data := range []string{"1", "2"} {
		if err := plain.Put(t.Context(), "w/a", strings.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := versionsOf(t, plain, "w", ""); !slices.Equal(text, []string{"w/a"}) {
		t.Errorf("without versions: %q", text)
	}
	_, silent := serve(t, s3test.Dialect{NoVersions: true})
	if err := silent.(Versioned).ListVersions(t.Context(), "w", "", nil); !errors.Is(err, ErrForbidden) {
		t.Errorf("not allowed: %v", err)
	}
	folder, err := OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	below, err := Below(folder, "team")
	if err != nil {
		t.Fatal(err)
	}
	if _, is := Store(folder).(Versioned); is {
		t.Error("a folder says that it keeps versions")
	}
	_, got := below.(Versioned).GetVersion(t.Context(), "w/a", "v1")
	if listed := below.(Versioned).ListVersions(t.Context(), "w", "", nil); !errors.Is(listed, ErrNoVersions) ||
		!errors.Is(got, ErrNoVersions) {
		t.Errorf("below a folder: %v, %v", listed, got)
	}
	for _, key := range []string{"", "../x", "w/../../x", "w//x"} {
		_, got := plain.(Versioned).GetVersion(t.Context(), key, "v1")
		if listed := plain.(Versioned).ListVersions(t.Context(), key, "", nil); listed == nil || got == nil {
			t.Errorf("key %q is taken", key)
		}
	}
	for _, id := range []string{"", "a b", "a\n", "\x1b[31m", strings.Repeat("x", longestID+1)} {
		if _, err := plain.(Versioned).GetVersion(t.Context(), "w/a", id); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("version %q: %v", id, err)
		}
	}
	if _, err := plain.(Versioned).GetVersion(t.Context(), "w/a", "gone"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a version that is gone: %v", err)
	}
}

// TestHostileLists: a list that never ends, in empty pages or in full ones, ends with an error, in little memory, and what is in it and
// does not belong there is left out.
func TestHostileLists(t *testing.T) {
	s, bucket := serve(t, s3test.Dialect{})
	page := ""
	s.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.WriteString(w, page)
		return true
	}
	lists := map[string]func(context.Context) error{
		"Version": func(ctx context.Context) error {
			return bucket.(Versioned).ListVersions(ctx, "u", "", func(v Version) error { return fmt.Errorf("listed is %+v", v) })
		},
		"Contents": func(ctx context.Context) error {
			return bucket.List(ctx, "u", func(key string) error { return fmt.Errorf("listed is %s", key) })
		},
		"Upload": func(ctx context.Context) error { return bucket.ClearUploads(ctx, "u", time.Now()) },
	}
	for tag, list := range lists {
		root := map[string]string{"Version": "ListVersionsResult", "Contents": "ListBucketResult", "Upload": "ListMultipartUploadsResult"}[tag]
		next := map[string]string{"Version": "NextKeyMarker", "Contents": "NextContinuationToken", "Upload": "NextKeyMarker"}[tag]
		end := "<IsTruncated>true</IsTruncated><" + next + ">x</" + next + "></" + root + ">"
		one := "<" + tag + "><Key>other/u/a</Key><VersionId>v1</VersionId></" + tag + ">"
		for want, body := range map[string]string{
			"pages": "",
			"more than": strings.Repeat(one, 2000) +
				map[string]string{"Version": "<DeleteMarker><Key>team/x/u/../a</Key><VersionId>v1</VersionId></DeleteMarker>"}[tag],
			"tags": strings.Repeat("<"+tag+"/>", mostAnswer/16),
		} {
			page = "<" + root + ">" + body + end
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			err := list(t.Context())
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v", tag, want, err)
			}
			if took := after.Sys - before.Sys; after.Sys > before.Sys && took > 200<<20 {
				t.Errorf("%s, %s: %d MiB", tag, want, took>>20)
			}
		}
	}
}
