package machine

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/windows"
)

// ReadCalendar returns when machines may begin to be replaced or changed in place, as spec.approval, which lies at a
// path, says. The errors name what of it cannot be read.
func ReadCalendar(given controlplanev1.ApprovalSpec, at *field.Path) (windows.Calendar, field.ErrorList) {
	var c windows.Calendar
	var all field.ErrorList
	for i, w := range given.Windows {
		var days []string
		for _, day := range w.Days {
			days = append(days, string(day))
		}
		read, err := windows.Parse(days, w.Start, w.Length.Duration, w.TimeZone)
		var wrong windows.FieldError
		if errors.As(err, &wrong) {
			all = append(all, field.Invalid(at.Child("windows").Index(i).Child(wrong.Field), wrong.Value, "must be "+wrong.Valid))
			continue
		}
		c.Windows = append(c.Windows, read)
	}
	if given.FrozenUntil != nil {
		c.FrozenUntil = given.FrozenUntil.Time
	}
	return c, all
}
