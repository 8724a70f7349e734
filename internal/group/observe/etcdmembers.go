package observe

import (
	"context"
	"crypto/tls"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// BackupCurrent is the condition of a group that takes backups.
const BackupCurrent = controlplanev1.BackupCurrentCondition

// EtcdMembers are the members of a group's etcd, and how they are asked.
type EtcdMembers struct {
	// Object and Cluster are the group's.
	Object  Object
	Cluster *clusterv1.Cluster
	// Facts are those of one look.
	Facts plan.Observed
	// Version is the oldest Kubernetes version of the machines; empty: they have none.
	Version string
	// Targets are the members that can be asked, with Credentials.
	Targets     []etcd.Target
	Credentials *tls.Config
}

// FindEtcd looks once at a group, and returns how the members of its etcd are asked. With forwardOnly machines are reached by port-forwards
// alone. A managed cluster that does not answer is an error.
func FindEtcd(ctx context.Context, from client.Reader, kind Kind, key client.ObjectKey, forwardOnly bool) (*EtcdMembers, error) {
	t, err := turnOnce(ctx, from, kind, key)
	if err != nil {
		return nil, err
	}
	if !t.Facts.Cluster.Reachable {
		return nil, fmt.Errorf("reaching cluster %s: %s", t.Cluster.Name, t.Facts.Cluster.Unreachable)
	}
	return findEtcd(ctx, t, from, kind, forwardOnly)
}

// FindSurvivors is FindEtcd where no quorum is left, so that the managed cluster answers nothing. Without targets nothing can be asked;
// that is no error.
func FindSurvivors(ctx context.Context, from client.Reader, kind Kind, key client.ObjectKey, forwardOnly bool) (*EtcdMembers, error) {
	t, err := turnOnce(ctx, from, kind, key)
	if err != nil {
		return nil, err
	}
	return findEtcd(ctx, t, from, kind, forwardOnly)
}

// findEtcd returns how the members of a group's etcd are asked.
func findEtcd(ctx context.Context, t *Observer, from client.Reader, kind Kind, forwardOnly bool) (*EtcdMembers, error) {
	if c, is := t.Workload.(connection); is {
		c.direct = !forwardOnly
		t.Workload = c
	}
	clients := certs.EtcdClients{Authority: t.Type.Authority}
	credentials, err := clients.Config(ctx, from, t.Cluster)
	if err != nil {
		return nil, err
	}
	found := &EtcdMembers{Object: t.Object, Cluster: t.Cluster, Facts: t.Facts, Version: t.Spec.Version, Credentials: credentials}
	if versions := *kind.Status(t.Object).Versions; len(versions) > 0 && !t.Nodeless {
		found.Version = versions[0].Version
	}
	to := t.Dial()
	if forwardOnly && !t.Nodeless {
		// Without an address there is nothing but the port-forward.
		to = func(node, _ string) etcd.Target { return t.Dial()(node, "") }
	}
	if found.Targets = t.Targets(to); len(found.Targets) == 0 && t.Facts.Cluster.Reachable {
		return nil, fmt.Errorf("finding the etcd members of %s: no machine is known on which one could be asked", t.Title())
	}
	return found, nil
}
