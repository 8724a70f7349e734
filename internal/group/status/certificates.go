package status

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// longestNotSeen is how many characters tell what was not seen.
const longestNotSeen = 1024

// kubeconfigCertificate is the name of the client certificate in the cluster's kubeconfig.
const kubeconfigCertificate = "kubeconfig"

// soon is how long before its end a certificate counts as expiring soon.
const soon = 30 * 24 * time.Hour

// certificates summarises the certificates of a group.
type certificates struct {
	now                    time.Time
	first                  map[string]controlplanev1.CertificateStatus
	seen, expired, expires int32
	notSeen                []string
}

// describeCertificates writes a summary of the certificates in the secrets, and of those that API servers and etcd members show, as they
// were read last. While the cluster or its etcd does not answer, what was last known stays.
func (t Report) describeCertificates(to *controlplanev1.CertificatesStatus) {
	o := t.Facts
	switch {
	case len(t.Machines) == 0:
		*to = controlplanev1.CertificatesStatus{}
		return
	case o.Group.Deleting || !o.Cluster.Reachable || o.Etcd.Ours() && !o.Etcd.Known:
		return
	}
	c := &certificates{now: o.Now, first: map[string]controlplanev1.CertificateStatus{}}
	t.addSecrets(c)
	t.addServers(c)
	*to = controlplanev1.CertificatesStatus{
		Seen: ptr.To(c.seen), Expired: ptr.To(c.expired), ExpiringSoon: ptr.To(c.expires),
		NotSeen: observe.Entries(c.notSeen, "; ", longestNotSeen),
	}
	for _, name := range slices.Sorted(maps.Keys(c.first)) {
		to.First = append(to.First, c.first[name])
	}
}

// add counts a certificate, and keeps it if it expires before all others of its name.
func (c *certificates) add(one controlplanev1.CertificateStatus) {
	c.seen++
	switch end := one.Date.Time; {
	case c.now.After(end):
		c.expired++
	case end.Sub(c.now) < soon:
		c.expires++
	}
	if first, there := c.first[one.Name]; !there || one.Date.Time.Before(first.Date.Time) {
		c.first[one.Name] = one
	}
}

// addSecrets adds the certificates in the secrets of the cluster. The kubeconfig may have been written since the others were read.
func (t Report) addSecrets(c *certificates) {
	if end := t.Kubeconfig.Expires; !end.IsZero() {
		renewal := controlplanev1.CertificateRenewedByManager
		if t.Kubeconfig.Foreign {
			renewal = controlplanev1.CertificateRenewedByNobody
		}
		c.add(controlplanev1.CertificateStatus{Name: kubeconfigCertificate, Secret: t.Cluster.Name + "-kubeconfig", Date: metav1.NewTime(end),
			RenewedBy: renewal})
	}
	if t.Memory == nil || t.Memory.Secrets.Read.IsZero() {
		c.notSeen = append(c.notSeen, "the secrets of the cluster")
		return
	}
	for _, d := range t.Memory.Secrets.Certificates {
		c.add(controlplanev1.CertificateStatus{Name: d.Name, Secret: d.Secret, Date: metav1.NewTime(d.End), RenewedBy: d.RenewedBy})
	}
}

// addServers adds what API servers and etcd members show. What an API server showed once is on its machine's bootstrap object too.
func (t Report) addServers(c *certificates) {
	renewal := controlplanev1.CertificateRenewedByReplacement
	if t.Spec.Policy.InPlace.Ours() || t.Spec.ByExtension {
		renewal = controlplanev1.CertificateRenewedByUpdate
	}
	of := func(name, machine string, end time.Time) controlplanev1.CertificateStatus {
		return controlplanev1.CertificateStatus{Name: name, Machine: machine, Date: metav1.NewTime(end), RenewedBy: renewal}
	}
	var servers, members []string
	for _, m := range t.Machines {
		end := m.CertificateEnd
		if end.IsZero() {
			end = recordedEnd(m)
		}
		switch {
		case m.Facts.Deleting || m.Facts.Host == "":
		case end.IsZero():
			servers = append(servers, m.Name)
		default:
			c.add(of(observe.APIServerCertificate, m.Name, end))
		}
	}
	hosts := t.Match(t.Survey.Members).Hosts
	for _, member := range t.Survey.Members {
		switch on := hosts[member.ID]; {
		case on == "": // it is nobody's, or leaves
		case member.CertificateEnd.IsZero():
			members = append(members, on)
		default:
			c.add(of(observe.EtcdServerCertificate, on, member.CertificateEnd))
		}
	}
	if len(servers) > 0 {
		c.notSeen = append(c.notSeen, "the API servers of "+strings.Join(servers, ", "))
	}
	if len(members) > 0 {
		c.notSeen = append(c.notSeen, "the etcd members of "+strings.Join(members, ", "))
	}
}

// recordedEnd is when the certificate of a machine's API server expires, as its bootstrap object says; zero: it does not.
func recordedEnd(m *observe.Machine) time.Time {
	if m.Bootstrap == nil {
		return time.Time{}
	}
	end, err := time.Parse(time.RFC3339, m.Bootstrap.GetAnnotations()[clusterv1.MachineCertificatesExpiryDateAnnotation])
	if err != nil {
		return time.Time{}
	}
	return end
}
