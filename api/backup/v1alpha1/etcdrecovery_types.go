package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// Annotations of an EtcdRecovery. They are kept by a move and by a backup of the management cluster, as status is not.
const (
	// RecoverySeedAnnotation describes the backup that is to be restored, as JSON. Quorate writes it once it found the backup, or took one
	// of the survivor. It is not changed after that.
	RecoverySeedAnnotation = "backup.quorate.io/seed"
	// RecoveryTakenAnnotation describes the backup that Quorate took of the survivor, as JSON, from the moment on when the store has it. Until
	// it is the seed, it is looked at again, and no other is taken.
	RecoveryTakenAnnotation = "backup.quorate.io/taken"
	// RecoveryBegunAnnotation is when the recovery began, in the form of RFC 3339. From then on nothing else is done to the control plane's
	// machines.
	RecoveryBegunAnnotation = "backup.quorate.io/begun"
	// RecoveryEndedAnnotation is when the control plane served again from the seed, in the form of RFC 3339.
	RecoveryEndedAnnotation = "backup.quorate.io/ended"
	// RestoredFromAnnotation is on each object that `quorate restore` made: the UID under which the store has the backup, a slash, and the
	// backup's name.
	RestoredFromAnnotation = "backup.quorate.io/restored-from"
	// SeededByAnnotation is on a Machine, and on its bootstrap data: the UID of the EtcdRecovery by whose seed it was made.
	SeededByAnnotation = "backup.quorate.io/seeded-by"
)

// The condition of an EtcdRecovery, and its reasons.
const (
	// RecoveredCondition is True once the control plane serves from the seed.
	RecoveredCondition = "Recovered"

	// RecoverySeeking is the reason while the seed is looked for, or taken of the survivor.
	RecoverySeeking = "SeekingSeed"
	// RecoverySeedRefused is the reason where the seed cannot be planted.
	RecoverySeedRefused = "SeedRefused"
	// RecoverySeedDamaged is the reason where the backup in the store is not the one that its manifest describes: it was changed or damaged.
	RecoverySeedDamaged = "SeedDamaged"
	// RecoveryNotNeeded is the reason while etcd has a quorum.
	RecoveryNotNeeded = "NotNeeded"
	// RecoveryUnapproved is the reason while the recovery waits for a person's approval.
	RecoveryUnapproved = "ApprovalRequired"
	// RecoveryUnderway is the reason while the control plane recovers; its status.plan says how far it is.
	RecoveryUnderway = "Recovering"
	// RecoveryEnded is the reason of the condition when it is True.
	RecoveryEnded = "Recovered"
)

// EtcdRecoverySpec says from what etcd is recovered, and which machines are given up for it.
//
// +kubebuilder:validation:XValidation:rule="has(self.survivor) != has(self.backup)",message="exactly one of survivor and backup must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.formerClusterUID) || has(self.backup)",message="formerClusterUID requires backup"
// +kubebuilder:validation:XValidation:rule="self.clusterName == oldSelf.clusterName && has(self.giveUp) == has(oldSelf.giveUp) && (!has(self.giveUp) || self.giveUp == oldSelf.giveUp) && has(self.survivor) == has(oldSelf.survivor) && (!has(self.survivor) || self.survivor == oldSelf.survivor) && (!has(self.backup) || !has(oldSelf.backup) || self.backup == oldSelf.backup) && self.storeRef == oldSelf.storeRef && has(self.formerClusterUID) == has(oldSelf.formerClusterUID) && (!has(self.formerClusterUID) || self.formerClusterUID == oldSelf.formerClusterUID)",message="only off and identitySecretRef may change: for another recovery, delete this one and create another"
type EtcdRecoverySpec struct {
	// clusterName is the name of the Cluster in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// survivor is the Machine whose etcd member still answers and is backed up for the recovery, or Best for the one whose data is the newest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Survivor string `json:"survivor,omitempty"`

	// backup is the name of a verified backup in the store.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Backup string `json:"backup,omitempty"`

	// formerClusterUID is the UID under which the store has the backup, where another management cluster took it and is gone: its Machines
	// are not known here. Setting it says that none of them runs any more. Their Nodes are deleted once the control plane serves. Empty:
	// the backup is one of this cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	FormerClusterUID string `json:"formerClusterUID,omitempty"`

	// storeRef is the store in which the backup is, and in which the backup of a survivor is stored.
	// +required
	StoreRef controlplanev1.BackupStoreReference `json:"storeRef,omitempty,omitzero"`

	// identitySecretRef is the secret in the same namespace whose key "identity" has the age identity that decrypts the backup. It is needed
	// for an encrypted backup, and may be deleted after the recovery.
	// +optional
	IdentitySecretRef SecretReference `json:"identitySecretRef,omitempty,omitzero"`

	// giveUp are the names of all Machines that the control plane has, or the EtcdCluster that keeps its etcd. They are deleted, with their
	// infrastructure, before the seed is planted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	GiveUp []string `json:"giveUp,omitempty"`

	// off are those of giveUp that a person declares to be off for good, because their infrastructure cannot be deleted. If one of them
	// comes back, its API server would serve old data.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Off []string `json:"off,omitempty"`
}

// IdentityKey is the key of the secret of identitySecretRef.
const IdentityKey = "identity"

// EtcdRecoveryStatus is what became of a recovery. Nothing is decided by it.
type EtcdRecoveryStatus struct {
	// conditions has Recovered.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// digest is what a person approves: of the cluster, the seed, and the machines that are given up. Empty until the seed is known.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest,omitempty"`
}

// GetConditions returns the conditions.
func (r *EtcdRecovery) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions sets the conditions.
func (r *EtcdRecovery) SetConditions(all []metav1.Condition) { r.Status.Conditions = all }

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdrecoveries,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".spec.clusterName",description="Cluster"
// +kubebuilder:printcolumn:name="Recovered",type="string",JSONPath=`.status.conditions[?(@.type=="Recovered")].status`,description="Whether the control plane serves from the seed"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=`.status.conditions[?(@.type=="Recovered")].reason`,description="How far it is"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// EtcdRecovery is one recovery of a control plane whose etcd has lost its quorum, or all of its machines: a snapshot is restored on one
// new machine, and all others are given up. It begins once a person has approved it.
type EtcdRecovery struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says from what etcd is recovered.
	// +required
	Spec EtcdRecoverySpec `json:"spec,omitempty,omitzero"`

	// status is what became of it.
	// +optional
	Status EtcdRecoveryStatus `json:"status,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// EtcdRecoveryList is a list of recoveries.
type EtcdRecoveryList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the recoveries.
	Items []EtcdRecovery `json:"items"`
}
