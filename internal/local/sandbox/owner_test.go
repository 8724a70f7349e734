package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwnerOfAMachine: who a machine was made for is recorded once, and never changes.
func TestOwnerOfAMachine(t *testing.T) {
	f := folder(filepath.Join(t.TempDir(), "one"))
	if err := os.Mkdir(string(f), 0o700); err != nil {
		t.Fatal(err)
	}
	// What earlier versions wrote.
	if err := os.WriteFile(f.record(), []byte(`{"spec":{"name":"one","address":"172.31.77.11","podCIDR":"","artifacts":{}},"made":true}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ owner, want, refused string }{
		{"", "", ""},
		{"a", "a", ""},
		{"a", "a", ""},
		{"b", "a", `machine one: was made for the object with UID a, not for "b"`},
		{"", "a", "was made for"},
	} {
		r, err := f.load()
		if err != nil {
			t.Fatal(err)
		}
		err = f.own(r, c.owner)
		if err == nil != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("claimed for %q: %v, want %q", c.owner, err, c.refused)
		}
		if again, err := f.load(); err != nil || again.Spec.Owner != c.want {
			t.Errorf("claimed for %q it is recorded as %+v, %v; want %q", c.owner, again, err, c.want)
		}
	}
}
