package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// MaxReplacements is how many machines at most a rollout replaces, or changes in place, within 24 hours; 0: no limit.
func MaxReplacements(given controlplanev1.ApprovalSpec) int {
	return int(ptr.Deref(given.MaxReplacementsPerDay, 0))
}

// ParseReplacements reads controlplanev1.ReplacementsAnnotation, and sorts what it says by time. Of a machine that is named twice the later
// time holds. The error names the annotation, its value and what is accepted.
func ParseReplacements(text string) ([]plan.Replacement, error) {
	at := map[string]time.Time{}
	for _, entry := range strings.Split(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		name, moment, _ := strings.Cut(entry, "=")
		read, err := time.Parse(time.RFC3339, moment)
		if name == "" || err != nil {
			return nil, fmt.Errorf("the annotation %s is %q; names of machines with times are accepted, such as "+
				"demo-cp-1=2026-11-23T04:05:06Z,demo-cp-2=2026-11-23T09:00:00Z",
				controlplanev1.ReplacementsAnnotation, Cut(text, longestDrift))
		}
		if read.After(at[name]) {
			at[name] = read.UTC()
		}
	}
	var all []plan.Replacement
	for name, moment := range at {
		all = append(all, plan.Replacement{Machine: name, At: moment})
	}
	slices.SortFunc(all, CompareReplacements)
	return all, nil
}

// CompareReplacements sorts replacements by time, and those of one moment by machine.
func CompareReplacements(a, b plan.Replacement) int {
	return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Machine, b.Machine))
}

// addReplacements adds which machines were replaced lately, where that is limited.
func (t wants) addReplacements() {
	if t.Facts.Policy.MaxReplacements == 0 {
		return
	}
	g := &t.Facts.Group
	var err error
	if g.Replacements, err = ParseReplacements(t.Object.GetAnnotations()[controlplanev1.ReplacementsAnnotation]); err != nil {
		g.ReplacementsUnreadable = err.Error()
	}
}

// MemberAdd is how long a machine may take to add its member to etcd, as spec.joins.timeoutSeconds says; 0: it says nothing.
func MemberAdd(seconds *int32) time.Duration {
	if seconds == nil {
		return 0
	}
	return time.Duration(*seconds) * time.Second
}
