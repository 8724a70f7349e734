package machine

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/plan"
)

// hostile is what a container, a kubelet or a provider may say.
const hostile = "cannot join: --token abcdef.0123456789abcdef \x1b]0;pwned\x07\x1b[31mred\u202e"

// isClean reports whether nothing of hostile is left that must not be shown, and its words are.
func isClean(text string) bool {
	return !strings.Contains(text, "0123456789abcdef") && !strings.ContainsAny(text, "\x1b\x07\u202e") &&
		strings.Contains(text, "cannot join: --token <secret>")
}

// fill puts text into each string below v, and an element into each empty list of structs.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if v.IsNil() && v.CanSet() && v.Type().Elem().PkgPath() == "k8s.io/api/core/v1" {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			fill(v.Elem(), text)
		}
	case reflect.Slice:
		if v.Len() == 0 && v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text)
			}
		}
	}
}

// TestForeignPods: whatever a managed cluster writes into any field of a pod's status, what is told of its component is clean.
func TestForeignPods(t *testing.T) {
	filled := func(change func(*corev1.PodStatus)) corev1.Pod {
		p := pod("etcd-n", nil)
		p.Status = corev1.PodStatus{}
		fill(reflect.ValueOf(&p.Status).Elem(), hostile)
		ended := &p.Status.ContainerStatuses[0]
		ended.State.Terminated.ExitCode, ended.LastTerminationState.Terminated.ExitCode = 1, 2
		change(&p.Status)
		return p
	}
	for name, change := range map[string]func(*corev1.PodStatus){
		"containers":     func(*corev1.PodStatus) {},
		"the pod itself": func(s *corev1.PodStatus) { s.InitContainerStatuses, s.ContainerStatuses = nil, nil },
		"its condition": func(s *corev1.PodStatus) {
			s.InitContainerStatuses, s.ContainerStatuses, s.Reason, s.Message = nil, nil, "", ""
			s.Conditions[0].Type = corev1.PodReady
		},
		"silent": func(s *corev1.PodStatus) {
			s.Conditions[0].Type, s.Conditions[0].Status = corev1.PodReady, corev1.ConditionUnknown
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := filled(change)
			if c := component("etcd", &p); c.Health == plan.Healthy || !isClean(c.Why) {
				t.Errorf("%s because %q", c.Health, c.Why)
			}
		})
	}
}

// TestForeignConditions: what providers say of a machine is told clean.
func TestForeignConditions(t *testing.T) {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1.UpdateInProgressAnnotation: ""}}}
	for _, kind := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition,
		clusterv1.MachineInfrastructureReadyCondition} {
		m.Status.Conditions = append(
			m.Status.Conditions,
			metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "BootstrapFailed", Message: hostile},
		)
	}
	m.Status.Conditions = append(
		m.Status.Conditions,
		metav1.Condition{Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue, Message: hostile},
	)
	infra := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": bootstrapSucceeded, "status": "False", "reason": "BootstrapFailed", "message": hostile},
	}}}}
	old := &clusterv1.Machine{}
	old.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{
		V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{FailureMessage: ptr.To(hostile)},
	}
	for name, text := range map[string]string{
		"marked": Marked(m), "updating": Updating(m), "its own failure": Failure(m, nil, true), "infrastructure": Failure(m, infra, true),
		"v1beta1": Failure(old, nil, false),
	} {
		if !isClean(text) {
			t.Errorf("%s: %q", name, text)
		}
	}
}
