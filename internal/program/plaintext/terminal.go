// Package plaintext makes text that others wrote (machines, clusters, commands) fit to be shown and kept: without control
// characters that a terminal would act on, and without secrets. It does not know where the text comes from.
package plaintext

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sequences are the escape sequences of terminals: CSI (colours, cursor), OSC and its kin (titles, links), and short ones.
var sequences = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ ` +
	`-/]*[@-~]|(?:\x1b[\]PX^_]|[\x{9d}\x{90}\x{98}\x{9e}\x{9f}])[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c})?|\x1b[ -/]*[0-~]?`)

// Strip is text without escape sequences and control characters, but for line breaks and tabs, as valid UTF-8.
func Strip(text string) string {
	if strings.IndexFunc(text, acts) < 0 && utf8.ValidString(text) {
		return text // as nearly all is
	}
	text = sequences.ReplaceAllString(strings.ToValidUTF8(text, ""), "")
	return strings.Map(func(r rune) rune {
		if acts(r) {
			return -1
		}
		return r
	}, text)
}

// Visible is text in which whatever a terminal would act on can be seen instead (^[ for an escape), but for line breaks and
// tabs, as valid UTF-8. Text without such characters stays as it is.
func Visible(text string) string {
	if strings.IndexFunc(text, acts) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, string(utf8.RuneError)) {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteString("^" + string(r+'@'))
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}

// acts reports whether a terminal may act on a character, or draw others elsewhere because of it.
func acts(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // they change the direction of writing
		return true
	}
	return unicode.IsControl(r)
}
