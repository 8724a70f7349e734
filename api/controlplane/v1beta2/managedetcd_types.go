package v1beta2

import (
	"cmp"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ManagedEtcdReference refers to the object that keeps the etcd of a control plane of any kind on machines of its own.
type ManagedEtcdReference struct {
	// apiGroup is the API group of the object's kind, such as etcdcluster.cluster.x-k8s.io.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is the object's kind, such as EtcdCluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind,omitempty"`

	// name is the object's name, in the control plane's namespace. Defaults to CLUSTER-etcd, CLUSTER being the name of the
	// control plane's Cluster: a template, whose control planes belong to Clusters of different names, leaves it out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}

// IsDefined reports whether it refers to anything.
func (r ManagedEtcdReference) IsDefined() bool { return r != (ManagedEtcdReference{}) }

// Of returns the complete reference of a control plane of this Cluster.
func (r ManagedEtcdReference) Of(cluster string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: r.APIGroup, Kind: r.Kind, Name: cmp.Or(r.Name, cluster+"-etcd")}
}
