package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterBackupStoreSpec is where backups of several namespaces are kept.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.folder)",message="exactly one of s3 and folder must be set"
type ClusterBackupStoreSpec struct {
	// allowedNamespaces are the namespaces whose control planes and etcd clusters may use the store. Each has a folder of its own in it.
	// +required
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitempty,omitzero"`

	// s3 is a bucket of an S3-compatible service.
	// +optional
	S3 *ClusterS3Store `json:"s3,omitempty"`

	// folder keeps backups on the volume that an administrator gave the manager by its flag --backup-folder, in the folder
	// _cluster/NAME/NAMESPACE.
	// +optional
	Folder *FolderStore `json:"folder,omitempty"`
}

// AllowedNamespaces selects namespaces by name or by label. A namespace is allowed if one of the two selects it.
//
// +kubebuilder:validation:MinProperties=1
type AllowedNamespaces struct {
	// names are names of namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`

	// selector selects namespaces by their labels. An empty selector selects all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// ClusterS3Store is a bucket of an S3-compatible service.
type ClusterS3Store struct {
	S3Bucket `json:",inline"`

	// credentialsSecretRef is the secret in the manager's namespace with accessKeyID, secretAccessKey and, if they end, sessionToken. Defaults
	// to the credentials that AWS's tools find in the manager's pod: AWS_ACCESS_KEY_ID, then a workload identity of EKS, then the instance's
	// role.
	// +optional
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterbackupstores,scope=Cluster,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.s3.endpoint",description="URL of the service"
// +kubebuilder:printcolumn:name="Bucket",type="string",JSONPath=".spec.s3.bucket",description="Bucket"
// +kubebuilder:printcolumn:name="Users",type="integer",JSONPath=".status.userCount",description="How many objects use the store"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// ClusterBackupStore is an administrator's place for backups of etcd. Control planes and etcd clusters of the namespaces that it allows
// name it in spec.backup.storeRef with the kind ClusterBackupStore. They do not see its credentials, nor the backups of other namespaces.
type ClusterBackupStore struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is where backups are kept.
	// +required
	Spec ClusterBackupStoreSpec `json:"spec,omitempty,omitzero"`

	// status is who uses the store, in all namespaces.
	// +optional
	Status StoreStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// ClusterBackupStoreList is a list of stores.
type ClusterBackupStoreList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the stores.
	Items []ClusterBackupStore `json:"items"`
}
