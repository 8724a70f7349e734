package etcdadm

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// TestKeeper: the order does not depend on that of the list.
func TestKeeper(t *testing.T) {
	of := func(name, cluster string, age int64, change func(*etcdclusterv1alpha1.EtcdCluster)) etcdclusterv1alpha1.EtcdCluster {
		e := etcdclusterv1alpha1.EtcdCluster{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(1000-age, 0), Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		}}
		if change != nil {
			change(&e)
		}
		return e
	}
	begun := func(e *etcdclusterv1alpha1.EtcdCluster) { e.Status.Initialized = ptr.To(true) }
	noted := func(e *etcdclusterv1alpha1.EtcdCluster) {
		e.Annotations = map[string]string{controlplanev1.InitializedAnnotation: "true"}
	}
	owned := func(e *etcdclusterv1alpha1.EtcdCluster) {
		e.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Cluster", Name: "demo"}}
	}
	serves := func(e *etcdclusterv1alpha1.EtcdCluster) { e.Status.Endpoints = "https://a:2379" }
	for about, row := range map[string]struct {
		a, b etcdclusterv1alpha1.EtcdCluster
		want string
	}{
		"the older":                  {of("young", "demo", 1, nil), of("old", "demo", 2, nil), "old"},
		"the first by name":          {of("b", "demo", 1, nil), of("a", "demo", 1, nil), "a"},
		"the initialized":            {of("old", "demo", 2, nil), of("young", "demo", 1, begun), "young"},
		"the initialized, by a note": {of("old", "demo", 2, nil), of("young", "demo", 1, noted), "young"},
		"the one with endpoints":     {of("old", "demo", 2, nil), of("young", "demo", 1, serves), "young"},
		"the older of initialized":   {of("old", "demo", 2, begun), of("young", "demo", 1, noted), "old"},
		"the one of this Cluster":    {of("old", "other", 2, begun), of("young", "demo", 1, nil), "young"},
		"the one of this owner":      {of("old", "demo", 1, nil), of("older", "other", 2, owned), "older"},
		"none":                       {of("a", "other", 2, nil), of("b", "", 1, nil), ""},
	} {
		for _, list := range [][]etcdclusterv1alpha1.EtcdCluster{{row.a, row.b}, {row.b, row.a}} {
			got := ""
			if keeper := Keeper(list, "demo"); keeper != nil {
				got = keeper.Name
			}
			if got != row.want {
				t.Errorf("%s: %q, want %q", about, got, row.want)
			}
		}
	}
}
