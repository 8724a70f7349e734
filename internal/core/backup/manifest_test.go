package backup

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func sample() *Manifest {
	return &Manifest{
		Version: FormatVersion, Name: "20261127t170312z-abcde", Cluster: Cluster{UID: "0f3c9d3e-5f9e-4ad5-a30e-6e3f3a3a3a3a", Namespace: "team",
			Name: "demo"},
		Taken: time.Date(2026, 11, 27, 17, 3, 12, 0, time.UTC), Kubernetes: "v1.36.3",
		Etcd: Etcd{Version: "3.6.16", Storage: "3.6.0", Cluster: "abc", Term: 3, Member: "1",
			Members: []Member{{ID: "1", Name: "cp-1", PeerURLs: []string{"https://10.0.0.1:2380"}}}},
		Witnesses: []Witness{{42, 7, 0xdeadbeef}, {42, 9, 0xcafe}}, Keys: 12, Snapshot: Digest{100, sum},
		Fingerprints: map[string]string{"ca.crt": sum}, Files: map[string]Digest{"pki/ca.key": {5, sum}},
		Archive: &Archive{Digest{200, sum}, []string{"age1x"}},
	}
}

// TestManifest: what is written is read back, and each changed byte is found.
func TestManifest(t *testing.T) {
	data, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := got.Encode(); err != nil || !bytes.Equal(again, data) {
		t.Errorf("%s, %v", again, err)
	}
	for i := range data {
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[i] ^= 1 << bit
			if _, err := DecodeManifest(changed); err == nil {
				t.Errorf("bit %d of byte %d (%q) is changed, and the manifest is read", bit, i, data[i])
			}
		}
		if _, err := DecodeManifest(data[:i]); err == nil {
			t.Errorf("the manifest is read although it ends after %d of %d bytes", i, len(data))
		}
	}
	if _, err := DecodeManifest(append(bytes.Clone(data), '\n')); err == nil {
		t.Error("a byte more is not found")
	}
	if _, err := DecodeManifest(bytes.Repeat([]byte(" "), MostManifest+1)); err == nil {
		t.Error("a manifest of more than MostManifest bytes is read")
	}
	// A digest proves nothing about a document that another program wrote.
	raw, err := json.Marshal(map[string]any{"version": 1, "surplus": true})
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := seal(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeManifest(foreign); err == nil || !strings.Contains(err.Error(), "surplus") {
		t.Errorf("a field that is not known: %v", err)
	}
}

// TestManifestCheck: each of these manifests is refused, and the error names the field.
func TestManifestCheck(t *testing.T) {
	for field, change := range map[string]func(*Manifest){
		"version 2":      func(m *Manifest) { m.Version = 2 },
		`name "../x"`:    func(m *Manifest) { m.Name = "../x" },
		`name ""`:        func(m *Manifest) { m.Name = "" },
		`name "--"`:      func(m *Manifest) { m.Name = "--" },
		"cluster.uid":    func(m *Manifest) { m.Cluster.UID = "a/b" },
		"taken":          func(m *Manifest) { m.Taken = m.Taken.Add(time.Millisecond) },
		"must not be em": func(m *Manifest) { m.Witnesses = nil },
		"keys -1":        func(m *Manifest) { m.Keys = -1 },
		"revision 41":    func(m *Manifest) { m.Witnesses[1].Revision = 41 },
		"revision 0":     func(m *Manifest) { m.Witnesses = []Witness{{}} },
		"compacted at 4": func(m *Manifest) { m.Witnesses[0].CompactRevision = 43 },
		"snapshot":       func(m *Manifest) { m.Snapshot.SHA256 = strings.ToUpper(sum) },
		"archive":        func(m *Manifest) { m.Archive.Size = -1 },
		"files.pki":      func(m *Manifest) { m.Files["pki/ca.key"] = Digest{} },
		"name \"/etc/p":  func(m *Manifest) { m.Files["/etc/passwd"] = Digest{5, sum} },
		"name \"a/../":   func(m *Manifest) { m.Files["a/../../b"] = Digest{5, sum} },
		"not encrypted":  func(m *Manifest) { m.Archive.Recipients = nil },
	} {
		m := sample()
		change(m)
		if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestDiffers: a snapshot that was restored proves its manifest only if all of it agrees.
func TestDiffers(t *testing.T) {
	good := Restored{Witness: Witness{42, 9, 0xcafe}, Keys: 12, Latest: 50, Snapshot: Digest{100, sum}}
	for want, change := range map[string]func(*Restored){
		"":                    func(*Restored) {},
		"99 bytes":            func(r *Restored) { r.Snapshot.Size = 99 },
		"ends at revision 41": func(r *Restored) { r.Latest = 41 },
		"13 keys":             func(r *Restored) { r.Keys = 13 },
		"hash 0000cafd":       func(r *Restored) { r.Witness.Hash-- },
		"hash 0000cafe":       func(r *Restored) { r.Witness.CompactRevision = 7 },
		"compacted at rev":    func(r *Restored) { r.Witness.CompactRevision = 8 },
	} {
		r := good
		change(&r)
		err := sample().Differs(r)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		v := &Verification{Name: sample().Name, Archive: sample().Archive.Digest, Restored: r}
		if v.Proves(sample()) != (want == "") {
			t.Errorf("%q: it counts as a proof: %t", want, v.Proves(sample()))
		}
	}
	for name, v := range map[string]*Verification{
		"none":            nil,
		"another backup":  {Name: "x", Archive: sample().Archive.Digest, Restored: good},
		"another archive": {Name: sample().Name, Archive: Digest{199, sum}, Restored: good},
	} {
		if v.Proves(sample()) {
			t.Errorf("%s: it counts as a proof", name)
		}
	}
	v := &Verification{Name: sample().Name, At: sample().Taken, Archive: sample().Archive.Digest, Restored: good}
	data, err := v.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeVerification(data); err != nil || *got != *v {
		t.Errorf("%+v, %v", got, err)
	}
	data[20] ^= 1
	if _, err := DecodeVerification(data); err == nil {
		t.Error("a changed bit is not found")
	}
}

// TestName: a name says when the backup was taken, and other names say nothing.
func TestName(t *testing.T) {
	taken := time.Date(2026, 11, 27, 18, 3, 12, 5, time.FixedZone("CET", 3600))
	name := Name(taken, "abcde")
	if name != sample().Name || !NameTime(name).Equal(taken.Truncate(time.Second)) {
		t.Errorf("%s, %s", name, NameTime(name))
	}
	for _, other := range []string{"", "x", "20261127t170312z-ABC", "20261327t170312z-abcde", "lost+found", "../20261127t170312z-abcde"} {
		if at := NameTime(other); !at.IsZero() {
			t.Errorf("%q: %s", other, at)
		}
	}
}
