//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// inplacePatches: a machine whose manifests a user patches by kubeadm has the patches in those of the newer version too.
//
//quorate:shows kubernetes in-place older>newer
func inplacePatches(t *testing.T, e *environment) {
	const name, patched, manifest = "inpatch", "example.com/patched-by", "/etc/kubernetes/manifests/kube-scheduler.yaml"
	file := writeManifests(t, name, e.quorate(t, "up", "--dry-run", "--name", name, "--replicas", "1", "--kubernetes-version", older),
		"    files:\n", "    files:\n    - content: |\n        metadata: {annotations: {"+patched+
			": me}}\n      owner: root:root\n      path: /etc/quorate/patches/kube-scheduler0+merge.yaml\n      permissions: \"0644\"\n")
	e.quorate(t, "up", "--network", e.network, "--timeout", "10m", "-f", file)
	eventually(t, "the node is healthy", patience, e.healthy(t, name, 1))
	before, machine := uids(e.machineObjects(t, name)), e.machines(t, name)[0]
	if text := e.quorate(t, "shell", machine, "--", "cat", manifest); !strings.Contains(text, patched) {
		t.Fatalf("kubeadm did not patch the scheduler's manifest:\n%s", text)
	}
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Version, kcp.Spec.InPlace.Policy = newer, controlplanev1.InPlaceOnly
	})
	eventually(t, "the machine says the newer version", 2*patience, func() string {
		if m := e.machineObjects(t, name)[0]; m.Spec.Version != newer {
			return m.Spec.Version + ": " + e.controlPlane(t, name).Status.Plan.Message
		}
		return ""
	})
	eventually(t, "the node is healthy", patience, e.healthy(t, name, 1))
	if text := e.quorate(t, "shell", machine, "--", "cat", manifest); !strings.Contains(text, patched) ||
		!strings.Contains(text, "kube-scheduler:"+newer) {
		t.Errorf("the scheduler's manifest of %s is\n%s", newer, text)
	}
	if after := uids(e.machineObjects(t, name)); !slices.Equal(before, after) {
		t.Errorf("the machines were %v and are %v: upgraded in place they stay", before, after)
	}
	e.takeDown(t, name)
}
