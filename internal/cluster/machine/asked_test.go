package machine

import (
	"strings"
	"testing"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestParseAsked reads which machines people asked to be replaced, and refuses what cannot be read.
func TestParseAsked(t *testing.T) {
	for _, test := range []struct{ text, want, refused string }{
		{text: ""},
		{text: "a-1=2026-11-23T04:05:06Z", want: "a-1 at 2026-11-23T04:05:06Z"},
		{text: "b=2026-11-23T09:00:00Z, a.x=2026-11-23T04:05:06Z", want: "a.x at 2026-11-23T04:05:06Z; b at 2026-11-23T09:00:00Z"},
		{text: "a", refused: `is "a"; names of machines with times are accepted, such as demo-cp-1=2026-`},
		{text: "a=soon", refused: `is "a=soon"`},
		{text: "A_1=2026-11-23T04:05:06Z", refused: `names "A_1", which cannot be the name of a Machine`},
		{text: strings.Repeat("a", 4097), refused: "has 4097 bytes, must have at most 4096"},
	} {
		read, err := ParseAsked(test.text)
		var got []string
		for _, r := range read {
			got = append(got, r.String())
		}
		if strings.Join(got, "; ") != test.want || (err != nil) != (test.refused != "") {
			t.Errorf("%.40q is read as %q, %v; want %q", test.text, got, err, test.want)
		}
		if err != nil && (!strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), controlplanev1.ReplaceAnnotation)) {
			t.Errorf("%.40q is refused with %q, want the annotation and %q", test.text, err, test.refused)
		}
	}
}
