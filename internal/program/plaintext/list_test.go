package plaintext

import "testing"

// TestList verifies that a list is cut after three texts.
func TestList(t *testing.T) {
	for _, test := range []struct {
		texts []string
		want  string
	}{
		{nil, ""}, {[]string{"a"}, "a"}, {[]string{"a", "b", "c"}, "a, b, c"}, {[]string{"a", "b", "c", "d", "e"}, "a, b, c and 2 more"},
	} {
		if got := List(test.texts); got != test.want {
			t.Errorf("%q: %q, want %q", test.texts, got, test.want)
		}
	}
}
