package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The keys of the secret with a store's credentials.
const (
	// AccessKeyID and SecretAccessKey are needed.
	AccessKeyID     = "accessKeyID"
	SecretAccessKey = "secretAccessKey"
	// SessionToken is for credentials that end.
	SessionToken = "sessionToken"
)

// StoreInUseFinalizer on a BackupStore or a ClusterBackupStore keeps it while it is in use. A store that is deleted goes with its last
// user.
const StoreInUseFinalizer = "backup.quorate.io/in-use"

// MostStoreUsers is how many users the status of a store names.
const MostStoreUsers = 10

// StoreStatus is who uses a store.
//
// +kubebuilder:validation:MinProperties=1
type StoreStatus struct {
	// userCount is how many objects use the store: control planes and etcd clusters that name it in spec.backup.storeRef, and
	// EtcdRecoveries that have not ended. A store that is deleted stays until there are none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UserCount *int32 `json:"userCount,omitempty"`

	// users are the first 10 of them, by kind, namespace and name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Users []StoreUser `json:"users,omitempty"`
}

// StoreUser is an object that uses a store.
type StoreUser struct {
	// kind is KubeadmControlPlane, ControlPlane, EtcdCluster or EtcdRecovery.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// namespace is the object's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name is the object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// BackupStoreSpec is where backups are kept.
//
// +kubebuilder:validation:XValidation:rule="has(self.s3) != has(self.folder)",message="exactly one of s3 and folder must be set"
type BackupStoreSpec struct {
	// s3 is a bucket of an S3-compatible service.
	// +optional
	S3 *S3Store `json:"s3,omitempty"`

	// folder keeps backups on the volume that an administrator gave the manager by its flag --backup-folder, in the folder NAMESPACE/NAME of
	// this object.
	// +optional
	Folder *FolderStore `json:"folder,omitempty"`
}

// FolderStore has no fields.
type FolderStore struct{}

// S3Store is a bucket of an S3-compatible service.
type S3Store struct {
	S3Bucket `json:",inline"`

	// credentialsSecretRef is the secret in the same namespace with accessKeyID, secretAccessKey and, if they end, sessionToken. Credentials
	// that may put, get and list are enough: without the right to delete, retention is left to the bucket.
	// +required
	CredentialsSecretRef SecretReference `json:"credentialsSecretRef,omitempty,omitzero"`
}

// S3Bucket is what is said of a bucket but for credentials.
type S3Bucket struct {
	// endpoint is the URL of the service, such as https://s3.eu-central-1.amazonaws.com. For a BackupStore the manager connects to no
	// loopback or link-local address, and to none of the ranges that an administrator refuses by the flag --backup-refuse.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@]+/?$')",messageExpression="'endpoint is ' + self + ': it must be a URL of scheme, host and port, such as https://s3.example.com:9000'"
	Endpoint string `json:"endpoint,omitempty"`

	// bucket is the name of the bucket, which must exist.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')",messageExpression="'bucket is ' + self + ': it must consist of lower-case letters, digits, dots and dashes'"
	Bucket string `json:"bucket,omitempty"`

	// prefix is the folder in the bucket, such as backups/production. Defaults to the bucket itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$')",messageExpression="'prefix is ' + self + ': it must consist of names that are separated by slashes and begin with no dot'"
	Prefix string `json:"prefix,omitempty"`

	// region is the bucket's region. Defaults to us-east-1, which services without regions accept.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region,omitempty"`

	// pathStyle has the bucket's name in the path of requests and not in the host name, as most services need that are not a cloud's own.
	// +optional
	PathStyle *bool `json:"pathStyle,omitempty"`

	// caBundle are certificates in PEM by which the service's certificate is verified. Defaults to those of the manager's system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`

	// proxy is the URL of an HTTP proxy to the service.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@]+/?$')",messageExpression="'proxy is ' + self + ': it must be a URL of scheme, host and port, such as http://proxy.example.com:3128'"
	Proxy string `json:"proxy,omitempty"`

	// encryption has the service encrypt objects. Defaults to what the bucket does by itself.
	// +optional
	Encryption ServerSideEncryption `json:"encryption,omitempty,omitzero"`
}

// ServerSideEncryption says how a service encrypts objects.
//
// +kubebuilder:validation:XValidation:rule="(self.algorithm == 'aws:kms') == has(self.keyName)",fieldPath=".keyName",message="keyName must be set for aws:kms, and for nothing else"
type ServerSideEncryption struct {
	// algorithm is AES256 or aws:kms.
	// +required
	// +kubebuilder:validation:Enum=AES256;"aws:kms"
	Algorithm string `json:"algorithm,omitempty"`

	// keyName is the name of the key for aws:kms.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	KeyName string `json:"keyName,omitempty"`
}

// SecretReference names a secret in the same namespace.
type SecretReference struct {
	// name is the name of the secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=backupstores,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.s3.endpoint",description="URL of the service; empty: the manager's volume"
// +kubebuilder:printcolumn:name="Bucket",type="string",JSONPath=".spec.s3.bucket",description="Bucket"
// +kubebuilder:printcolumn:name="Users",type="integer",JSONPath=".status.userCount",description="How many objects use the store"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// BackupStore is a place for backups of etcd, which control planes and etcd clusters of its namespace name in spec.backup.storeRef.
type BackupStore struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is where backups are kept.
	// +required
	Spec BackupStoreSpec `json:"spec,omitempty,omitzero"`

	// status is who uses the store.
	// +optional
	Status StoreStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// BackupStoreList is a list of stores.
type BackupStoreList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the stores.
	Items []BackupStore `json:"items"`
}
