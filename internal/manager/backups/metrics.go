package backups

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

var (
	lastVerified = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_backup_last_verified_timestamp_seconds",
		Help: "When the newest verified backup of a group's etcd was taken; 0: there is none.",
	}, []string{"kind", "namespace", "name"})

	size = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_backup_size_bytes",
		Help: "How many bytes the store holds of the newest verified backup.",
	}, []string{"kind", "namespace", "name"})

	duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quorate_backup_duration_seconds",
		Help:    "Time from the first question to etcd until a backup was stored and, where it is, verified.",
		Buckets: []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800},
	}, []string{"kind"})

	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_backup_failures_total",
		Help: "Attempts at a backup that failed, or looks at a store that could not be used.",
	}, []string{"kind", "reason"})
)

// registerMetrics adds the metrics to the manager's registry. A second time does nothing.
func registerMetrics() error {
	for _, c := range []prometheus.Collector{lastVerified, size, duration, failures} {
		err := metrics.Registry.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// gauge tells of the newest verified backup of a group.
func gauge(kind string, of types.NamespacedName, b controlplanev1.VerifiedBackup) {
	at := 0.0
	if b.Name != "" {
		at = float64(b.Time.Unix())
	}
	lastVerified.WithLabelValues(kind, of.Namespace, of.Name).Set(at)
	size.WithLabelValues(kind, of.Namespace, of.Name).Set(float64(b.SizeBytes))
}

// forgetMetrics takes away what is told of a group.
func forgetMetrics(kind string, of types.NamespacedName) {
	lastVerified.DeleteLabelValues(kind, of.Namespace, of.Name)
	size.DeleteLabelValues(kind, of.Namespace, of.Name)
}

func observe(kind string, took time.Duration) { duration.WithLabelValues(kind).Observe(took.Seconds()) }

func countFailure(kind, reason string) { failures.WithLabelValues(kind, reason).Inc() }
