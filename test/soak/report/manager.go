package report

import (
	"slices"
	"time"

	"github.com/quorate/quorate/test/soak/history"
)

// Usage is how much of something the process of the management plane used: after its first hour, or at first if it was younger, in the end,
// and at most.
type Usage struct {
	Name string `json:"name"`
	// Process is the process that lived longest, of those that there were.
	Process string  `json:"process"`
	Hours   float64 `json:"hours"`
	First   int64   `json:"first"`
	Last    int64   `json:"last"`
	Most    int64   `json:"most"`
}

// settling is the time after which the use of a process must not grow any more.
const settling = time.Hour

// usages returns what the process used that lived longest.
func usages(all []history.Entry) []Usage {
	byProcess := map[string][]history.Entry{}
	longest := ""
	lived := func(process string) int64 {
		looks := byProcess[process]
		return looks[len(looks)-1].Begin - looks[0].Begin
	}
	for _, e := range all {
		if e.Kind == history.Manager {
			byProcess[e.Client] = append(byProcess[e.Client], e)
			if longest == "" || lived(e.Client) > lived(longest) {
				longest = e.Client
			}
		}
	}
	if longest == "" {
		return nil
	}
	looks, life := byProcess[longest], lived(longest)
	if from := looks[0].Begin + int64(settling); life > 2*int64(settling) {
		looks = slices.DeleteFunc(looks, func(e history.Entry) bool { return e.Begin < from })
	}
	var found []Usage
	for _, item := range looks[0].Items {
		u := Usage{Name: item.Object, Process: longest, Hours: time.Duration(life).Hours(), First: item.Revision}
		for _, e := range looks {
			for _, i := range e.Items {
				if i.Object == u.Name {
					u.Last, u.Most = i.Revision, max(u.Most, i.Revision)
				}
			}
		}
		found = append(found, u)
	}
	return found
}
