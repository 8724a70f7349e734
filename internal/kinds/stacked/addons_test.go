package stacked

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestAddonsHealthy: a condition and a metric report whether kube-proxy and CoreDNS work, and nothing else changes.
func TestAddonsHealthy(t *testing.T) {
	w := grown(t, 3)
	look := func() {
		t.Helper()
		w.r.Memories.Of(kcpKey).Files = observe.FilesSeen{}
		if p := w.settle(); p.Step != string(plan.Nothing) {
			t.Errorf("it is decided by: %+v", p)
		}
	}
	condition := func(when string, status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		c := conditions.Get(w.kcp(), controlplanev1.AddonsHealthyCondition)
		if c == nil || c.Status != status || c.Reason != reason || c.Message != message {
			t.Errorf("%s: %+v, want %s %s %q", when, c, status, reason, message)
		}
	}
	w.proxy = kubeadm.AddonHealth{State: kubeadm.AddonWorks}
	w.dns = kubeadm.AddonHealth{State: kubeadm.AddonFails, Message: "0 of 2 replicas available"}
	look()
	condition("CoreDNS fails", metav1.ConditionFalse, "NotHealthy", "* coredns: 0 of 2 replicas available")
	if got := addonGauges(t); len(got) != 2 || got["kube-proxy"] != 1 || got["coredns"] != 0 {
		t.Errorf("metrics are %v", got)
	}
	if again := w.turn().RequeueAfter; again > observe.SoonAtRest {
		t.Errorf("looks again after %s, so that a repair is seen late", again)
	}
	w.dns = kubeadm.AddonHealth{State: kubeadm.AddonUnknown, Message: "its controller has not seen generation 2 yet, only 1"}
	look()
	condition("CoreDNS is not known", metav1.ConditionUnknown, "HealthUnknown",
		"* coredns: its controller has not seen generation 2 yet, only 1")
	if got := addonGauges(t); len(got) != 1 || got["kube-proxy"] != 1 {
		t.Errorf("of what is not known there is a metric: %v", got)
	}
	w.dns = kubeadm.AddonHealth{State: kubeadm.AddonWorks}
	look()
	condition("both work", metav1.ConditionTrue, "Healthy", "")
	w.view.Reachable, w.view.Why, w.view.Since = false, "no answer in time", time.Now().Add(-time.Hour)
	w.r.Memories.Of(kcpKey).Began = time.Now().Add(-time.Hour)
	w.settle()
	condition("the cluster is out of reach", metav1.ConditionUnknown, "ConnectionDown", "no answer in time")
	if got := addonGauges(t); len(got) > 0 {
		t.Errorf("out of reach, and there is a metric: %v", got)
	}
	w.view.Reachable, w.view.Why = true, ""
	w.proxy, w.dns = kubeadm.AddonHealth{}, kubeadm.AddonHealth{}
	look()
	if c := conditions.Get(w.kcp(), controlplanev1.AddonsHealthyCondition); c != nil {
		t.Errorf("others keep the add-ons, and still there is %+v", c)
	}
}

// addonGauges are the figures of quorate_addon_healthy by the names of the add-ons.
func addonGauges(t *testing.T) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, m := range metricsOf(t, "quorate_addon_healthy") {
		for _, label := range m.GetLabel() {
			if label.GetName() == "addon" {
				found[label.GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return found
}
