package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ClusterFinalizer keeps a LocalCluster until its endpoint is gone.
const ClusterFinalizer = "infrastructure.cluster.x-k8s.io/localcluster"

// LocalClusterSpec is the cluster-wide infrastructure that is wanted.
type LocalClusterSpec struct {
	// controlPlaneEndpoint is the address of the API server's load balancer. Left
	// out, the provider takes a free address of its range, with port 6443.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// failureDomains are the names that machines are spread over. They are names
	// only: all machines are on this host.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	FailureDomains []string `json:"failureDomains,omitempty"`
}

// APIEndpoint is the address and port of an API server, or of etcd.
//
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// host is an IP address of a family that the machines have: that of the Cluster's spec.clusterNetwork.pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`

	// port is the TCP port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// LocalClusterStatus is what was observed.
type LocalClusterStatus struct {
	// conditions are Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is the part that Cluster API's contract asks for.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// etcdEndpoint is one address for all members of this cluster's own etcd cluster, for clients that have a certificate for them. It
	// forwards connections to members that vote. It is served while there are Machines with the label cluster.x-k8s.io/etcd-cluster.
	// +optional
	EtcdEndpoint APIEndpoint `json:"etcdEndpoint,omitempty,omitzero"`

	// failureDomains are those of the spec, in the contract's form.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// Initialization reports whether an object's infrastructure is there.
//
// +kubebuilder:validation:MinProperties=1
type Initialization struct {
	// provisioned is true once the infrastructure is there; it stays true.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=infrastructure-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.initialization) || !has(oldSelf.status.initialization.provisioned) || !oldSelf.status.initialization.provisioned || has(self.spec) && has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint",message="spec.controlPlaneEndpoint cannot change once it is served: it is in every machine's certificates"
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.controlPlaneEndpoint.host"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// LocalCluster is what the machines of one cluster share on this host: an endpoint and failure domains.
type LocalCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the infrastructure that is wanted.
	// +optional
	Spec LocalClusterSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed.
	// +optional
	Status LocalClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (in *LocalCluster) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the conditions.
func (in *LocalCluster) SetConditions(c []metav1.Condition) { in.Status.Conditions = c }

// +kubebuilder:object:root=true

// LocalClusterList is a list of local clusters.
type LocalClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the clusters.
	Items []LocalCluster `json:"items"`
}

// LocalClusterTemplateSpec holds the template of a LocalCluster.
type LocalClusterTemplateSpec struct {
	// template is the cluster's metadata and spec.
	// +required
	Template LocalClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// LocalClusterTemplateResource is the metadata and spec that clusters are made with.
type LocalClusterTemplateResource struct {
	// metadata are labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the cluster's spec.
	// +optional
	Spec LocalClusterSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=infrastructure-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// LocalClusterTemplate is what a ClusterClass makes LocalClusters from.
type LocalClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +optional
	Spec LocalClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// LocalClusterTemplateList is a list of templates.
type LocalClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []LocalClusterTemplate `json:"items"`
}
