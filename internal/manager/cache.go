package manager

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	clientfeatures "k8s.io/client-go/features"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/manager/groups"
)

// cacheOptions say what the cache of a manager holds. Upstream's controllers look at managed fields to see whose a field is, and repair
// them if there are none. Quorate's own ask only who changed a group.
func cacheOptions(o Options) cache.Options {
	period := o.SyncPeriod
	if period == 0 {
		period = 10 * time.Minute
	}
	out := cache.Options{
		SyncPeriod: &period,
		ByObject:   map[client.Object]cache.ByObject{&corev1.Secret{}: clusterSecrets()},
	}
	if !o.ManagedFields {
		out.DefaultTransform = withoutManagedFields
	}
	if o.Namespace != "" {
		out.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return out
}

// withoutManagedFields drops what makes up half of a Machine, and more of what is kept without a type; not of groups, whose history tells
// who changed them.
func withoutManagedFields(in any) (any, error) {
	if groups.IsGroup(in) {
		return in, nil
	}
	return cache.TransformStripManagedFields()(in)
}

// listThenWatch turns off that caches fill from a watch instead of a list. The end of such a list is announced by a timer of
// one second, in which every cache that is started, here or for a workload cluster, does nothing.
func listThenWatch() error {
	gates, ok := clientfeatures.FeatureGates().(interface {
		Set(clientfeatures.Feature, bool) error
	})
	if !ok {
		return errors.New("choosing client-go's features: they are set by somebody else")
	}
	if err := gates.Set(clientfeatures.WatchListClient, false); err != nil {
		return fmt.Errorf("choosing client-go's features: %w", err)
	}
	return nil
}

// clusterSecrets is what the cache holds of secrets: those of clusters, and the contents of those that controllers
// read again and again (certificates and kubeconfigs).
func clusterSecrets() cache.ByObject {
	ofCluster, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		panic(fmt.Sprintf("selector for the label %s: %v", clusterv1.ClusterNameLabel, err))
	}
	return cache.ByObject{
		Label: labels.NewSelector().Add(*ofCluster),
		Transform: func(in any) (any, error) {
			if s, ok := in.(*corev1.Secret); ok {
				s.SetManagedFields(nil)
				if !secret.HasPurposeSuffix(s.Name) {
					s.Data = nil
				}
			}
			return in, nil
		},
	}
}
