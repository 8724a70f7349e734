package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// MaxReplacements is how many machines at most a rollout replaces, or changes in place, within 24 hours; 0: no limit.
func MaxReplacements(given controlplanev1.ApprovalSpec) int {
	return int(ptr.Deref(given.MaxReplacementsPerDay, 0))
}

// ParseReplacements reads controlplanev1.ReplacementsAnnotation, and sorts what it says by time. Of a machine that is named twice the later
// time holds. The error names the annotation, its value and what is accepted.
func ParseReplacements(text string) ([]plan.Replacement, error) {
	all, err := machine.Moments(controlplanev1.ReplacementsAnnotation, text)
	slices.SortFunc(all, CompareReplacements)
	return all, err
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
