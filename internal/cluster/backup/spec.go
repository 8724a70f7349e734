package backup

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/core/backup"
)

// CheckSpec returns what of spec.backup, which lies at a path, cannot be carried out. A private key is in no error.
func CheckSpec(spec *controlplanev1.BackupSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if _, err := backup.ParseSchedule("@daily", spec.TimeZone); err != nil {
		all = append(all, field.Invalid(at.Child("timeZone"), spec.TimeZone, err.Error()))
	}
	if _, err := backup.ParseSchedule(spec.Schedule, ""); err != nil {
		all = append(all, field.Invalid(at.Child("schedule"), spec.Schedule, err.Error()))
	}
	for i, recipient := range spec.Encryption.Recipients {
		if _, err := archive.Recipients([]string{recipient}); err != nil {
			if archive.IsIdentity(recipient) {
				recipient = "AGE-SECRET-KEY..."
			}
			all = append(all, field.Invalid(at.Child("encryption", "recipients").Index(i), recipient, err.Error()))
		}
	}
	if spec.LastBackup == controlplanev1.LastBackupRequired && spec.DeletionPolicy == controlplanev1.BackupsDelete {
		why := "must be None with deletionPolicy Delete, which deletes the last backup too"
		all = append(all, field.Invalid(at.Child("lastBackup"), spec.LastBackup, why))
	}
	return append(all, checkBefore(spec, at)...)
}

// How old a backup may be before a change. A younger one than the least might not be verified in time.
const (
	leastAgeBefore = 10 * time.Minute
	mostAgeBefore  = 7 * 24 * time.Hour
)

// befores are the changes before which a backup can be needed.
var befores = []controlplanev1.BackupBefore{
	controlplanev1.BackupBeforeMinorVersion, controlplanev1.BackupBeforeInPlaceSingle, controlplanev1.BackupBeforeEtcdVersion,
}

// checkBefore returns what is wrong with before and maxAgeBefore.
func checkBefore(spec *controlplanev1.BackupSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, before := range spec.Before {
		switch {
		case !slices.Contains(befores, before):
			all = append(all, field.NotSupported(at.Child("before").Index(i), before, befores))
		case slices.Contains(spec.Before[:i], before):
			all = append(all, field.Duplicate(at.Child("before").Index(i), before))
		}
	}
	age := spec.MaxAgeBefore
	switch {
	case age == nil:
	case len(spec.Before) == 0:
		why := "must not be set without before, such as [MinorVersion]"
		all = append(all, field.Invalid(at.Child("maxAgeBefore"), age.Duration.String(), why))
	case age.Duration < leastAgeBefore || age.Duration > mostAgeBefore:
		all = append(all, field.Invalid(at.Child("maxAgeBefore"), age.Duration.String(), "must be from 10m to 168h"))
	}
	return all
}
