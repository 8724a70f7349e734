package observe

import (
	"slices"
	"testing"
)

func TestRetryIsBounded(t *testing.T) {
	m := &Surveys{}
	var got []string
	for n := range 8 {
		m.unanswered = n
		got = append(got, m.Retry().String())
	}
	m.unanswered = 1 << 40
	got = append(got, m.Retry().String())
	if want := []string{"0s", "1s", "2s", "4s", "8s", "16s", "30s", "30s", "30s"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
