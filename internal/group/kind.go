package group

import (
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// Kind is what one kind of groups has of its own. Everything else of a turn is the same for all.
type Kind interface {
	observe.Kind
	// Steps is what it has of its own when steps are carried out, and Reports in what is reported.
	Steps() act.Steps
	Reports() observe.Reports
}
