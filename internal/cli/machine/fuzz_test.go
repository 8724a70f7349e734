package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// FuzzLog shows the end of whatever was logged.
func FuzzLog(f *testing.F) {
	f.Add([]byte("2026-11-21T03:00:00.1Z stderr F a b\n2026-11-21T03:00:00.1Z stdout P half"), 1)
	f.Add([]byte("\n\n-----BEGIN X-----\n\x1b[2J\n"), -1)
	f.Fuzz(func(t *testing.T, data []byte, lines int) {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var redacting plaintext.Lines
		var out bytes.Buffer
		log := logFile{current: fixed(path), plain: func(line []byte) []byte { return redacting.Redact(containerLine(line)) }}
		if err := log.copyTo(t.Context(), &out, max(lines, -1), false); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\r\x00\u009b") {
			t.Errorf("%q", got)
		}
	})
}
