package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// externalEtcdCondition returns the condition ExternalEtcdHealthy; none where etcd is not external.
func (t Report) externalEtcdCondition() []metav1.Condition {
	seen := t.Memory.ExternalEtcd
	if seen.Read.IsZero() {
		return nil
	}
	return []metav1.Condition{seen.Ailments().Condition(controlplanev1.ExternalEtcdHealthyCondition)}
}

// forgetConditions takes conditions off an object that nothing is reported of any more.
func (t Report) forgetConditions(object observe.Object) {
	if t.AddonsLeft() {
		conditions.Delete(object, controlplanev1.AddonsHealthyCondition)
	}
	if t.Facts.Etcd.Ours() {
		conditions.Delete(object, controlplanev1.ExternalEtcdHealthyCondition)
	}
	if (comparison{t}).isSingle() {
		conditions.Delete(object, controlplanev1.EtcdDataConsistentCondition)
	}
}
