package observe

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// addWindows adds whether changes may begin now. Windows that cannot be read, as no webhook checked them, are closed.
func (t wants) addWindows() {
	window := &t.Facts.Group.Window
	calendar, wrong := machine.ReadCalendar(t.Spec.Approval, field.NewPath("spec", "approval"))
	if len(wrong) > 0 {
		*window = plan.Window{Closed: wrong.ToAggregate().Error()}
		return
	}
	*window = plan.Window(calendar.At(t.Facts.Now))
}
