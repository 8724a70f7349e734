package machine

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capierrors "sigs.k8s.io/cluster-api/api/deprecated/errors"
)

func TestFailure(t *testing.T) {
	mirrored := func(status metav1.ConditionStatus, reason, message string) *clusterv1.Machine {
		return with(func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{{Type: "InfrastructureReady", Status: status, Reason: reason, Message: message}}
		})
	}
	infra := func(kind, status, reason, message string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z"},
		}}}}
	}
	nothing := with(func(*clusterv1.Machine) {})
	reason, message := capierrors.CreateMachineError, "no such image"
	tests := []struct {
		name  string
		m     *clusterv1.Machine
		infra *unstructured.Unstructured
		want  string
	}{
		{"new", nothing, nil, ""},
		{"waiting", mirrored("False", "WaitingForBootstrapData", "no data yet"), nil, ""},
		{"running", mirrored("True", "Ready", ""), nil, ""},
		{"failed once, and succeeded", mirrored("True", "BootstrapFailed", "old"), nil, ""},
		{"a hiccup of the provider", mirrored("False", "InstanceRefreshFailed", "throttled"), nil, ""},
		{"failed", mirrored("False", "BootstrapFailed", "kubeadm join: timeout"), nil, "kubeadm join: timeout"},
		{"failed without a word", mirrored("False", "BootstrapFailed", ""), nil, "BootstrapFailed"},
		{"not supported", mirrored("False", "BootstrapUnsupported", "ntp"), nil, "ntp"},
		{"the infrastructure knows it first", nothing, infra("BootstrapSucceeded", "False", "BootstrapFailed", "kubeadm init: port in use"),
			"kubeadm init: port in use"},
		{"a cause that is known", nothing, infra("BootstrapSucceeded", "False", "TokenExpired", "the token had expired"),
			"the token had expired"},
		{"a word of another condition", nothing, infra("Ready", "False", "TokenExpired", "of the cloud"), ""},
		{"another provider's trouble may pass", nothing, infra("Ready", "False", "InstanceProvisionFailed", "quota"), ""},
		{"another provider's words for it", nothing, infra("Ready", "False", "BootstrapScriptFailed", "kubeadm join: timeout"),
			"kubeadm join: timeout"},
		{"what may be tried again", nothing, infra("BootstrapExecSucceeded", "False", "BootstrapFailed", "Repeating bootstrap"), ""},
		{"the infrastructure still works", nothing, infra("BootstrapSucceeded", "False", "BootstrapRunning", "kubeadm init"), ""},
		{"of a condition that has nothing to do with it", nothing, infra("Paused", "False", "PauseFailed", "x"), ""},
		{"the old way, message", with(func(m *clusterv1.Machine) {
			m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{FailureReason: &reason,
				FailureMessage: &message}}
		}), nil, "no such image"},
		{"the old way, reason", with(func(m *clusterv1.Machine) {
			m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{FailureReason: &reason}}
		}), nil, "CreateError"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Failure(test.m, test.infra, false); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	terminal := tests[len(tests)-1].m
	if got := Failure(terminal, nil, true); got != "" {
		t.Errorf("a machine that has joined did not fail to: %q", got)
	}
	late := infra("BootstrapSucceeded", "False", "BootstrapFailed", "kubeadm join: not promoted")
	if got := Failure(nothing, late, true); got != "kubeadm join: not promoted" {
		t.Errorf("its Node came before its bootstrap failed: %q", got)
	}
}

func TestBootstrapEnded(t *testing.T) {
	infra := func(kind, status, reason string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": kind, "status": status, "reason": reason, "message": "x", "lastTransitionTime": "2026-01-02T03:04:05Z"},
		}}}}
	}
	tests := []struct {
		name  string
		infra *unstructured.Unstructured
		want  bool
	}{
		{"not known", nil, false},
		{"says nothing", &unstructured.Unstructured{Object: map[string]any{}}, false},
		{"runs", infra("BootstrapSucceeded", "False", "BootstrapRunning"), false},
		{"succeeded", infra("BootstrapSucceeded", "True", "BootstrapSucceeded"), false},
		{"failed", infra("BootstrapSucceeded", "False", "BootstrapFailed"), true},
		{"for a known cause", infra("BootstrapSucceeded", "False", "CgroupDriverMismatch"), true},
		{"cannot be carried out", infra("BootstrapSucceeded", "False", "BootstrapDataUnsupported"), true},
		{"only trouble of the infrastructure", infra("Ready", "False", "BootstrapFailed"), false},
		{"may be repeated", infra("BootstrapExecSucceeded", "False", "BootstrapFailed"), false},
	}
	for _, test := range tests {
		if got := BootstrapEnded(test.infra); got != test.want {
			t.Errorf("%s: ended %t, want %t", test.name, got, test.want)
		}
	}
}
