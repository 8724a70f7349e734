package status

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/group/observe"
)

// comparison reports the comparison of the voters' data.
type comparison struct{ Report }

// condition returns the condition EtcdDataConsistent; none before the first comparison of this process.
func (t comparison) condition() []metav1.Condition {
	seen := t.Memory.Compared
	status, reason, message := metav1.ConditionTrue, controlplanev1.EtcdDataConsistentReason, ""
	switch {
	case seen.At.IsZero():
		return nil
	case len(seen.Last.Differ) > 0:
		status, reason, message = metav1.ConditionFalse, controlplanev1.EtcdDataDiffersReason, t.differ(seen.Last)
	case seen.Last.Revision == 0:
		status, reason, message = metav1.ConditionUnknown, controlplanev1.EtcdDataUnknownReason, "The data of the members were not compared"
	}
	if seen.Failed != "" {
		message = strings.TrimPrefix(message+"\n", "\n") + "* The last comparison failed: " + seen.Failed
	}
	return []metav1.Condition{observe.Condition(controlplanev1.EtcdDataConsistentCondition, status, reason, message)}
}

// differ says which members have other data than a majority, or that no majority has the same.
func (t comparison) differ(found etcd.Comparison) string {
	hosts := t.Match(t.Survey.Members).Hosts
	var members []string
	for _, m := range found.Differ {
		text := etcd.FormatID(m.ID)
		if on := hosts[m.ID]; on != "" {
			text += " on " + on
		}
		members = append(members, text)
	}
	list := strings.Join(members, ", ")
	if 2*len(found.Differ) < found.Voters {
		return fmt.Sprintf("* The data of member %s differ from those of most members at revision %d: replace its machine", list, found.Revision)
	}
	return fmt.Sprintf("* The members %s have different data at revision %d, and no majority has the same", list, found.Revision)
}

// differing is how many members have other data than a majority; nil: that is not known.
func (t comparison) differing() *int {
	if last := t.Memory.Compared.Last; last.Revision > 0 {
		return ptr.To(len(last.Differ))
	}
	return nil
}

// isSingle reports whether etcd has one voter, which can be compared with no other.
func (t comparison) isSingle() bool {
	voters := 0
	for _, m := range t.Facts.Etcd.Members {
		if !m.Learner {
			voters++
		}
	}
	return t.Facts.Etcd.Known && voters == 1
}
