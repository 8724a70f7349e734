package conversion

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1beta1"
)

// EtcdClusterSpec returns the spec of an EtcdadmCluster as that of an EtcdCluster, and the fields that only EtcdadmCluster has. It sets
// the fields that EtcdadmCluster has an answer to, and leaves out all others. The version is empty where EtcdadmCluster names none.
func EtcdClusterSpec(old *v1beta1.EtcdadmClusterSpec) (v1alpha1.EtcdClusterSpec, Kept, error) {
	old = old.DeepCopy()
	gv, err := schema.ParseGroupVersion(old.InfrastructureTemplate.APIVersion)
	if err != nil {
		return v1alpha1.EtcdClusterSpec{}, Kept{}, fmt.Errorf("spec.infrastructureTemplate.apiVersion: %w", err)
	}
	config, kept, err := SpecFromOld(&old.EtcdadmConfigSpec)
	if err != nil {
		return v1alpha1.EtcdClusterSpec{}, Kept{}, fmt.Errorf("spec.etcdadmConfigSpec: %w", err)
	}
	spec := v1alpha1.EtcdClusterSpec{Replicas: old.Replicas}
	spec.InfrastructureTemplate = clusterv1.ContractVersionedObjectReference{
		APIGroup: gv.Group, Kind: old.InfrastructureTemplate.Kind, Name: old.InfrastructureTemplate.Name,
	}
	spec.Version, config.Version = config.Version, ""
	spec.EtcdadmConfigSpec = config
	return spec, kept, nil
}
