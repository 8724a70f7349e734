package group

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quorum"
)

var (
	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_steps_total",
		Help: "Steps carried out on groups of machines, by the kind of the group.",
	}, []string{"kind", "verb", "rule", "reason", "result"})

	stepDelay = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quorate_step_delay_seconds",
		Help:    "Time from the newest fact that a step may have waited for to the end of its write. Kubernetes records most facts in full seconds.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30},
	}, []string{"kind", "verb"})

	quorumSpare = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_quorum_spare",
		Help: "How many more healthy voters may fail before etcd loses its quorum; negative by as many as are missing; absent while etcd does not tell its members.",
	}, []string{"kind", "namespace", "name"})

	certificateExpiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_certificate_expiry_timestamp_seconds",
		Help: "When the first of the serving certificates of a group's API servers and etcd members expires, in seconds since 1970; absent while none is known.",
	}, []string{"kind", "namespace", "name"})
)

// RegisterMetrics adds the metrics of all kinds to a registry. A second time does nothing.
func RegisterMetrics(to prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{steps, stepDelay, quorumSpare, certificateExpiry} {
		err := to.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// Metrics are those of the groups of one kind, which is their label.
type Metrics string

// Step counts one step that was tried, and observes how long after its newest fact it was done; err is how it failed, if it did.
func (kind Metrics) Step(d plan.Decision, delay time.Duration, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	steps.WithLabelValues(string(kind), d.Step.Action(), d.Rule, d.Reason, result).Inc()
	if err == nil {
		stepDelay.WithLabelValues(string(kind), d.Step.Action()).Observe(max(delay, 0).Seconds())
	}
}

// Spare tells how well the quorum of a group stands. Where that is not known there
// is no figure: the last good one would hide that etcd is silent.
func (kind Metrics) Spare(of client.ObjectKey, o plan.Observed) {
	if !o.Etcd.Ours() || !o.Etcd.Known {
		quorumSpare.DeleteLabelValues(string(kind), of.Namespace, of.Name)
		return
	}
	quorumSpare.WithLabelValues(string(kind), of.Namespace, of.Name).Set(float64(quorum.Spare(plan.Assess(o).Voters)))
}

// Expiry tells when the first certificate of a group expires; zero: that is not known.
func (kind Metrics) Expiry(of client.ObjectKey, end time.Time) {
	if end.IsZero() {
		certificateExpiry.DeleteLabelValues(string(kind), of.Namespace, of.Name)
		return
	}
	certificateExpiry.WithLabelValues(string(kind), of.Namespace, of.Name).Set(float64(end.Unix()))
}

// Forget takes away what is told of a group that is gone.
func (kind Metrics) Forget(of client.ObjectKey) {
	quorumSpare.DeleteLabelValues(string(kind), of.Namespace, of.Name)
	certificateExpiry.DeleteLabelValues(string(kind), of.Namespace, of.Name)
}
