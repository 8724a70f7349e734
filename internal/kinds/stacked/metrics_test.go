package stacked

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
)

// metricsOf returns the series of a metric.
func metricsOf(t *testing.T, name string) []*dto.Metric {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := group.RegisterMetrics(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()
		}
	}
	return nil
}

// measured is how often something was observed for the kind, and the sum in seconds.
func measured(t *testing.T, name string) (times uint64, seconds float64) {
	t.Helper()
	for _, m := range metricsOf(t, name) {
		times, seconds = m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
	}
	return times, seconds
}

const (
	rollouts = "quorate_rollout_duration_seconds"
	repairs  = "quorate_repair_duration_seconds"
)

// TestRolloutIsMeasured: from its beginning, which is on record, also where another process ends it.
func TestRolloutIsMeasured(t *testing.T) {
	w := grown(t, 3)
	times, seconds := measured(t, rollouts)
	before, _ := measured(t, repairs)
	w.change(upgrade)
	w.settle()
	kcp := w.kcp()
	for i := range kcp.Status.Conditions {
		if c := &kcp.Status.Conditions[i]; c.Type == upstream.KubeadmControlPlaneRollingOutCondition {
			c.LastTransitionTime.Time = c.LastTransitionTime.Add(-time.Hour)
		}
	}
	if err := w.client.Status().Update(context.Background(), kcp); err != nil {
		t.Fatal(err)
	}
	w.use(w.client) // another process
	w.live()
	again, sum := measured(t, rollouts)
	if took := sum - seconds; again != times+1 || took < 3600 || took > 2*3600 {
		t.Errorf("observed %d times, %.0f s; want once, an hour", again-times, took)
	}
	w.settle()
	if later, _ := measured(t, rollouts); later != again {
		t.Error("observed once more")
	}
	if after, _ := measured(t, repairs); after != before {
		t.Error("a rollout was observed as a repair")
	}
}

// TestRepairIsMeasured: once, when the machine is replaced and all is as wanted.
func TestRepairIsMeasured(t *testing.T) {
	w := grown(t, 3)
	times, _ := measured(t, repairs)
	before, _ := measured(t, rollouts)
	w.ail("demo-cp-2")
	w.forgetEtcd()
	w.settle()
	if during, _ := measured(t, repairs); during != times {
		t.Error("observed before its end")
	}
	w.live()
	if after, _ := measured(t, repairs); after != times+1 {
		t.Errorf("observed %d times, want once", after-times)
	}
	if after, _ := measured(t, rollouts); after != before {
		t.Error("a repair was observed as a rollout")
	}
}

// figures is how many series tell of the group of that name.
func figures(t *testing.T, name string) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := group.RegisterMetrics(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "name" && l.GetValue() == name }) {
				n++
			}
		}
	}
	return n
}

// TestNoFiguresWithoutCluster: nothing is observed of a control plane that no Cluster owns any more, and nothing is told of it.
func TestNoFiguresWithoutCluster(t *testing.T) {
	w := grown(t, 1)
	if n := figures(t, kcpKey.Name); n == 0 {
		t.Fatal("nothing is told of a control plane")
	}
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.OwnerReferences = nil })
	w.turn()
	if n := figures(t, kcpKey.Name); n != 0 {
		t.Errorf("%d figures are left", n)
	}
}
