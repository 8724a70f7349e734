package stacked

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
)

// certificates lets the API servers of the world show certificates that end then, by Node, and
// counts the connections to each.
func (w *world) certificates(ends map[string]time.Time) map[string]int {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	asked := map[string]int{}
	defer w.locked()()
	w.serve = func(node string, port int) (net.Conn, error) {
		asked[node]++
		end, there := ends[node]
		if !there || port != 6443 {
			return nil, fmt.Errorf("%s:%d: connection refused", node, port)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"},
			NotBefore: end.Add(-time.Hour), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return nil, err
		}
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			_ = tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}).Handshake()
		}()
		return ours, nil
	}
	return asked
}

// expiryOf reads the annotation on a machine's KubeadmConfig.
func (w *world) expiryOf(name string) string {
	w.t.Helper()
	config := &bootstrapv1.KubeadmConfig{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, config); err != nil {
		w.t.Fatal(err)
	}
	return config.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]
}

// record writes the annotation on a machine's KubeadmConfig; empty: takes it away.
func (w *world) record(name, date string) {
	w.t.Helper()
	config := &bootstrapv1.KubeadmConfig{}
	if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, config); err != nil {
		w.t.Fatal(err)
	}
	if config.Annotations == nil {
		config.Annotations = map[string]string{}
	}
	config.Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation] = date
	if date == "" {
		delete(config.Annotations, clusterv1.MachineCertificatesExpiryDateAnnotation)
	}
	if err := w.client.Update(context.Background(), config); err != nil {
		w.t.Fatal(err)
	}
}

// forgetEnds is what a restart of the manager does.
func (w *world) forgetEnds() {
	w.use(w.client)
	w.forgetEtcd()
}

func inDays(n int) time.Time { return time.Now().Truncate(time.Second).UTC().AddDate(0, 0, n) }

// TestCertificateExpiry: when the certificates of API servers and members expire is found out,
// recorded as upstream's controller records it, and told; nothing is written at rest.
func TestCertificateExpiry(t *testing.T) {
	w := grown(t, 3)
	ends := map[string]time.Time{"demo-cp-1": inDays(300), "demo-cp-2": inDays(200), "demo-cp-3": inDays(365)}
	asked := w.certificates(ends)
	w.members[2].CertificateEnd = inDays(250)
	w.forgetEnds()
	eventually(t, "all are recorded", func() bool {
		w.settle()
		return w.expiryOf("demo-cp-1") != "" && w.expiryOf("demo-cp-2") != "" && w.expiryOf("demo-cp-3") != ""
	})
	for name, end := range ends {
		if got := w.expiryOf(name); got != end.Format(time.RFC3339) {
			t.Errorf("%s: recorded %q, want %s", name, got, end.Format(time.RFC3339))
		}
	}
	w.tells("demo-cp-2", apiServer, ends["demo-cp-2"])
	w.summarises(8, "the etcd members of demo-cp-1, demo-cp-2", "apiserver demo-cp-2 Replacement", "ca demo-ca Nobody",
		"etcd-ca demo-etcd Nobody", "etcd-server demo-cp-3 Replacement", "front-proxy-ca demo-proxy Nobody", "kubeconfig demo-kubeconfig Manager")
	versions := w.versions()
	for range 3 {
		w.forgetEtcd()
		w.settle()
	}
	if after := w.versions(); fmt.Sprint(versions) != fmt.Sprint(after) {
		t.Errorf("written at rest: %v, then %v", versions, after)
	}
	if w.mu.Lock(); asked["demo-cp-1"] != 1 {
		t.Errorf("asked %v, want once each", asked)
	}
	w.mu.Unlock()

	soonest := inDays(100)
	w.members[2].CertificateEnd = soonest
	w.forgetEtcd()
	w.settle()
	w.tells("demo-cp-3", "etcd", soonest)

	// While nothing is seen, what was known stays.
	w.view.Reachable, w.view.Why = false, "no answer"
	w.forgetEnds()
	w.turn()
	w.tells("demo-cp-3", "etcd", soonest)
	if got := w.kcp().Status.Certificates; len(got.First) != 6 {
		t.Errorf("while nothing is seen, the summary is %+v", got)
	}

	w.members[2].CertificateEnd = time.Time{}
	w.view.Reachable, w.serve = true, nil
	w.forgetEnds()
	w.settle()
	w.tells("demo-cp-2", apiServer, ends["demo-cp-2"]) // by the annotation
	for name := range ends {
		w.record(name, "")
	}
	w.forgetEnds()
	w.settle()
	w.tells("", "", time.Time{})
	const three = "demo-cp-1, demo-cp-2, demo-cp-3"
	w.summarises(4, "the API servers of "+three+"; the etcd members of "+three, "ca demo-ca Nobody", "etcd-ca demo-etcd Nobody",
		"front-proxy-ca demo-proxy Nobody", "kubeconfig demo-kubeconfig Manager")
}

// TestNewKubeconfigInSummary: a kubeconfig that the manager has written is in the summary at once, before the secrets are read again.
func TestNewKubeconfigInSummary(t *testing.T) {
	w := grown(t, 1)
	w.settle()
	if got := w.kcp().Status.Certificates.First; !slices.ContainsFunc(got, func(c controlplanev1.CertificateStatus) bool {
		return c.Name == "kubeconfig" && c.RenewedBy == "Manager"
	}) {
		t.Errorf("the summary is %+v", got)
	}
}

// summarises checks status.certificates: how many are seen, what is not, and the first of each name.
func (w *world) summarises(seen int32, notSeen string, first ...string) {
	w.t.Helper()
	got := w.kcp().Status.Certificates
	var names []string
	for _, c := range got.First {
		names = append(names, fmt.Sprintf("%s %s%s %s", c.Name, c.Machine, c.Secret, c.RenewedBy))
	}
	if got.Seen == nil || *got.Seen != seen || got.NotSeen != notSeen || *got.Expired+*got.ExpiringSoon != 0 || !slices.Equal(names, first) {
		w.t.Errorf("the summary is %+v: %q", got, names)
	}
}

// tells checks what status and metric say.
func (w *world) tells(machine, component string, end time.Time) {
	w.t.Helper()
	got := w.kcp().Status.CertificateExpiry
	if got.Machine != machine || got.Component != component || !got.Date.Time.Equal(end) {
		w.t.Errorf("the status tells %+v, want %s of %s at %s", got, component, machine, end)
	}
	registry := prometheus.NewRegistry()
	if err := group.RegisterMetrics(registry); err != nil {
		w.t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	told := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "quorate_certificate_expiry_timestamp_seconds" {
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if label.GetName() == "certificate" {
						told[label.GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
		}
	}
	server, member := told["apiserver"], told["etcd-server"]
	first := server
	if component == "etcd" {
		first = member
	}
	if end.IsZero() && server+member != 0 || !end.IsZero() && first != float64(end.Unix()) {
		w.t.Errorf("the metric tells %v, want %s of %s", told, end, component)
	}
}

// TestRolloutBeforeCertificatesExpire: spec.rollout.before has its effect.
func TestRolloutBeforeCertificatesExpire(t *testing.T) {
	w := grown(t, 3)
	w.certificates(map[string]time.Time{"demo-cp-1": inDays(300), "demo-cp-2": inDays(40), "demo-cp-3": inDays(365)})
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Rollout.Before.CertificatesExpiryDays = 90 })
	w.forgetEnds()
	eventually(t, "a fourth machine", func() bool { w.settle(); return len(w.machineNames()) == 4 })
	s := w.scene()
	for i, m := range s.Facts.Machines {
		if outdated := strings.Contains(m.Outdated, "certificatesExpiryDays"); outdated != (m.Name == "demo-cp-2") {
			t.Errorf("%s (%d): outdated: %q", m.Name, i, m.Outdated)
		}
	}
}

// TestRecordedExpiryStays: upstream writes the date once; whoever takes it away after a renewal by
// hand has the new one recorded.
func TestRecordedExpiryStays(t *testing.T) {
	w := grown(t, 1)
	ends := map[string]time.Time{"demo-cp-1": inDays(300)}
	w.certificates(ends)
	users := inDays(5).Format(time.RFC3339)
	w.record("demo-cp-1", users)
	w.forgetEnds()
	eventually(t, "the API server has answered", func() bool {
		w.settle()
		return w.kcp().Status.CertificateExpiry.Date.Time.Equal(ends["demo-cp-1"])
	})
	if got := w.expiryOf("demo-cp-1"); got != users {
		t.Errorf("%s was overwritten with %s", users, got)
	}
	renewed := inDays(364)
	unlock := w.locked()
	ends["demo-cp-1"] = renewed
	unlock()
	w.record("demo-cp-1", "")
	eventually(t, "the date is recorded again", func() bool { w.settle(); return w.expiryOf("demo-cp-1") != "" })
	if got := w.expiryOf("demo-cp-1"); got != renewed.Format(time.RFC3339) {
		t.Errorf("recorded %s, want %s", got, renewed.Format(time.RFC3339))
	}
}

// TestSilentAPIServer: no turn waits for one that does not answer.
func TestSilentAPIServer(t *testing.T) {
	w := grown(t, 3)
	var far []net.Conn
	w.serve = func(string, int) (net.Conn, error) {
		ours, theirs := net.Pipe()
		far = append(far, theirs)
		return ours, nil
	}
	t.Cleanup(func() {
		for _, c := range far {
			c.Close()
		}
	})
	w.forgetEnds()
	began := time.Now()
	w.settle()
	w.settle()
	if took := time.Since(began); took > expiryTime/2 {
		t.Errorf("turns took %s", took)
	}
	if got := w.kcp().Status.CertificateExpiry; !got.Date.IsZero() {
		t.Errorf("the status tells %+v", got)
	}
}

// TestWhichAPIServersAreAsked: only API servers that are there, and not more often than is good.
func TestWhichAPIServersAreAsked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*plan.Observed)
		want   bool
	}{
		"healthy":         {func(*plan.Observed) {}, true},
		"not initialised": {func(o *plan.Observed) { o.Group.Initialized = false }, false},
		"out of reach":    {func(o *plan.Observed) { o.Cluster.Reachable = false }, false},
		"paused":          {func(o *plan.Observed) { o.Group.Paused = true }, false},
		"going":           {func(o *plan.Observed) { o.Group.Deleting = true }, false},
		"machine going":   {func(o *plan.Observed) { o.Machines[0].Deleting = true }, false},
		"no Node":         {func(o *plan.Observed) { o.Machines[0].Host = "" }, false},
		"not running":     {func(o *plan.Observed) { o.Machines[0].Components[1].Health = plan.Unhealthy }, false},
	} {
		s := fine()
		test.change(&s.Facts)
		if got := mayAsk(s.Observer, s.Machines[0]); got != test.want {
			t.Errorf("%s: asked %t", name, got)
		}
	}
}
