package status

import "github.com/quorate/quorate/internal/group/observe"

// Kind is a kind of groups as far as it is reported.
type Kind interface {
	// Status points to what all kinds' statuses have.
	Status(object observe.Object) observe.Status
	Reports() observe.Reports
}
