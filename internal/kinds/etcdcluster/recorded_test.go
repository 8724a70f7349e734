package etcdcluster

import (
	"cmp"
	"os"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/test/releases"
)

// TestRecorded records EtcdClusters at rest, as turns have made them. Their control plane is none: it has no spec that would be at rest.
func TestRecorded(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.EtcdClusterSpec){
		"etcd-plain-1":   func(s *v1alpha1.EtcdClusterSpec) { s.Replicas = ptr.To(int32(1)) },
		"etcd-plain-3":   func(*v1alpha1.EtcdClusterSpec) {},
		"etcd-version-3": func(s *v1alpha1.EtcdClusterSpec) { s.Version = "3.5.35" },
		"etcd-metadata-3": func(s *v1alpha1.EtcdClusterSpec) {
			s.MachineTemplate.ObjectMeta = clusterv1.ObjectMeta{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b"}}
			s.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(int32(60))
			s.AutoRepair = &v1alpha1.AutoRepairSpec{}
			s.FailureDomains = []string{"a", "b"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := testEtcd(3)
			change(&e.Spec)
			if err := releases.DefaultTyped(e, v1alpha1.GroupVersion.WithKind("EtcdCluster")); err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, e)
			w.rest()
			if err := w.client.Delete(t.Context(), testControlPlane()); err != nil {
				t.Fatal(err)
			}
			cp := testControlPlane()
			w.get(cp.Name, cp)
			cp.Finalizers = nil
			w.update(cp)
			folder := cmp.Or(os.Getenv(releases.Environment), t.TempDir())
			if err := releases.Record(t.Context(), w.client, folder, name, "internal/kinds/etcdcluster "+t.Name()+", in memory",
				client.ObjectKey{Namespace: "default", Name: "demo"}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
