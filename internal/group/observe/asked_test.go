package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// TestAskFor: a Machine is asked for with the time at which it was made, whatever its object's is after a move. Machines that are gone are
// dropped, and others stay.
func TestAskFor(t *testing.T) {
	made := metav1.NewTime(time.Date(2026, 11, 23, 4, 5, 6, 0, time.UTC))
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "a-2", CreationTimestamp: made}}
	moved := m.DeepCopy()
	moved.CreationTimestamp = metav1.NewTime(made.Add(time.Hour))
	moved.Annotations = map[string]string{controlplanev1.CreatedAnnotation: made.UTC().Format(time.RFC3339)}
	const asked = "a-2=2026-11-23T04:05:06Z"
	for _, test := range []struct {
		value string
		m     *clusterv1.Machine
		want  string
	}{
		{"", m, asked},
		{"", moved, asked},
		{"a-2=2026-11-20T00:00:00Z", m, asked},
		{"a-3=2026-11-25T00:00:00Z,a-1=2026-11-20T00:00:00Z", m, "a-3=2026-11-25T00:00:00Z," + asked},
		{"a-1", m, "refused"},
		{"a-3=2026-11-25T00:00:00Z" + strings.Repeat(" ", 4096), m, "refused"},
	} {
		got, err := AskFor(test.value, test.m, []string{"a-2", "a-3"})
		if err != nil {
			got = "refused"
		}
		if got != test.want {
			t.Errorf("%.40q becomes %q, %v; want %q", test.value, got, err, test.want)
		}
	}
	var full []string
	for i := range 80 {
		full = append(full, fmt.Sprintf("a-%027d=2026-11-25T00:00:00Z", i))
	}
	value := strings.Join(full, ",")
	if got, err := AskFor(value, m, namesIn(t, value)); err == nil || !strings.Contains(err.Error(), "80 machines are asked to be replaced") {
		t.Errorf("%d bytes become %d, %v", len(value), len(got), err)
	}
}

// namesIn are the machines that a value names.
func namesIn(t *testing.T, value string) []string {
	t.Helper()
	all, err := machine.ParseAsked(value)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Machine)
	}
	return names
}
