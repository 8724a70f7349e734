// Package v1alpha1 holds the kinds BackupStore and ClusterBackupStore, where backups of etcd are kept, and EtcdRecovery, one recovery from
// a backup. It knows schemas and defaults, no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=backup.quorate.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group of backups, and this version.
var GroupVersion = schema.GroupVersion{Group: "backup.quorate.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &BackupStore{}, &BackupStoreList{}, &ClusterBackupStore{}, &ClusterBackupStoreList{},
		&EtcdRecovery{}, &EtcdRecoveryList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
