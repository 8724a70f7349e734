package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestReadCalendar: every window that cannot be read is named with its field, and the others are read.
func TestReadCalendar(t *testing.T) {
	frozen := metav1.NewTime(time.Date(2027, 1, 7, 0, 0, 0, 0, time.UTC))
	hours := metav1.Duration{Duration: 4 * time.Hour}
	given := controlplanev1.ApprovalSpec{FrozenUntil: &frozen, Windows: []controlplanev1.MaintenanceWindow{
		{Days: []controlplanev1.Weekday{"Saturday"}, Start: "22:30", Length: hours, TimeZone: "Europe/Berlin"},
		{Start: "22:30", Length: hours, TimeZone: "Mars"},
		{Start: "22:30"},
	}}
	calendar, wrong := ReadCalendar(given, field.NewPath("spec", "approval"))
	want := `[spec.approval.windows[1].timeZone: Invalid value: "Mars": must be a name of the IANA time zone database, ` +
		`such as Europe/Berlin, spec.approval.windows[2].length: Invalid value: "0s": must be from 10m to 168h]`
	if is := wrong.ToAggregate(); is == nil || is.Error() != want {
		t.Errorf("got %v\nwant %s", is, want)
	}
	if len(calendar.Windows) != 1 || calendar.Windows[0].String() != "Saturday at 22:30 Europe/Berlin for 4h0m0s" ||
		!calendar.FrozenUntil.Equal(frozen.Time) {
		t.Errorf("got %v, frozen until %s", calendar.Windows, calendar.FrozenUntil)
	}
}
