package plaintext

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestShort: what is too long is marked where it was cut, is never longer than it may be, and no character is cut in two.
func TestShort(t *testing.T) {
	for _, text := range []string{"", "short", "exactly ten", strings.Repeat("ä", 300), strings.Repeat("a", 300) + "ä"} {
		for _, most := range []int{4, 11, 512} {
			beginning, end := Beginning(text, most), End(text, most)
			if len(text) <= most {
				if beginning != text || end != text {
					t.Errorf("%q of at most %d bytes: %q, %q", text, most, beginning, end)
				}
				continue
			}
			if len(beginning) > most || len(end) > most || !utf8.ValidString(beginning) || !utf8.ValidString(end) {
				t.Errorf("%q of at most %d bytes: %q, %q", text, most, beginning, end)
			}
			kept, marked := strings.CutSuffix(beginning, "...")
			if !marked || !strings.HasPrefix(text, kept) || len(kept) < most-4 {
				t.Errorf("the beginning of %q of at most %d bytes is %q", text, most, beginning)
			}
			kept, marked = strings.CutPrefix(end, "...")
			if !marked || !strings.HasSuffix(text, kept) || len(kept) < most-4 {
				t.Errorf("the end of %q of at most %d bytes is %q", text, most, end)
			}
		}
	}
}
