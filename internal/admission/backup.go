package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/backup"
)

// checkBackup returns what is wrong with backups, where they differ from those before. elsewhere says who keeps etcd; empty: it is on the
// machines, and ours.
func checkBackup(before, after *controlplanev1.BackupSpec, elsewhere string, spec *field.Path) field.ErrorList {
	if after == nil || equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	at := spec.Child("backup")
	var all field.ErrorList
	if elsewhere != "" {
		all = append(all, field.Forbidden(at, elsewhere))
	}
	return append(all, backup.CheckSpec(after, at)...)
}

// checkNoInPlace refuses what machines of etcd are never: changed in place.
func checkNoInPlace(b *controlplanev1.BackupSpec, spec *field.Path) field.ErrorList {
	if b == nil {
		return nil
	}
	i := slices.Index(b.Before, controlplanev1.BackupBeforeInPlaceSingle)
	if i < 0 {
		return nil
	}
	why := "must be MinorVersion or EtcdVersion: machines of an EtcdCluster are not changed in place"
	return field.ErrorList{field.Invalid(spec.Child("backup", "before").Index(i), b.Before[i], why)}
}

// Why a control plane takes no backups.
const (
	etcdElsewhere = "etcd must run on the control plane's machines and be kept by Quorate; with an EtcdCluster, set its spec.backup"
	etcdNotOurs   = "etcd.management must be Members: Quorate backs up no etcd that an operator or somebody else keeps"
)

// elsewhere returns why the etcd of a KubeadmControlPlane is not backed up with it; empty: it is.
func elsewhere(external bool) string {
	if external {
		return etcdElsewhere
	}
	return ""
}
