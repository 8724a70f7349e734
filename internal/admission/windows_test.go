package admission

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// TestCheckWindows: windows that cannot be read are refused where they are new, and what was stored before stays.
func TestCheckWindows(t *testing.T) {
	spec := field.NewPath("spec")
	given := controlplanev1.ApprovalSpec{Windows: []controlplanev1.MaintenanceWindow{{
		Start: "22:30", Length: metav1.Duration{Duration: 4 * time.Minute}, TimeZone: "Europe/Berlin",
	}}}
	want := `spec.approval.windows[0].length: Invalid value: "4m0s": must be from 10m to 168h`
	has := func(what string, wrong field.ErrorList) {
		t.Helper()
		for _, err := range wrong {
			if err.Error() == want {
				return
			}
		}
		t.Errorf("%s: %v, want %s", what, wrong, want)
	}
	has("a new window", checkWindows(controlplanev1.ApprovalSpec{}, given, spec))
	if wrong := checkWindows(given, given, spec); len(wrong) > 0 {
		t.Errorf("a window that was stored before: %v", wrong)
	}
	var cp controlplanev1alpha1.ControlPlaneSpec
	cp.Approval = given
	has("a ControlPlane", validateSpec(&controlplanev1alpha1.ControlPlaneSpec{}, &cp, names{"demo", "demo"}, spec))
	has("an EtcdCluster", validateEtcd(&etcdclusterv1alpha1.CommonSpec{Approval: given}, spec))
}
