package group

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/status"
)

var (
	steps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_steps_total",
		Help: "Steps carried out on groups of machines, by the kind of the group.",
	}, []string{"kind", "verb", "rule", "reason", "result"})

	stepDelay = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "quorate_step_delay_seconds",
		Help: "Time from the newest fact that a step may have waited for to the end of its write. Kubernetes records most facts in full " +
			"seconds.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30},
	}, []string{"kind", "verb"})

	stepDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quorate_step_duration_seconds",
		Help:    "Time that the write of a step took, also of one that failed.",
		Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10},
	}, []string{"kind", "verb"})

	rolloutDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quorate_rollout_duration_seconds",
		Help:    "Time from the first machine that is not up to date until all is as wanted, pauses included.",
		Buckets: episodeBuckets,
	}, []string{"kind"})

	repairDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quorate_repair_duration_seconds",
		Help:    "Time from the first machine that is marked to be replaced until all is as wanted, pauses included.",
		Buckets: episodeBuckets,
	}, []string{"kind"})

	turnWait = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quorate_turn_wait_seconds",
		Help:    "Time that a group waited, after that in the queue, while as many others were worked on as may at once.",
		Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30},
	}, []string{"kind"})

	// seen are the gauges of all groups of all kinds.
	seen = &standings{of: map[groupKey]status.Standing{}}
)

// episodeBuckets are seconds, up to four hours.
var episodeBuckets = []float64{15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}

// RegisterMetrics adds the metrics of all kinds to a registry. A second time does nothing.
func RegisterMetrics(to prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{steps, stepDelay, stepDuration, turnWait, rolloutDuration, repairDuration, seen} {
		err := to.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// Metrics are those of the groups of one kind, which is their label.
type Metrics string

// Timing is how long a step took: from its newest fact to the end of its write, and the write alone.
type Timing struct {
	Delay, Write time.Duration
}

// Step counts one step that was tried, and observes how long it took; err is how it failed, if it did.
func (kind Metrics) Step(d plan.Decision, took Timing, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	steps.WithLabelValues(string(kind), d.Step.Action(), d.Rule, d.Reason, result).Inc()
	stepDuration.WithLabelValues(string(kind), d.Step.Action()).Observe(max(took.Write, 0).Seconds())
	if err == nil {
		stepDelay.WithLabelValues(string(kind), d.Step.Action()).Observe(max(took.Delay, 0).Seconds())
	}
}

// Turn observes how long a group waited for others before its turn.
func (kind Metrics) Turn(waited time.Duration) {
	turnWait.WithLabelValues(string(kind)).Observe(waited.Seconds())
}

// Rollout observes how long a rollout took.
func (kind Metrics) Rollout(took time.Duration) {
	rolloutDuration.WithLabelValues(string(kind)).Observe(took.Seconds())
}

// Repair observes how long a repair took.
func (kind Metrics) Repair(took time.Duration) {
	repairDuration.WithLabelValues(string(kind)).Observe(took.Seconds())
}

// Stands tells how a group stands, in place of all that was told of it before.
func (kind Metrics) Stands(of client.ObjectKey, now status.Standing) {
	seen.put(groupKey{string(kind), of}, now)
}

// Forget takes away what is told of a group that is gone.
func (kind Metrics) Forget(of client.ObjectKey) { seen.forget(groupKey{string(kind), of}) }
