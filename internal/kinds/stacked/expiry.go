package stacked

import (
	"cmp"
	"context"
	"net"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

const (
	// expiryTime is how long one answer may take, and expiriesAtOnce how many are awaited at the same time.
	expiryTime     = 10 * time.Second
	expiriesAtOnce = 16
)

// apiServer is the component that shows the certificate that upstream records.
const apiServer = "kube-apiserver"

// observeExpiries adds when the certificates of the API servers expire, as far as they have
// answered, and lets those be asked whose time it is.
func (k *Kind) observeExpiries(ctx context.Context, t *observe.Observer) {
	if t.Once {
		return // the answers would come too late
	}
	m := memoryOf(t.Memory)
	m.expiries.Only(t.Objects())
	for _, target := range t.Machines {
		target.CertificateEnd = m.expiries.End(target.UID)
		if mayAsk(t, target) && m.expiries.Begin(target.UID, t.Facts.Now) && !k.askExpiry(ctx, t, &m.expiries, target) {
			m.expiries.PutOff(target.UID, t.Facts.Now)
		}
	}
}

// mayAsk reports whether the API server of a machine is there to be asked.
func mayAsk(t *observe.Observer, m *observe.Machine) bool {
	if !t.Facts.Group.Initialized || !t.Inspects() {
		return false
	}
	return !m.Facts.Deleting && m.Facts.Host != "" && slices.ContainsFunc(m.Facts.Components, func(c plan.Component) bool {
		return c.Name == apiServer && c.Health == plan.Healthy
	})
}

// askExpiry asks one API server in the background; false: too many are asked already.
func (k *Kind) askExpiry(ctx context.Context, t *observe.Observer, into *observe.Expiries, target *observe.Machine) bool {
	dial, node, uid := apiServerOf(t, target), target.Facts.Host, target.UID
	// The turn ends before the answer comes.
	ctx = context.WithoutCancel(ctx)
	return k.handshakes.TryGo(func() error {
		ctx, cancel := context.WithTimeout(ctx, expiryTime)
		defer cancel()
		end, err := certs.APIServerEnd(ctx, dial)
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Could not see when the certificate of an API server expires", "node", node, "error", err.Error())
		}
		into.Done(uid, end, err, time.Now())
		return nil
	})
}

// apiServerOf is the way to the API server of a machine.
func apiServerOf(t *observe.Observer, target *observe.Machine) func(context.Context) (net.Conn, error) {
	return t.Workload.Dial(t.ClusterKey(), target.Facts.Host, target.Address(), machine.APIServerPort(kubeadmConfig(target)))
}

// recordExpiries writes into the KubeadmConfigs when the certificates of the API servers expire, as upstream's controller
// does: once, in the annotation from which the Machine's status and spec.rollout.before take it. What is there
// stays. One that has changed since it was read is left to the next turn.
func recordExpiries(ctx context.Context, t *act.Writer) error {
	m := memoryOf(t.Memory)
	for _, on := range t.Machines {
		if kubeadmConfig(on) == nil || on.Facts.Deleting {
			continue
		}
		_, recorded := kubeadmConfig(on).Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]
		if !m.expiries.Note(on.UID, recorded) || on.CertificateEnd.IsZero() {
			continue
		}
		if err := t.RecordExpiry(ctx, on, on.CertificateEnd); err != nil {
			return err
		}
	}
	return nil
}

// describeExpiry writes into the status which certificate expires first. While the cluster or its etcd does not
// answer, what was last known stays.
func describeExpiry(t *observe.View, status *controlplanev1.KubeadmControlPlaneStatus) {
	o := t.Facts
	switch {
	case len(t.Machines) == 0:
		status.CertificateExpiry = controlplanev1.CertificateExpiryStatus{}
	case !o.Group.Deleting && o.Cluster.Reachable && (o.Etcd.Known || !o.Etcd.Ours()):
		status.CertificateExpiry = firstExpiry(t)
	}
}

// firstExpiry is the first certificate to expire of those that are known; none is known: empty.
func firstExpiry(t *observe.View) controlplanev1.CertificateExpiryStatus {
	var first controlplanev1.CertificateExpiryStatus
	look := func(end time.Time, machine, component string) {
		if !end.IsZero() && (first.Date.IsZero() || end.Before(first.Date.Time)) {
			first = controlplanev1.CertificateExpiryStatus{Date: metav1.NewTime(end), Machine: machine, Component: component}
		}
	}
	for _, m := range t.Machines {
		if m.Facts.Deleting {
			continue
		}
		end := m.CertificateEnd
		if end.IsZero() {
			end = partsOf(m).CertificatesEnd()
		}
		look(end, m.Name, apiServer)
	}
	for _, member := range t.Survey.Members {
		look(member.CertificateEnd, cmp.Or(t.MachineOf(member), member.Name), "etcd")
	}
	return first
}
