package plaintext

import "strings"

// left stands for what a text has lost.
const left = "..."

// Beginning is the beginning of a text, of at most so many bytes, and marked where something follows.
func Beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(most-len(left), 0)], "") + left
}

// End is the end of a text, of at most so many bytes, and marked where something comes before.
func End(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return left + strings.ToValidUTF8(text[len(text)-max(most-len(left), 0):], "")
}
