package hostcheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingIPv6(t *testing.T) {
	for value, want := range map[string]string{"0\n": "", "1\n": "IPv6 on new interfaces: --ip-family",
		"none": "IPv6 in the kernel: --ip-family"} {
		file := filepath.Join(t.TempDir(), "disable_ipv6")
		if value != "none" {
			if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var got string
		for _, l := range missingIPv6(file) {
			got += l.String()
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
