package group

import (
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/status"
)

// Kind is what one kind of groups has of its own. Everything else of a turn is the same for all.
type Kind interface {
	observe.Kind
	act.Kind
	status.Kind
}
