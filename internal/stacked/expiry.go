package stacked

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/certs"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
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
func (r *Reconciler) observeExpiries(ctx context.Context, s *scene, m *memory) {
	m.expiries.Only(s.Objects())
	for _, target := range s.Machines {
		target.CertificateEnd = m.expiries.End(target.UID)
		if s.mayAsk(target) && m.expiries.Begin(target.UID, s.Facts.Now) && !r.askExpiry(ctx, s, &m.expiries, target) {
			m.expiries.PutOff(target.UID, s.Facts.Now)
		}
	}
}

// mayAsk reports whether the API server of a machine is there to be asked.
func (s *scene) mayAsk(m *group.Machine) bool {
	o := s.Facts
	if !o.Group.Initialized || o.Group.Deleting || o.Group.Paused || !o.Cluster.Reachable {
		return false
	}
	return !m.Facts.Deleting && m.Facts.Node != "" && slices.ContainsFunc(m.Facts.Components, func(c plan.Component) bool {
		return c.Name == apiServer && c.Health == plan.Healthy
	})
}

// askExpiry asks one API server in the background; false: too many are asked already.
func (r *Reconciler) askExpiry(ctx context.Context, s *scene, into *group.Expiries, target *group.Machine) bool {
	node, ip := target.Facts.Node, machine.InternalIP(target.Machine)
	if target.Node != nil {
		ip = cmp.Or(machine.NodeIP(target.Node), ip)
	}
	port := machine.APIServerPort(kubeadmConfig(target))
	dial := r.Workload.Dial(client.ObjectKeyFromObject(s.Cluster), node, ip, port)
	uid := target.UID
	// The turn ends before the answer comes.
	ctx = context.WithoutCancel(ctx)
	return r.handshakes.TryGo(func() error {
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

// recordExpiries writes into the KubeadmConfigs when the certificates of the API servers expire, as upstream's controller
// does: once, in the annotation from which the Machine's status and spec.rollout.before take it. What is there
// stays. One that has changed since it was read is left to the next turn.
func (r *Reconciler) recordExpiries(ctx context.Context, s *scene, m *memory) error {
	for _, on := range s.Machines {
		if kubeadmConfig(on) == nil || on.Facts.Deleting {
			continue
		}
		_, recorded := kubeadmConfig(on).Annotations[clusterv1.MachineCertificatesExpiryDateAnnotation]
		if !m.expiries.Note(on.UID, recorded) || on.CertificateEnd.IsZero() {
			continue
		}
		after := kubeadmConfig(on).DeepCopy()
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, clusterv1.MachineCertificatesExpiryDateAnnotation, on.CertificateEnd.UTC().Format(time.RFC3339))
		err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(kubeadmConfig(on), client.MergeFromWithOptimisticLock{}))
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("recording when the certificates of Machine %s expire: %w", on.Name, err)
		}
	}
	return nil
}

// describeExpiry writes into the status which certificate expires first. While the cluster or its etcd does not
// answer, what was last known stays.
func (s *scene) describeExpiry(status *controlplanev1.KubeadmControlPlaneStatus) {
	o := s.Facts
	switch {
	case len(s.Machines) == 0:
		status.CertificateExpiry = controlplanev1.CertificateExpiryStatus{}
	case !o.Group.Deleting && o.Cluster.Reachable && (o.Etcd.Known || !o.Etcd.Managed):
		status.CertificateExpiry = s.firstExpiry()
	}
}

// firstExpiry is the first certificate to expire of those that are known; none is known: empty.
func (s *scene) firstExpiry() controlplanev1.CertificateExpiryStatus {
	var first controlplanev1.CertificateExpiryStatus
	look := func(end time.Time, machine, component string) {
		if !end.IsZero() && (first.Date.IsZero() || end.Before(first.Date.Time)) {
			first = controlplanev1.CertificateExpiryStatus{Date: metav1.NewTime(end), Machine: machine, Component: component}
		}
	}
	for _, m := range s.Machines {
		if m.Facts.Deleting {
			continue
		}
		end := m.CertificateEnd
		if end.IsZero() {
			end = partsOf(m).CertificatesEnd()
		}
		look(end, m.Name, apiServer)
	}
	for _, member := range s.Survey.Members {
		look(member.CertificateEnd, cmp.Or(s.MachineOf(member), member.Name), "etcd")
	}
	return first
}
