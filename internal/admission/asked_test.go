package admission

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestRequestsAreRead: a request to replace machines, or about etcd, that cannot be read is refused when it is made. One that is stored is
// not refused again, and no right is asked for: who may patch the spec may roll machines out as well.
func TestRequestsAreRead(t *testing.T) {
	object := func(value string) runtime.RawExtension {
		annotation := controlplanev1.ReplaceAnnotation
		if strings.HasPrefix(value, "etcd:") {
			annotation, value = controlplanev1.EtcdRequestsAnnotation, value[len("etcd:"):]
		}
		raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation: value}}})
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: raw}
	}
	for _, test := range []struct{ before, after, says string }{
		{"", "demo-cp-2=2026-11-23T04:05:06Z", ""},
		{"", "demo-cp-2", `is "demo-cp-2"; names of machines with times are accepted`},
		{"demo-cp-2", "demo-cp-2", ""},
		{"demo-cp-2", "", ""},
		{"demo-cp-2", "demo-cp-2,demo-cp-3", "names of machines with times are accepted"},
		{"", strings.Repeat("a", 5000), "must have at most 4096"},
		{"", "etcd:defragment=2026-11-23T04:05:06Z", ""},
		{"", "etcd:defragment", `is "defragment"; requests with times are accepted`},
		{"etcd:defragment", "etcd:defragment", ""},
		{"etcd:defragment", "etcd:disarm", "requests with times are accepted"},
	} {
		for _, resource := range []string{"kubeadmcontrolplanes", "controlplanes", "etcdclusters"} {
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Name: "demo", OldObject: object(test.before), Object: object(test.after),
				Resource: metav1.GroupVersionResource{Resource: resource},
			}}
			if test.before == "" {
				request.Operation, request.OldObject = admissionv1.Create, runtime.RawExtension{}
			}
			answer, said := (&approvalJudge{}).Handle(t.Context(), request), ""
			if !answer.Allowed {
				said = answer.Result.Message
			}
			if answer.Allowed != (test.says == "") || !strings.Contains(said, test.says) {
				t.Errorf("%s %.40q -> %.40q: allowed %t, %q, want %q", resource, test.before, test.after, answer.Allowed, said, test.says)
			}
		}
	}
}
