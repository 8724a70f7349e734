package admission

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
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

// TestRequestsAreRecorded: who asked for something, and when, is written beside it, whatever the request says of that. Who changes
// something else, or takes a part away, asked for nothing, and the note goes with what was asked for.
func TestRequestsAreRecorded(t *testing.T) {
	const (
		one, both     = "demo-cp-1=2026-11-23T04:05:06Z", "demo-cp-1=2026-11-23T04:05:06Z,demo-cp-2=2026-11-23T04:05:06Z"
		told, earlier = "2026-11-23T04:05:06Z jane", "2026-11-22T00:00:00Z joe"
	)
	recorder := &approvalRecorder{now: func() time.Time { return time.Date(2026, 11, 23, 4, 5, 6, 0, time.UTC) }}
	for what, test := range map[string]struct{ before, by, after, says, want string }{
		"new":                        {"", "", one, "", told},
		"new, and forged":            {"", "", one, "2026-01-01T00:00:00Z somebody", told},
		"one more":                   {one, earlier, both, earlier, told},
		"something else":             {one, earlier, one, earlier, earlier},
		"something else, and forged": {one, earlier, one, "2026-01-01T00:00:00Z somebody", earlier},
		"something else, and erased": {one, earlier, one, "", earlier},
		"a part is taken away":       {both, earlier, one, earlier, earlier},
		"all is taken away":          {one, earlier, "", earlier, ""},
		"of a time without notes":    {one, "", one, "", ""},
		"a note of nothing":          {"", "", "", earlier, ""},
	} {
		for _, of := range requests {
			object := func(asks, by string) map[string]any {
				all := map[string]any{"example.org/other": "x"}
				if asks != "" {
					all[of.asks] = asks
				}
				if by != "" {
					all[of.by] = by
				}
				return map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"annotations": all}}
			}
			raw := func(o map[string]any) runtime.RawExtension {
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				return runtime.RawExtension{Raw: text}
			}
			request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Name: "demo",
				OldObject: raw(object(test.before, test.by)), Object: raw(object(test.after, test.says)),
				UserInfo: authenticationv1.UserInfo{Username: "jane"},
			}}
			answer := recorder.Handle(t.Context(), request)
			got := object(test.after, test.says)["metadata"].(map[string]any)["annotations"].(map[string]any)
			for _, change := range answer.Patches {
				apply(t, got, change.Operation, change.Path, change.Value)
			}
			if by, _ := got[of.by].(string); !answer.Allowed || by != test.want || got["example.org/other"] != "x" {
				t.Errorf("%s: %s is %q, want %q (%+v)", what, of.by, by, test.want, answer.Patches)
			}
		}
	}
}

// apply makes one change of annotations, as a JSON patch says it.
func apply(t *testing.T, to map[string]any, operation, path string, value any) {
	t.Helper()
	name, is := strings.CutPrefix(path, "/metadata/annotations/")
	name = strings.ReplaceAll(name, "~1", "/")
	switch {
	case is && operation == "remove":
		delete(to, name)
	case is && (operation == "add" || operation == "replace"):
		to[name] = value
	default:
		t.Errorf("another change: %s %s", operation, path)
	}
}
