package observe

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestAddWindows: 2026-11-28 is a Saturday. Windows that no webhook checked and nobody can read are closed, and say why.
func TestAddWindows(t *testing.T) {
	saturday := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	window := controlplanev1.MaintenanceWindow{
		Days: []controlplanev1.Weekday{"Saturday"}, Start: "22:00", Length: metav1.Duration{Duration: time.Hour},
	}
	at := func(now time.Time, given controlplanev1.ApprovalSpec) plan.Window {
		view := &View{Spec: Spec{Approval: given}}
		view.Facts.Now = now
		wants{view}.addWindows()
		return view.Facts.Group.Window
	}
	given := controlplanev1.ApprovalSpec{Windows: []controlplanev1.MaintenanceWindow{window}}
	opens, closes := saturday.Add(22*time.Hour), saturday.Add(23*time.Hour)
	if is := at(saturday, given); is.Closed == "" || !is.Opens.Equal(opens) || !is.Closes.Equal(closes) {
		t.Errorf("before it: %+v", is)
	}
	if is := at(opens.Add(time.Minute), given); is.Closed != "" || !is.Closes.Equal(closes) {
		t.Errorf("inside: %+v", is)
	}
	if is := at(saturday, controlplanev1.ApprovalSpec{}); is != (plan.Window{}) {
		t.Errorf("without windows: %+v", is)
	}
	given.Windows[0].TimeZone = "Mars"
	if is := at(opens.Add(time.Minute), given); !strings.Contains(is.Closed, "spec.approval.windows[0].timeZone") || !is.Opens.IsZero() {
		t.Errorf("of an unknown zone: %+v", is)
	}
}
