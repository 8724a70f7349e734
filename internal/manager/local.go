package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/kubeconfig"
	"github.com/quorate/quorate/internal/local"
)

// Embedded is what the management plane of a single host needs beyond Quorate's own controllers.
type Embedded struct {
	// Own is how Quorate's own controllers reach the API server, as a user of theirs; nil: as all others do.
	Own *rest.Config
	// RuntimeExtensions has Cluster API's controllers call Runtime Extensions, and update machines in place by them. Off, nobody can register one.
	RuntimeExtensions bool
}

func addLocal(ctx context.Context, p *parts) error {
	o := *p.opts.Local
	o.Workload = p.workload
	if p.clusters != nil {
		o.Workload = p.clusters.GetUncachedClient
	}
	return local.Setup(ctx, p.mgr, o, p.controller())
}

// workload returns a client of a cluster, made from its kubeconfig.
func (p *parts) workload(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
	found := &corev1.Secret{}
	name := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	if err := p.mgr.GetAPIReader().Get(ctx, name, found); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", cluster, err)
	}
	config, err := kubeconfig.RESTConfig(found.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", cluster, err)
	}
	return client.New(config, client.Options{Scheme: p.mgr.GetScheme()})
}
