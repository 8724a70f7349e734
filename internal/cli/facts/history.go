package facts

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/history"
)

// History is what was done to a cluster's control plane, or its etcd cluster on machines of its own, as far as it is recorded.
func History(ctx context.Context, c client.Reader, key client.ObjectKey, etcd bool) (report.History, error) {
	of, err := asked(ctx, c, key, etcd)
	if err != nil {
		return report.History{}, err
	}
	kind := of.Kind.Type().Kind
	told := report.History{Cluster: key.Name, Group: kind + " " + of.Key.Name, Entries: []history.Entry{}}
	found, name := &corev1.ConfigMap{}, history.Name(kind, of.Key.Name)
	err = c.Get(ctx, client.ObjectKey{Namespace: of.Key.Namespace, Name: name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return told, nil
	case err != nil:
		return report.History{}, fmt.Errorf("reading the history of %s, ConfigMap %s: %w", told.Group, name, err)
	}
	told.Entries = history.Decode(found.Data[history.Key], time.Now()).Entries
	return told, nil
}
