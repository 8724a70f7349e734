package provider

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// Whoever may read a LocalMachine learns which command failed and why, and nothing that lets him in.
func TestConditionsHoldNoSecrets(t *testing.T) {
	m := &clusterv1.Machine{}
	m.Spec.Bootstrap.DataSecretName = ptr.To("x")
	hidden := []string{"s3cr3t", "0123456789abcdef", "deadbeef", "MHcCAQEE", "\x1b", "aGlkZGVu"}
	output := "+ kubeadm join 172.30.0.10:6443 --token abcdef.0123456789abcdef --certificate-key deadbeefdeadbeef\n" +
		"users: [{user: {client-key-data: aGlkZGVu}}]\n\x1b[2J-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04f"
	command := "curl -fsS -H 'Authorization: Bearer s3cr3t' https://x/install | sh"
	for _, b := range []sandbox.Bootstrap{
		{Phase: sandbox.BootstrapFailed, Command: command, Output: output},
		{Phase: sandbox.BootstrapFailed, Output: output},
		{Phase: sandbox.BootstrapFailed, Command: command, Output: output, Unsupported: "units"},
		{Phase: sandbox.BootstrapRunning, Command: command},
		{Phase: sandbox.BootstrapFailed, Command: strings.Repeat("x", longestCommand-20) + " --token abcdef.0123456789abcdef"},
	} {
		lm := &infrav1.LocalMachine{}
		mark(lm, infrav1.BootstrapSucceededCondition, "", bootstrapProblem(&sandbox.Status{Bootstrap: b}, owner{machine: m},
			infrav1.BootstrapTokenStatus{}))
		mark(lm, infrav1.SandboxReadyCondition, "", sandboxProblem(&sandbox.Status{State: sandbox.Dead, Problem: output}))
		mark(lm, clusterv1.ReadyCondition, "", firstProblem(lm))
		for _, c := range lm.GetConditions() {
			for _, secret := range hidden {
				if strings.Contains(c.Message, secret) {
					t.Errorf("%s shows %q: %s", c.Type, secret, c.Message)
				}
			}
		}
		if got := conditions.GetMessage(lm, infrav1.BootstrapSucceededCondition); strings.HasPrefix(b.Command, "curl") && b.Unsupported == "" &&
			!strings.Contains(got, "https://x/install") {
			t.Errorf("it does not say which command: %s", got)
		}
	}
}
