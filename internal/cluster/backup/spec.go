package backup

import (
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
	return all
}
