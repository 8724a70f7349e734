package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BackupRequestedAnnotation on a control plane of any kind, or an EtcdCluster, asks for a backup beside those of the schedule. Its value is
// when that was asked, as RFC 3339 has it: a backup that was tried later has answered it.
const BackupRequestedAnnotation = "controlplane.cluster.x-k8s.io/quorate-backup-requested"

// BackupIdentityAnnotation on a control plane of any kind, or an EtcdCluster, is the UID under which a store has its backups: that of its
// Cluster when the first was taken. A move to another management cluster, which changes the UID, and a restore keep it.
const BackupIdentityAnnotation = "controlplane.cluster.x-k8s.io/quorate-backup-identity"

// BackupsFinalizer on a control plane of any kind, or an EtcdCluster, keeps it until its backups are deleted, where
// spec.backup.deletionPolicy is Delete.
const BackupsFinalizer = "controlplane.cluster.x-k8s.io/quorate-backups"

// BackupRequiredAnnotation on a control plane of any kind, or an EtcdCluster, is since when a change of machines needs a verified backup,
// as RFC 3339 has it. Quorate writes it when such a change is the next step, and takes a backup at once: one that was taken then or later,
// and is verified, has answered it.
const BackupRequiredAnnotation = "controlplane.cluster.x-k8s.io/quorate-backup-required"

// BackupVerifiedAnnotation on a control plane of any kind, or an EtcdCluster, is its newest verified backup, as the manifest in the store
// has it. It holds the store's kind and name, the identity of BackupIdentityAnnotation, the backup's name and when it was taken,
// such as store=BackupStore/bucket,uid=UID,name=NAME,taken=TIME. Quorate writes it after each look at the store while spec.backup.before is
// set, and changes machines by it: a move keeps it.
const BackupVerifiedAnnotation = "controlplane.cluster.x-k8s.io/quorate-backup-verified"

// BackupCurrentCondition reports whether there is a verified backup of etcd that is not older than two intervals of the schedule. It is
// there while spec.backup is set. Nothing is decided by it.
const BackupCurrentCondition = "BackupCurrent"

// Reasons of the condition BackupCurrent, and of status.backup.lastAttempt.
const (
	// BackupVerified: the newest backup was restored once, and is what the member held.
	BackupVerified = "Verified"
	// BackupHibernated: the control plane hibernates, and no backup is due.
	BackupHibernated = "Hibernated"
	// BackupNever: there is no verified backup yet.
	BackupNever = "Never"
	// BackupOverdue: the newest verified backup is older than two intervals.
	BackupOverdue = "Overdue"
	// BackupFailed: the last attempt failed, and the newest verified backup still counts.
	BackupFailed = "Failed"
	// BackupNotVerified: a backup was stored, and restoring it failed or was not tried.
	BackupNotVerified = "NotVerified"
	// BackupStored: a backup was stored, and is verified later, as spec.backup.verify says.
	BackupStored = "Stored"
	// BackupStoreUnusable: the store does not exist, its description is wrong, or it does not answer.
	BackupStoreUnusable = "StoreUnusable"
)

// BackupVerify says which backups are restored to prove them.
//
// +kubebuilder:validation:Enum=Always;Daily
type BackupVerify string

// The values of BackupVerify.
const (
	// BackupVerifyAlways restores each backup. It is the default.
	BackupVerifyAlways BackupVerify = "Always"
	// BackupVerifyDaily restores a backup if the newest verified one is older than a day.
	BackupVerifyDaily BackupVerify = "Daily"
)

// BackupDeletionPolicy says what becomes of backups when their Cluster is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type BackupDeletionPolicy string

// The values of BackupDeletionPolicy.
const (
	// BackupsRetain keeps them. It is the default.
	BackupsRetain BackupDeletionPolicy = "Retain"
	// BackupsDelete deletes them once all machines are gone.
	BackupsDelete BackupDeletionPolicy = "Delete"
)

// LastBackup reports whether a last backup is taken before the machines are deleted.
//
// +kubebuilder:validation:Enum=None;Required
type LastBackup string

// The values of LastBackup.
const (
	// LastBackupNone deletes the machines at once. It is the default.
	LastBackupNone LastBackup = "None"
	// LastBackupRequired deletes them once a backup is verified that was taken since the deletion.
	LastBackupRequired LastBackup = "Required"
)

// BackupBefore names changes of machines before which a verified backup of etcd is needed.
//
// +kubebuilder:validation:Enum=MinorVersion;InPlaceSingle;EtcdVersion
type BackupBefore string

// The values of BackupBefore.
const (
	// BackupBeforeMinorVersion: a machine is replaced or changed in place for another minor version of Kubernetes, in an EtcdCluster of etcd.
	BackupBeforeMinorVersion BackupBefore = "MinorVersion"
	// BackupBeforeInPlaceSingle: the only machine is changed in place.
	BackupBeforeInPlaceSingle BackupBefore = "InPlaceSingle"
	// BackupBeforeEtcdVersion: a machine is replaced or changed in place for another version of etcd, or for one of Kubernetes that chooses
	// etcd's.
	BackupBeforeEtcdVersion BackupBefore = "EtcdVersion"
)

// BackupSpec says when etcd is backed up, where to, and what is kept.
type BackupSpec struct {
	// storeRef is the BackupStore in the same namespace, or the ClusterBackupStore, that backups go to.
	// +required
	StoreRef BackupStoreReference `json:"storeRef,omitempty,omitzero"`

	// schedule is when backups are taken, in the five fields of cron, such as "0 */6 * * *", or a word such as @daily. A backup may be up to 5
	// minutes later, so that not all clusters begin at once. Where there is none yet, one is taken as soon as possible.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule,omitempty"`

	// timeZone is the time zone of schedule, such as Europe/Berlin. Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// retention is which backups are kept. Defaults to all.
	// +optional
	Retention BackupRetention `json:"retention,omitempty,omitzero"`

	// verify is which backups are restored in a scratch folder, to compare them with what the etcd member held. Defaults to Always.
	// +optional
	Verify BackupVerify `json:"verify,omitempty"`

	// deletionPolicy is what becomes of the backups when the Cluster is deleted: Retain keeps them, Delete deletes them as the last thing,
	// when all machines are gone. They are kept where only the control plane or the EtcdCluster is deleted. Defaults to Retain.
	// +optional
	DeletionPolicy BackupDeletionPolicy `json:"deletionPolicy,omitempty"`

	// lastBackup is whether a last backup is taken and verified when this object is deleted, before its machines are: Required, or None. While
	// there is none the deletion waits with the reason LastBackupRequired, also without a quorum; None lets it go on without one. A cluster
	// that was never initialised needs none. Required cannot be combined with deletionPolicy Delete. Defaults to None.
	// +optional
	LastBackup LastBackup `json:"lastBackup,omitempty"`

	// encryption encrypts backups. Only encrypted backups hold the keys without which a snapshot restores nothing: without encryption the
	// authorities of the cluster must be kept elsewhere.
	// +optional
	Encryption BackupEncryption `json:"encryption,omitempty,omitzero"`

	// before lists the changes that need a verified backup of this cluster, not older than maxAgeBefore. MinorVersion: a machine is replaced
	// or changed in place for another minor version of Kubernetes, or, in an EtcdCluster, of etcd. EtcdVersion: the same for another version
	// of etcd, or for another version of Kubernetes where that chooses etcd's. InPlaceSingle: the only machine is changed in place. If there
	// is no such backup, Quorate takes one at once, and the change waits for it with the reason BackupRequired. The repair of what is
	// missing or broken, and scaling, never wait. Defaults to none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Before []BackupBefore `json:"before,omitempty"`

	// maxAgeBefore is how old the backup of before may be, from 10m to 168h. Defaults to 1h.
	// +optional
	MaxAgeBefore *metav1.Duration `json:"maxAgeBefore,omitempty"`
}

// BackupStoreKind is a kind of stores.
//
// +kubebuilder:validation:Enum=BackupStore;ClusterBackupStore
type BackupStoreKind string

// The values of BackupStoreKind.
const (
	// BackupStoreOfNamespace is a store in the namespace of those that use it. It is the default.
	BackupStoreOfNamespace BackupStoreKind = "BackupStore"
	// BackupStoreOfCluster is an administrator's store for several namespaces.
	BackupStoreOfCluster BackupStoreKind = "ClusterBackupStore"
)

// BackupStoreReference names a BackupStore or a ClusterBackupStore.
type BackupStoreReference struct {
	// kind is BackupStore or ClusterBackupStore. Defaults to BackupStore.
	// +optional
	Kind BackupStoreKind `json:"kind,omitempty"`

	// name is the name of the store.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// BackupRetention says how many backups are kept; a backup is kept if one of the numbers keeps it. The newest one and the newest verified
// one are always kept, and nothing is deleted that is not a backup of this very cluster.
//
// +kubebuilder:validation:MinProperties=1
type BackupRetention struct {
	// last is how many of the newest backups are kept.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Last *int32 `json:"last,omitempty"`
	// hourly is for how many hours that have a backup one is kept.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Hourly *int32 `json:"hourly,omitempty"`
	// daily is for how many days that have a backup one is kept. Days, weeks and months are those of UTC.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Daily *int32 `json:"daily,omitempty"`
	// weekly is for how many weeks, from Monday, that have a backup one is kept.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Weekly *int32 `json:"weekly,omitempty"`
	// monthly is for how many months that have a backup one is kept.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Monthly *int32 `json:"monthly,omitempty"`
}

// BackupEncryption says who can decrypt backups.
//
// +kubebuilder:validation:MinProperties=1
type BackupEncryption struct {
	// recipients are public keys of age (https://age-encryption.org), such as age1.... Each of their identities can decrypt the backups.
	// Quorate has none of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	Recipients []string `json:"recipients,omitempty"`
}

// BackupStatus is what came of backups.
//
// +kubebuilder:validation:MinProperties=1
type BackupStatus struct {
	// lastVerified is the newest backup that was proven by restoring it.
	// +optional
	LastVerified VerifiedBackup `json:"lastVerified,omitempty,omitzero"`

	// lastAttempt is what came of the last backup that was tried.
	// +optional
	LastAttempt BackupAttempt `json:"lastAttempt,omitempty,omitzero"`

	// next is when the next backup is due.
	// +optional
	Next metav1.Time `json:"next,omitempty,omitzero"`
}

// VerifiedBackup is a backup that was restored once.
type VerifiedBackup struct {
	// name is the backup's name in the store.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// time is when it was taken.
	// +required
	Time metav1.Time `json:"time,omitempty,omitzero"`
	// revision is the revision of etcd that it holds.
	// +required
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision,omitempty"`
	// sizeBytes is how many bytes the store holds of it.
	// +required
	// +kubebuilder:validation:Minimum=1
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}

// BackupAttempt is what came of one backup.
type BackupAttempt struct {
	// time is when it began.
	// +required
	Time metav1.Time `json:"time,omitempty,omitzero"`
	// reason is what came of it in one CamelCase word.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message says it to a person.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}
