package admission

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// checkWindows returns what is wrong with the windows of an approval, where they differ from those before.
func checkWindows(before, after controlplanev1.ApprovalSpec, spec *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(before.Windows, after.Windows) {
		return nil
	}
	_, wrong := machine.ReadCalendar(after, spec.Child("approval"))
	return wrong
}

// approvalOf returns when changes of a control plane may begin; of nil none.
func approvalOf(kcp *controlplanev1.KubeadmControlPlane) controlplanev1.ApprovalSpec {
	if kcp == nil {
		return controlplanev1.ApprovalSpec{}
	}
	return kcp.Spec.Approval
}
