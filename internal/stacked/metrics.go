package stacked

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quorum"
)

var (
	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_steps_total",
		Help: "Steps carried out on control planes.",
	}, []string{"verb", "rule", "reason", "result"})

	stepDelay = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quorate_step_delay_seconds",
		Help:    "Time from the newest fact that a step may have waited for to the end of its write. Kubernetes records most facts in full seconds.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30},
	}, []string{"verb"})

	quorumSpare = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_quorum_spare",
		Help: "How many more healthy voters may fail before etcd loses its quorum; negative by as many as are missing; absent while etcd does not tell its members.",
	}, []string{"namespace", "name"})

	certificateExpiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_certificate_expiry_timestamp_seconds",
		Help: "When the first of the serving certificates of a control plane's API servers and etcd members expires, in seconds since 1970; absent while none is known.",
	}, []string{"namespace", "name"})
)

// register adds the metrics to a registry. A second time does nothing.
func register(to prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{steps, stepDelay, quorumSpare, certificateExpiry} {
		err := to.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// countStep counts one step that was tried.
func countStep(d plan.Decision, delay time.Duration, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	steps.WithLabelValues(string(d.Step.Verb), d.Rule, d.Reason, result).Inc()
	if err == nil {
		stepDelay.WithLabelValues(string(d.Step.Verb)).Observe(max(delay, 0).Seconds())
	}
}

// setSpare tells how well the quorum of a control plane stands. Where that is not known there
// is no figure: the last good one would hide that etcd is silent.
func setSpare(s *scene) {
	if !s.observed.Etcd.Managed || !s.observed.Etcd.Known {
		quorumSpare.DeleteLabelValues(s.kcp.Namespace, s.kcp.Name)
		return
	}
	quorumSpare.WithLabelValues(s.kcp.Namespace, s.kcp.Name).Set(float64(quorum.Spare(plan.Assess(s.observed).Voters)))
}

// setExpiry tells when the first certificate of a control plane expires, where that is known.
func setExpiry(kcp *controlplanev1.KubeadmControlPlane) {
	end := kcp.Status.CertificateExpiry.Date
	if end.IsZero() {
		certificateExpiry.DeleteLabelValues(kcp.Namespace, kcp.Name)
		return
	}
	certificateExpiry.WithLabelValues(kcp.Namespace, kcp.Name).Set(float64(end.Unix()))
}
