package facts

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/manager"
)

// The history is that of what is asked about, wherever it is kept; where there is none it is empty.
func TestHistory(t *testing.T) {
	e := &etcdclusterv1alpha1.EtcdCluster{ObjectMeta: named("demo-etcd")}
	kept := &corev1.ConfigMap{ObjectMeta: named("demo-etcd-etcd-quorate-history"), Data: map[string]string{
		history.Key: `{"entries":[{"time":"2026-03-01T12:00:00Z","step":"Create demo-etcd-1","outcome":"done","took":"7s"}]}`,
	}}
	cluster := clusterOf(clusterv1.ContractVersionedObjectReference{})
	key := client.ObjectKeyFromObject(cluster)
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(e, kept, cluster).Build()
	got, err := History(t.Context(), c, key, true)
	if err != nil || got.Group != "EtcdCluster demo-etcd" || len(got.Entries) != 1 || got.Entries[0].Took.Seconds() != 7 {
		t.Errorf("the history is %+v, %v", got, err)
	}
	if _, err := History(t.Context(), c, key, false); err == nil ||
		!strings.Contains(err.Error(), "has no KubeadmControlPlane or ControlPlane yet") {
		t.Errorf("of no control plane: %v", err)
	}
	c = fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(e, cluster).Build()
	if got, err := History(t.Context(), c, key, true); err != nil || got.Entries == nil || len(got.Entries) != 0 {
		t.Errorf("without a record: %+v, %v", got, err)
	}
	if _, err := History(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "other"}, false); !errors.Is(err, ErrNoCluster) {
		t.Errorf("without a cluster: %v", err)
	}
}
