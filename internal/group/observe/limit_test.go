package observe

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestParseReplacements reads what is noted of replacements, and refuses what is not.
func TestParseReplacements(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"a=2026-11-23T04:05:06Z", "a at 2026-11-23T04:05:06Z"},
		{"b=2026-11-23T09:00:00Z, a=2026-11-23T04:05:06Z,", "a at 2026-11-23T04:05:06Z; b at 2026-11-23T09:00:00Z"},
		{"b=2026-11-23T04:05:06Z,a=2026-11-23T04:05:06Z", "a at 2026-11-23T04:05:06Z; b at 2026-11-23T04:05:06Z"},
		{"a=2026-11-23T06:05:06+02:00", "a at 2026-11-23T04:05:06Z"},
		{"a=2026-11-23T04:05:06Z,a=2026-11-23T03:00:00Z", "a at 2026-11-23T04:05:06Z"},
		{"a", "refused"},
		{"a=", "refused"},
		{"=2026-11-23T04:05:06Z", "refused"},
		{"a=yesterday", "refused"},
		{"a=2026-11-23T04:05:06Z b=2026-11-23T04:05:06Z", "refused"},
	} {
		read, err := ParseReplacements(test.text)
		var got []string
		for _, r := range read {
			got = append(got, r.String())
		}
		switch {
		case test.want != "refused":
			if err != nil || strings.Join(got, "; ") != test.want {
				t.Errorf("%q is read as %q, %v; want %q", test.text, got, err, test.want)
			}
		case err == nil || len(read) > 0:
			t.Errorf("%q is read as %q", test.text, got)
		case !strings.Contains(err.Error(), controlplanev1.ReplacementsAnnotation) || !strings.Contains(err.Error(), `"`+test.text+`"`) ||
			!strings.Contains(err.Error(), "such as demo-cp-1=2026-"):
			t.Errorf("%q is refused with %q: the annotation, its value and what is accepted shall be named", test.text, err)
		}
	}
}

// TestMaxReplacements: without a limit there is none.
func TestMaxReplacements(t *testing.T) {
	if got := MaxReplacements(controlplanev1.ApprovalSpec{}); got != 0 {
		t.Errorf("nothing is said, and the limit is %d", got)
	}
	if got := MaxReplacements(controlplanev1.ApprovalSpec{MaxReplacementsPerDay: ptr.To(int32(2))}); got != 2 {
		t.Errorf("the limit is %d, want 2", got)
	}
}
