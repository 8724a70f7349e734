package report

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cli/screen"
)

// Recovery is from which backup an etcd can be recovered. It is zero where none is taken.
type Recovery struct {
	// Name is the newest backup that is verified; empty: there is none.
	Name string `json:"name,omitempty"`
	// Taken is when it was taken.
	Taken time.Time `json:"taken,omitzero"`
	// Revision is the revision of etcd that it holds.
	Revision int64 `json:"revision,omitempty"`
	// Current: it is not older than two intervals of the schedule, and the store can be used.
	Current bool `json:"current"`
	// Reason and Message are those of the condition BackupCurrent; empty: nothing was looked at yet.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Age is how old it is.
	Age time.Duration `json:"-"`
	// Wanted: backups are taken.
	Wanted bool `json:"-"`
}

// Lines says from what the etcd can be recovered.
func (r Recovery) Lines() []screen.Line {
	if !r.Wanted {
		return nil
	}
	text, colour := "recoverable from "+r.Name+", taken "+ago(r.Age)+" ago, verified", screen.Faint
	switch {
	case r.Name == "" && r.Reason == "":
		text, colour = "no backup yet", screen.Doubt
	case r.Name == "":
		text, colour = "no verified backup: "+r.Message, screen.Bad
	case !r.Current:
		text, colour = text+"; "+r.Message, screen.Doubt
	}
	return []screen.Line{{{Text: "backup  "}, {Text: text, Colour: colour}}}
}

// ago is an age in one unit.
func ago(age time.Duration) string {
	switch {
	case age < 2*time.Minute:
		return fmt.Sprintf("%d s", int(age.Seconds()))
	case age < 2*time.Hour:
		return fmt.Sprintf("%d min", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%d h", int(age.Hours()))
	}
	return fmt.Sprintf("%d days", int(age.Hours()/24))
}
