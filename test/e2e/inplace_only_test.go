//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// inplaceOnly: with the policy Only the machine of a control plane stays, whatever is changed: another template of infrastructure machines
// is noted, a command that ran before kubeadm is refused with its field until it is changed back, and another version is brought to the
// node. Its worker, whose kubelet is a minor version behind then, goes on.
//
//quorate:shows kubernetes in-place older>newer
func inplaceOnly(t *testing.T, e *environment) {
	const name = "inonly"
	e.up(t, name, "--replicas", "1", "--workers", "1", "--kubernetes-version", older, "--in-place=Only")
	before, infrastructure := uids(e.machinesWith(t, clusterLabels(name))), e.infrastructureOf(t, name)
	stay := func(what string) {
		if after := uids(e.machinesWith(t, clusterLabels(name))); !slices.Equal(before, after) {
			t.Errorf("%s: the machines were %v and are %v", what, before, after)
		}
		if after := e.infrastructureOf(t, name); !slices.Equal(infrastructure, after) {
			t.Errorf("%s: the infrastructure machines were %v and are %v", what, infrastructure, after)
		}
	}

	other := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-other",
		Labels: map[string]string{clusterv1.ClusterNameLabel: name}}}
	if err := e.management(t).Create(context.Background(), other); err != nil {
		t.Fatal(err)
	}
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = other.Name
	})
	e.hasNothingToDo(t, name)
	stay("another template")

	const command = "echo another"
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands = append(kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands, command)
	})
	eventually(t, "the field is named", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason != "CannotUpdateInPlace" || !strings.Contains(p.Message, "preKubeadmCommands") {
			return p.Step + " (" + p.Reason + "): " + p.Message
		}
		return ""
	})
	stay("a command")
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands = slices.DeleteFunc(kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands,
			func(c string) bool { return c == command })
	})
	e.hasNothingToDo(t, name)

	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = newer })
	eventually(t, "the control plane is of the newer version", 2*patience, func() string {
		kcp := e.controlPlane(t, name)
		if p := kcp.Status.Plan; kcp.Status.Version != newer || p.Step != "Nothing" {
			return kcp.Status.Version + ", " + p.Step + ": " + p.Message
		}
		return e.healthy(t, name, 2)()
	})
	stay("another version")
	c, _ := e.workload(t, name)
	nodes, err := c.CoreV1().Nodes().List(context.Background(), listAll)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		want := older
		if _, controlPlane := n.Labels["node-role.kubernetes.io/control-plane"]; controlPlane {
			want = newer
		}
		if said := n.Status.NodeInfo.KubeletVersion; said != want {
			t.Errorf("the kubelet of %s is of %s, want %s", n.Name, said, want)
		}
	}
	e.takeDown(t, name)
}
