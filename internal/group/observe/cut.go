package observe

import (
	"github.com/quorate/quorate/internal/cluster/machine"
)

// Cut returns a text, which may quote others, fit for a status or an event: redacted, and of at most so many bytes.
func Cut(text string, most int) string { return machine.Clean(text, most) }
