package rows

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// parseRequests reads what a person asked for, and how long ago: defragment@3m,disarm@3m,2@3m; a number is that of the machine to lead.
func parseRequests(text string) plan.Requests {
	var r plan.Requests
	for one := range strings.SplitSeq(text, ",") {
		switch what, at, _ := strings.Cut(one, "@"); what {
		case "defragment":
			r.Defragment = ago(at)
		case "disarm":
			r.Disarm = ago(at)
		default:
			r.MoveLeader, r.Lead = ago(at), "cp-"+what
		}
	}
	return r
}

// parseDone reads how long ago an alarm was ended, and the leader moved: 3m,3m.
func parseDone(text string) (disarmed, moved time.Time) {
	first, second, _ := strings.Cut(text, ",")
	return ago(first), ago(second)
}

// parseCompacted reads to which revision etcd was compacted, and how long ago, an hour if that is not said: 69@59s.
func parseCompacted(text string) (revision int64, at time.Time) {
	number, since, _ := strings.Cut(text, "@")
	revision, _ = strconv.ParseInt(number, 10, 64)
	return revision, ago(cmp.Or(since, "1h"))
}

// parseReplaced reads machines, and how long ago each was replaced: 2@3h,3@1h.
func parseReplaced(text string) []plan.Replacement {
	var list []plan.Replacement
	for _, one := range strings.Split(text, ",") {
		number, ago, _ := strings.Cut(one, "@")
		before, _ := time.ParseDuration(ago)
		list = append(list, plan.Replacement{Machine: "cp-" + number, At: now.Add(-before)})
	}
	return list
}

// parseClosed reads in what time changes may begin; empty: at none.
func parseClosed(value string) plan.Window {
	c := plan.Window{Closed: "it is outside of spec.approval.windows"}
	if in, err := time.ParseDuration(value); err == nil {
		c.Opens = now.Add(in)
	}
	return c
}
