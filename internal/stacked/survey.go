package stacked

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/group"
)

// asker asks the members of a control plane's etcd. It reads the scene, which must not be changed while it asks.
func (r *Reconciler) asker(s *scene) group.Asker {
	return group.Asker{
		Ask: func(ctx context.Context, last etcd.Survey) etcd.Survey {
			quorum, err := r.Quorums.Of(ctx, s.Cluster)
			if err != nil {
				return etcd.Survey{Why: err.Error()}
			}
			return s.Ask(ctx, quorum, r.dial(s.Cluster), last)
		},
		Ended:     func(ctx context.Context) { r.wake(ctx, client.ObjectKeyFromObject(s.kcp)) },
		Forgotten: func() { r.Quorums.Forget(client.ObjectKeyFromObject(s.Cluster)) },
	}
}

// wake asks for a turn of a control plane, for as long as ctx lasts.
func (r *Reconciler) wake(ctx context.Context, key client.ObjectKey) {
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Namespace, kcp.Name = key.Namespace, key.Name
	select {
	case r.wakes <- event.GenericEvent{Object: kcp}:
	case <-ctx.Done():
	}
}
