package archive

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/quorate/quorate/internal/core/backup"
)

func manifest() backup.Manifest {
	return backup.Manifest{
		Version: backup.FormatVersion, Name: "20261127t170312z-abcde", Cluster: backup.Cluster{UID: "uid"},
		Taken:     time.Date(2026, 11, 27, 17, 3, 12, 0, time.UTC),
		Witnesses: []backup.Witness{{Revision: 5, CompactRevision: -1, Hash: 7}},
	}
}

// write makes an archive of a snapshot.
func write(tb testing.TB, snapshot []byte, recipients []string, files map[string]string) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, recipients)
	if err == nil {
		_, err = w.Write(snapshot)
	}
	if err != nil {
		tb.Fatal(err)
	}
	for name, data := range files {
		if err := w.Add(name, []byte(data)); err != nil {
			tb.Fatal(err)
		}
	}
	m, err := w.Finish(manifest())
	if err != nil || m.Archive.Size != int64(out.Len()) {
		tb.Fatalf("%v: %d bytes, the manifest says %+v", err, out.Len(), m.Archive)
	}
	return out.Bytes()
}

// TestArchive: what is written is read back, whatever its size, and a snapshot above the limit is not.
func TestArchive(t *testing.T) {
	owner, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, piece - 1, piece, piece + 1, 3*piece + 17} {
		snapshot := bytes.Repeat([]byte("etcd"), size/4+1)[:size]
		plain := write(t, snapshot, nil, nil)
		hidden := write(t, snapshot, []string{owner.Recipient().String()}, map[string]string{"pki/ca.key": "secret"})
		for name, test := range map[string]struct {
			archive    []byte
			identities []age.Identity
			most       int64
			want       string
		}{
			"plain":             {plain, nil, int64(size), ""},
			"encrypted":         {hidden, []age.Identity{owner}, int64(size), ""},
			"without identity":  {hidden, nil, int64(size), "no identity was given"},
			"of somebody else":  {hidden, []age.Identity{stranger}, int64(size), "decrypting the archive"},
			"above the limit":   {plain, nil, int64(size) - 1, "more than"},
			"cut short":         {plain[:len(plain)-1], nil, int64(size), "the archive"},
			"with an end added": {append(bytes.Clone(plain), plain...), nil, int64(size), "the archive"},
		} {
			if size == 0 && test.want == "more than" {
				continue
			}
			var out bytes.Buffer
			contents, err := Read(bytes.NewReader(test.archive), test.identities, test.most, &out)
			switch {
			case (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("%s, %d bytes: %v, want %q", name, size, err, test.want)
			case err == nil && (!bytes.Equal(out.Bytes(), snapshot) || contents.Manifest.Name != manifest().Name):
				t.Errorf("%s, %d bytes: %d bytes were read", name, size, out.Len())
			}
		}
	}
}

// TestAdd: keys go into encrypted archives only, and names stay inside.
func TestAdd(t *testing.T) {
	owner, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	open := func(recipients ...string) *Writer {
		w, err := NewWriter(io.Discard, recipients)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if err := open().Add("pki/ca.key", nil); err == nil || !strings.Contains(err.Error(), "not encrypted") {
		t.Error(err)
	}
	w := open(owner.Recipient().String())
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../b", ".hidden", "a\n"} {
		if err := w.Add(name, nil); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
	if err := w.Add("a", make([]byte, MostFiles)); err != nil {
		t.Error(err)
	}
	if w.Add("b", []byte("x")) == nil || w.Add("a", nil) == nil {
		t.Error("too much, or a file twice, is taken")
	}
	if _, err := NewWriter(io.Discard, []string{owner.String()}); err == nil || strings.Contains(err.Error(), owner.String()) {
		t.Errorf("a private key as recipient: %v", err)
	}
}

// FuzzRead: whatever a store gives is read or refused, and no more of it is handed on than is asked for.
func FuzzRead(f *testing.F) {
	whole := write(f, []byte("snapshot"), nil, nil)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(ageMagic + "v1\n-> X25519 x\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 1 << 10
		var out bytes.Buffer
		contents, err := Read(bytes.NewReader(data), nil, most, &out)
		if out.Len() > most {
			t.Errorf("%d bytes were handed on", out.Len())
		}
		if err == nil && contents.Manifest.Snapshot.Size != int64(out.Len()) {
			t.Errorf("%d bytes were handed on, the manifest says %d", out.Len(), contents.Manifest.Snapshot.Size)
		}
	})
}
