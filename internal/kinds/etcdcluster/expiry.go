package etcdcluster

import (
	"cmp"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// expiryDays is how long before its member's certificate expires a machine is replaced, where the user says nothing: etcdadm makes
// certificates for a year and never renews them.
const expiryDays = 30

// rollout is when machines are replaced although nothing is wrong with them.
func rollout(e *v1alpha1.EtcdCluster) upstream.KubeadmControlPlaneRolloutSpec {
	said := e.Spec.Rollout
	said.Before.CertificatesExpiryDays = cmp.Or(said.Before.CertificatesExpiryDays, expiryDays)
	return said
}

// recordExpiries writes onto the EtcdadmConfigs when the certificates end that the members showed: from there the rules have it, also
// while a member does not answer, and Cluster API the Machine's status. One that has changed since it was read is left to the next turn.
func recordExpiries(ctx context.Context, t *act.Writer) error {
	ends := map[string]time.Time{}
	for _, member := range t.Survey.Members {
		ends[t.MachineOf(member)] = member.CertificateEnd
	}
	for _, m := range t.Machines {
		config, _ := m.Bootstrap.(*bootstrapv1alpha1.EtcdadmConfig)
		if config == nil || m.Facts.Deleting || ends[m.Name].IsZero() {
			continue
		}
		if err := t.RecordExpiry(ctx, m, ends[m.Name]); err != nil {
			return err
		}
	}
	return nil
}

// describeExpiry writes into the status which member's certificate expires first. While etcd does not answer, what was last known stays.
func describeExpiry(t *observe.View, status *v1alpha1.EtcdClusterStatus) {
	switch {
	case len(t.Machines) == 0:
		status.CertificateExpiry = v1beta2.CertificateExpiryStatus{}
	case t.Facts.Etcd.Known && !t.Facts.Group.Deleting:
		status.CertificateExpiry = firstExpiry(t)
	}
}

// firstExpiry is the first certificate to expire of those that are known; none is known: empty.
func firstExpiry(t *observe.View) v1beta2.CertificateExpiryStatus {
	var first v1beta2.CertificateExpiryStatus
	for _, m := range t.Machines {
		end := partsOf(m).CertificatesEnd()
		if !m.Facts.Deleting && !end.IsZero() && (first.Date.IsZero() || end.Before(first.Date.Time)) {
			first = v1beta2.CertificateExpiryStatus{Date: metav1.NewTime(end), Machine: m.Name, Component: "etcd"}
		}
	}
	return first
}
