package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/drift"
)

// defaultBackupAge is how old a backup may be before a change unless spec.backup.maxAgeBefore says.
const defaultBackupAge = time.Hour

// MaxBackupAge returns how old the newest verified backup may be before a change of machines that needs one; 0: none does.
func MaxBackupAge(spec *controlplanev1.BackupSpec) time.Duration {
	switch {
	case spec == nil || len(spec.Before) == 0:
		return 0
	case spec.MaxAgeBefore == nil:
		return defaultBackupAge
	}
	return spec.MaxAgeBefore.Duration
}

// LastBackup returns since when an object is being deleted and needs a last backup first; zero: it needs none.
func LastBackup(object client.Object, spec *controlplanev1.BackupSpec) time.Time {
	if spec == nil || spec.LastBackup != controlplanev1.LastBackupRequired || object.GetDeletionTimestamp().IsZero() {
		return time.Time{}
	}
	return object.GetDeletionTimestamp().Time
}

// StoreOf names a store by its kind and name: a BackupStore and a ClusterBackupStore may have the same name.
func StoreOf(r controlplanev1.BackupStoreReference) string {
	return string(cmp.Or(r.Kind, controlplanev1.BackupStoreOfNamespace)) + "/" + r.Name
}

// VerifiedBackup is a verified backup as controlplanev1.BackupVerifiedAnnotation names it.
type VerifiedBackup struct {
	// Store is the store, as StoreOf names it, and UID the identity under which it has the backup.
	Store, UID string
	// Name is the backup's name, and Taken the time in its manifest.
	Name  string
	Taken time.Time
}

// String writes the value of the annotation; empty of the zero value.
func (b VerifiedBackup) String() string {
	if b == (VerifiedBackup{}) {
		return ""
	}
	return "store=" + b.Store + ",uid=" + b.UID + ",name=" + b.Name + ",taken=" + b.Taken.UTC().Format(time.RFC3339)
}

// ParseVerifiedBackup reads what String wrote. What says anything else is no backup.
func ParseVerifiedBackup(text string) VerifiedBackup {
	var b VerifiedBackup
	for _, entry := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(entry, "=")
		switch key {
		case "store":
			b.Store = value
		case "uid":
			b.UID = value
		case "name":
			b.Name = value
		case "taken":
			b.Taken, _ = time.Parse(time.RFC3339, value) // zero is refused below
		}
	}
	if !b.isWhole() || b.String() != text {
		return VerifiedBackup{}
	}
	return b
}

// isWhole reports whether nothing of it is missing.
func (b VerifiedBackup) isWhole() bool {
	return b.Store != "" && b.UID != "" && b.Name != "" && !b.Taken.IsZero()
}

// addBackup adds what is known of backups, where a change or a deletion may need one. A backup of another cluster, or in another store than
// the one that is named now, does not count.
func (t wants) addBackup() {
	spec := t.Spec.Backup
	age, last := MaxBackupAge(spec), LastBackup(t.Object, spec)
	if !t.Facts.Group.Initialized {
		last = time.Time{} // there is nothing to lose
	}
	power := t.Facts.Power
	if age == 0 && last.IsZero() && !power.Hibernate || !t.Spec.HoldsQuorum || spec == nil {
		return
	}
	p, b := &t.Facts.Policy, &t.Facts.Group.Backup
	p.MaxBackupAge, p.BackupBeforeSingle = age, slices.Contains(spec.Before, controlplanev1.BackupBeforeInPlaceSingle)
	annotations := t.Object.GetAnnotations()
	v := ParseVerifiedBackup(annotations[controlplanev1.BackupVerifiedAnnotation])
	if v.Store == StoreOf(spec.StoreRef) && v.UID == annotations[controlplanev1.BackupIdentityAnnotation] {
		b.Name, b.Taken = v.Name, v.Taken
	}
	b.Last = last
	b.Required, _ = time.Parse(time.RFC3339, annotations[controlplanev1.BackupRequiredAnnotation]) // what is no time is replaced
	if !b.Required.IsZero() || !b.Last.IsZero() {
		b.Trouble = t.backupTrouble()
	}
}

// backupTrouble is why the last backup failed, as its controller reports it; empty: it did not.
func (t wants) backupTrouble() string {
	for _, c := range t.Object.GetConditions() {
		if c.Type == controlplanev1.BackupCurrentCondition {
			return trouble(c.Reason, c.Message)
		}
	}
	return ""
}

// trouble says what is wrong with backups, as their condition tells it; empty: nothing.
func trouble(reason, message string) string {
	switch reason {
	case controlplanev1.BackupVerified, controlplanev1.BackupNever, controlplanev1.BackupOverdue:
		_, failed, found := strings.Cut(message, "the last attempt ")
		if !found {
			return ""
		}
		return Cut("the last attempt at one "+failed, longestDrift)
	}
	return Cut(reason+": "+message, longestDrift)
}

// needsBackup says which difference of a machine needs a backup before the machine is replaced or changed in place; empty: none does.
func (t wants) needsBackup(found drift.Drift) string {
	if t.Facts.Policy.MaxBackupAge == 0 {
		return ""
	}
	for _, d := range found.Reasons {
		if of := t.changes(d); of != "" {
			return of + " " + d.Was + " -> " + d.Want
		}
	}
	return ""
}

// changes names the program whose version a difference changes, where the spec wants a backup before that; empty: it does not.
func (t wants) changes(d drift.Difference) string {
	minor := slices.Contains(t.Spec.Backup.Before, controlplanev1.BackupBeforeMinorVersion)
	etcd := slices.Contains(t.Spec.Backup.Before, controlplanev1.BackupBeforeEtcdVersion)
	switch {
	case d.Field == versionField && (minor && machine.OtherMinor(d.Was, d.Want) || etcd && t.Spec.EtcdTag == ""):
		return cmp.Or(t.Type.Runs, "Kubernetes")
	case etcd && strings.HasSuffix(d.Field, etcdTagField):
		return "etcd"
	}
	return ""
}

// Where differences of versions stand.
const (
	versionField = "spec.version"
	etcdTagField = ".etcd.local.imageTag"
)
