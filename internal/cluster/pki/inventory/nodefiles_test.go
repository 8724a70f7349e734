package inventory

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// TestNodeFiles: the report of a file has what the file holds, without private halves.
func TestNodeFiles(t *testing.T) {
	ca := issue(t, nil, "kubernetes", 3650*day)
	contents := pki.Read(slices.Concat(ca.pem(), ca.keyPEM(t)))
	text, err := json.Marshal(NodeFiles{Files: []NodeFile{NewNodeFile("/a/ca.crt", ClusterCA, contents)}})
	if err != nil || strings.Contains(string(text), "PRIVATE") {
		t.Fatalf("%s, %v", text, err)
	}
	got, err := FilesOf("m", text, true)
	if err != nil || len(got) != 1 || len(got[0].Certificates) != 1 || len(got[0].Private) != 1 || len(got[0].Unread) != 0 || !got[0].InPlace {
		t.Errorf("read %+v, %v", got, err)
	}
}

// TestHostileNodeFiles: a node that tells nonsense does no harm.
func TestHostileNodeFiles(t *testing.T) {
	ca := issue(t, nil, "kubernetes", 3650*day)
	one := func(f NodeFile) []byte {
		text, err := json.Marshal(NodeFiles{Files: []NodeFile{f}})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	got, err := FilesOf("m", one(NodeFile{Path: "\x1b[2J", Name: "a-label-of-its-own", Certificates: string(ca.keyPEM(t))}), false)
	if err != nil || got[0].Name != Other || len(got[0].Private)+len(got[0].Certificates) != 0 {
		t.Errorf("read %+v, %v", got, err)
	}
	many := make([]NodeFile, mostFiles+1)
	text, err := json.Marshal(NodeFiles{Files: many})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"no JSON": []byte("{"), "many": text, "long": make([]byte, MostNodeFiles+1)} {
		if found, err := FilesOf("m", text, false); err == nil || len(found) > 0 {
			t.Errorf("%s: %v", name, fmt.Sprint(found, err))
		}
	}
}
