package plaintext

import "testing"

// TestQuote: a secret is found before a text is cut, also where the cut goes through it.
func TestQuote(t *testing.T) {
	const text = " \x1b[31mjoin --token abcdef.0123456789abcdef\n"
	for _, test := range []struct {
		quote func(string, int) string
		most  int
		want  string
	}{
		{Quote, 100, "join --token <secret>"},
		{Quote, 20, "join --token <sec..."},
		{QuoteEnd, 100, "join --token <secret>"},
		{QuoteEnd, 15, "...ken <secret>"},
	} {
		if got := test.quote(text, test.most); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
