package facts

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
)

// History is what was done to a cluster's control plane, or its etcd cluster on machines of its own, as far as it is recorded.
func History(ctx context.Context, c client.Reader, key client.ObjectKey, etcd bool) (report.History, error) {
	of, err := asked(ctx, c, key, etcd)
	if err != nil {
		return report.History{}, err
	}
	return historyOf(ctx, c, key, of)
}

// historyOf is what is recorded of one group of a cluster.
func historyOf(ctx context.Context, c client.Reader, key client.ObjectKey, of *Group) (report.History, error) {
	found, name := &corev1.ConfigMap{}, report.HistoryName(of.Kind.Type().Kind, of.Key.Name)
	err := c.Get(ctx, client.ObjectKey{Namespace: of.Key.Namespace, Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		return report.History{}, fmt.Errorf("reading the history of %s, ConfigMap %s: %w", Title(of), name, err)
	}
	return report.NewHistory(key.Name, Title(of), found.Data), nil
}

// Histories are those of all groups of a cluster that was read: its control plane, and its etcd clusters on machines of their own.
func Histories(ctx context.Context, c client.Reader, key client.ObjectKey, o *Objects) ([]report.History, error) {
	groups := o.EtcdClusters
	if o.ControlPlane != nil {
		groups = append([]*Group{o.ControlPlane}, groups...)
	}
	all := make([]report.History, 0, len(groups))
	for _, of := range groups {
		h, err := historyOf(ctx, c, key, of)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}
