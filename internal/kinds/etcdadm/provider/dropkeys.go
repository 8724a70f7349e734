package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/kinds/etcdadm"
)

// isMember reports whether a machine's etcd is a healthy member: its bootstrap data are executed, and not needed again.
func isMember(m *clusterv1.Machine) bool {
	return conditions.IsTrue(m, upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition)
}

// dropKeys takes the private keys, the authority's and the client's, out of the bootstrap data of a machine that is a
// member. A later reader of the data could connect to the etcd cluster with either, and become a member with the first.
// Another writer is a conflict, and the next turn tries again.
func (r *Controller) dropKeys(ctx context.Context, s *scope) error {
	if _, done := r.dropped.Load(s.config.UID); done || !isMember(s.machine) {
		return nil
	}
	found := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.config.Namespace, Name: s.config.Status.DataSecretName}, found)
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(found, s.config):
		return nil
	case err != nil:
		return fmt.Errorf("reading the bootstrap data of %s: %w", s.machine.Name, err)
	}
	data, had, err := etcdadm.WithoutKeys(found.Data["value"])
	if err != nil {
		return fmt.Errorf("dropping the private keys from secret %s: %w", found.Name, err)
	}
	if had {
		found.Data["value"] = data
		if err := r.Client.Update(ctx, found); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("dropping the private keys from secret %s: %w", found.Name, err)
		}
	}
	r.dropped.Store(s.config.UID, true)
	return nil
}
