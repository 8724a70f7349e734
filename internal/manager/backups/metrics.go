package backups

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

var (
	lastVerified = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_backup_last_verified_timestamp_seconds",
		Help: "When the newest verified backup of a group's etcd was taken; 0: there is none; absent without spec.backup.",
	}, []string{"kind", "namespace", "name"})

	size = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_backup_size_bytes",
		Help: "How many bytes the store holds of the newest verified backup; absent without spec.backup.",
	}, []string{"kind", "namespace", "name"})

	current = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quorate_backup_current",
		Help: "1 while the condition BackupCurrent of a group is True, 0 while it is not, with its reason; absent without spec.backup.",
	}, []string{"kind", "namespace", "name", "reason"})

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

// RegisterMetrics adds the metrics to a registry. A second time does nothing.
func RegisterMetrics(to prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{lastVerified, size, current, duration, failures} {
		err := to.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// Stands tells of the newest verified backup of a group, and of its condition.
func Stands(kind string, of types.NamespacedName, b controlplanev1.VerifiedBackup, c metav1.Condition) {
	current.DeletePartialMatch(labels(kind, of))
	value := 0.0
	if c.Status == metav1.ConditionTrue {
		value = 1
	}
	current.WithLabelValues(kind, of.Namespace, of.Name, c.Reason).Set(value)
	at := 0.0
	if b.Name != "" {
		at = float64(b.Time.Unix())
	}
	lastVerified.WithLabelValues(kind, of.Namespace, of.Name).Set(at)
	size.WithLabelValues(kind, of.Namespace, of.Name).Set(float64(b.SizeBytes))
}

func labels(kind string, of types.NamespacedName) prometheus.Labels {
	return prometheus.Labels{"kind": kind, "namespace": of.Namespace, "name": of.Name}
}

// forgetMetrics takes away what is told of a group.
func forgetMetrics(kind string, of types.NamespacedName) {
	current.DeletePartialMatch(labels(kind, of))
	lastVerified.DeleteLabelValues(kind, of.Namespace, of.Name)
	size.DeleteLabelValues(kind, of.Namespace, of.Name)
}

// Observe observes how long a backup took.
func Observe(kind string, took time.Duration) { duration.WithLabelValues(kind).Observe(took.Seconds()) }

// CountFailure counts an attempt that failed.
func CountFailure(kind, reason string) { failures.WithLabelValues(kind, reason).Inc() }
