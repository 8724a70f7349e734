package group

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/plan"
)

// spare returns what the metric says of a group; false: nothing.
func spare(t *testing.T, kind, name string) (float64, bool) {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := RegisterMetrics(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "quorate_quorum_spare" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["kind"] == kind && labels["name"] == name {
				return m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

// TestSpareIsUnknown: while etcd is silent there is no figure, rather than the last good one.
func TestSpareIsUnknown(t *testing.T) {
	of, metrics := client.ObjectKey{Namespace: "default", Name: "spare"}, Metrics("Thing")
	o := plan.Observed{Etcd: plan.Etcd{Owner: plan.EtcdOurs, Known: true, Members: []plan.Member{
		{ID: "1", Health: plan.Healthy}, {ID: "2", Health: plan.Healthy}, {ID: "3", Health: plan.Healthy},
	}}}
	metrics.Spare(of, o)
	if got, told := spare(t, "Thing", "spare"); !told || got != 1 {
		t.Errorf("of three healthy voters it says %v (%t), want 1", got, told)
	}
	o.Etcd.Known, o.Etcd.Members = false, nil
	metrics.Spare(of, o)
	if got, told := spare(t, "Thing", "spare"); told {
		t.Errorf("no member answers, and it says %v", got)
	}
}
