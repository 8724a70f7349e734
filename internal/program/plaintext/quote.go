package plaintext

import "strings"

// Quote returns the beginning of a text of others, fit to be shown: see Shown. It has at most so many bytes. A text is
// redacted before it is cut: a secret that lost its beginning or its end is not found.
func Quote(text string, most int) string {
	return Beginning(strings.TrimSpace(Shown(text)), most)
}

// QuoteEnd is Quote for a text of which the end tells most.
func QuoteEnd(text string, most int) string {
	return End(strings.TrimSpace(Shown(text)), most)
}
