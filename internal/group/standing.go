package group

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group/status"
)

// alarms are those that etcd knows. Others would be labels without a bound.
var alarms = []string{"CORRUPT", "NOSPACE"}

// groupKey names one group of all kinds.
type groupKey struct {
	kind string
	client.ObjectKey
}

// standings are how the groups stood at their last turn: the collector of their gauges. Each figure is made
// of them again, so that none outlives what it measures.
type standings struct {
	mu sync.Mutex
	of map[groupKey]status.Standing
}

func (s *standings) put(of groupKey, now status.Standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[of] = now
}

func (s *standings) forget(of groupKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, of)
}

// Describe implements prometheus.Collector.
func (s *standings) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{quorumSpare, etcdMembers, etcdAlarms, etcdDiffering, etcdSize, etcdQuota, reachable, addonHealthy,
		certificateExpiry, waitingSince} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *standings) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	now := maps.Clone(s.of)
	s.mu.Unlock()
	for of, standing := range now {
		collect(standing, gauges{of, to})
	}
}

// ofGroup describes a gauge of a group.
func ofGroup(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"kind", "namespace", "name"}, labels...), nil)
}

var (
	quorumSpare = ofGroup("quorate_quorum_spare",
		"How many more healthy voters may fail before etcd loses its quorum; negative by as many as are missing; absent while etcd does not "+
			"report its members.")
	etcdMembers = ofGroup("quorate_etcd_members",
		"Members of etcd, voters and learners; absent while etcd does not report its members.", "role")
	etcdAlarms = ofGroup("quorate_etcd_alarms",
		"Members of etcd that raise an alarm, by the alarm; absent while etcd does not report its members.", "alarm")
	etcdDiffering = ofGroup("quorate_etcd_differing_members",
		"Members of etcd whose data differ from those of most members, as last compared; absent before the first comparison and for a single "+
			"member.")
	etcdSize = ofGroup("quorate_etcd_db_size_bytes",
		"Bytes that the data of an etcd member takes on its disk; absent while the member does not answer.", "machine")
	etcdQuota = ofGroup("quorate_etcd_db_quota_bytes",
		"Bytes that the data of an etcd member may take before etcd refuses writes; absent while the member does not answer, and of etcd 3.5.",
		"machine")
	reachable = ofGroup("quorate_cluster_reachable",
		"1 while the API server of the managed cluster answers, 0 while it does not; absent before there is one, while it is deleted, and of "+
			"an EtcdCluster.")
	addonHealthy = ofGroup("quorate_addon_healthy",
		"1 while an add-on of kubeadm's works by the status of its DaemonSet or Deployment, 0 while it does not. Absent while that is not "+
			"known, and for an add-on that others keep.", "addon")
	certificateExpiry = ofGroup("quorate_certificate_expiry_timestamp_seconds",
		"When the first certificate of a group expires, by what it is for as kubeadm names it, in seconds since 1970; absent while none is "+
			"known.", "certificate")
	waitingSince = ofGroup("quorate_waiting_since_timestamp_seconds",
		"Since when a group waits for the same reason by the same rule, as seen by this process, in seconds since 1970; absent while it does "+
			"not wait.", "rule", "reason")
)

// gauges are those of one group, on their way to the collector.
type gauges struct {
	of groupKey
	to chan<- prometheus.Metric
}

func (g gauges) set(desc *prometheus.Desc, value float64, labels ...string) {
	labels = append([]string{g.of.kind, g.of.Namespace, g.of.Name}, labels...)
	g.to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// zeroOrOne is the figure of what is true or not.
func zeroOrOne(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// collect tells the gauges of one group.
func collect(s status.Standing, g gauges) {
	if s.Reachable != nil {
		g.set(reachable, zeroOrOne(*s.Reachable))
	}
	for addon, works := range s.Addons {
		g.set(addonHealthy, zeroOrOne(works), addon)
	}
	if s.Etcd != nil {
		collectEtcd(s.Etcd, g)
	}
	for certificate, end := range s.CertificateEnds {
		g.set(certificateExpiry, float64(end.Unix()), certificate)
	}
	if s.Waits != (status.Waiting{}) {
		g.set(waitingSince, float64(s.Waits.Since.Unix()), s.Waits.Rule, s.Waits.Reason)
	}
}

// collectEtcd tells the gauges of the etcd of one group.
func collectEtcd(e *status.EtcdStanding, g gauges) {
	g.set(quorumSpare, float64(e.Spare))
	g.set(etcdMembers, float64(e.Voters), "voter")
	g.set(etcdMembers, float64(e.Learners), "learner")
	for _, alarm := range alarms {
		g.set(etcdAlarms, float64(e.Alarms[alarm]), alarm)
	}
	if e.Differing != nil {
		g.set(etcdDiffering, float64(*e.Differing))
	}
	for machine, size := range e.Sizes {
		g.set(etcdSize, float64(size), machine)
	}
	for machine, quota := range e.Quotas {
		g.set(etcdQuota, float64(quota), machine)
	}
}

// stands is how the group stands, by what this turn saw and decided. ends are when the first certificate of each name expires.
func (t *Turn) stands(says status.Report, ends map[string]time.Time) status.Standing {
	s := says.Stands(ends)
	if last := t.past.waits; s.Waits != (status.Waiting{}) && last.Rule == s.Waits.Rule && last.Reason == s.Waits.Reason {
		s.Waits.Since = last.Since
	}
	t.past.waits = s.Waits
	return s
}
