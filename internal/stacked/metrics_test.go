package stacked

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/etcd"
)

// spare returns what the metric says of the control plane demo-cp; false: nothing.
func spare(t *testing.T) (float64, bool) {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(quorumSpare); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == kcpKey.Name {
					return m.GetGauge().GetValue(), true
				}
			}
		}
	}
	return 0, false
}

// TestSpareIsUnknown: while etcd is silent there is no figure, rather than the last good one.
func TestSpareIsUnknown(t *testing.T) {
	s := fine()
	setSpare(s)
	if got, told := spare(t); !told || got != 1 {
		t.Errorf("of three healthy voters it says %v (%t), want 1", got, told)
	}
	s.addEtcd(etcd.Survey{Why: "no member told its list of members"}, &memberTimes{}, time.Now())
	setSpare(s)
	if got, told := spare(t); told {
		t.Errorf("no member answers, and it says %v", got)
	}
}
