package observe

import (
	"github.com/quorate/quorate/internal/cluster/machine"
)

// BuildVersion is the version that machines of the group can be made with now: where its own
// is refused, the newest that its machines have, so that a broken one can be replaced.
func (t *View) BuildVersion() string {
	if refused := t.Facts.Want.Refused; refused.Reason == "" || !refused.Replaceable {
		return t.Spec.Version
	}
	if list := machine.Versions(t.Objects()); len(list) > 0 {
		return list[len(list)-1].Version
	}
	return t.Spec.Version
}
