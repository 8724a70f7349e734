//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/steps"
)

// inplaceFallback: with the policy Preferred an argument is changed in place, on a node that is drained before as the spec says. A command
// that runs before kubeadm cannot be: the plan says so, the machine is replaced, and the reason names the field. So is the worker for
// another bootstrap template.
func inplaceFallback(t *testing.T, e *environment) {
	const name = "infall"
	e.up(t, name, "--replicas", "1", "--workers", "1", "--in-place=Preferred")
	before := uids(e.machinesWith(t, clusterLabels(name)))
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.InPlace.Drain = controlplanev1.InPlaceDrainSpec{Policy: controlplanev1.InPlaceDrainBestEffort, TimeoutSeconds: ptr.To[int32](30)}
	})
	e.reargued(t, name, nil, []bootstrapv1.Arg{{Name: "max-pods", Value: ptr.To("77")}})
	if after := uids(e.machinesWith(t, clusterLabels(name))); !slices.Equal(before, after) {
		t.Errorf("the machines were %v and are %v: an argument is changed in place", before, after)
	}
	e.wasDrained(t, name)

	const command = "echo another"
	withCommand := func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands = append(kcp.Spec.KubeadmConfigSpec.PreKubeadmCommands, command)
	}
	kcp := e.controlPlane(t, name)
	withCommand(kcp)
	e.plansReplacement(t, name, e.plans(t, 2, name, "-f", e.manifest(t, kcp)))
	seen := len(e.history(t, name))
	e.change(t, name, withCommand)
	took := eventually(t, "the control plane's machine is replaced", 2*patience, func() string {
		now := uids(e.machineObjects(t, name))
		if kcp := e.controlPlane(t, name); len(now) != 1 || slices.Contains(before, now[0]) || kcp.Status.Plan.Step != string(plan.Nothing) {
			return fmt.Sprintf("%v, %s: %s", now, kcp.Status.Plan.Reason, kcp.Status.Plan.Message)
		}
		return ""
	})
	t.Logf("FIGURE a change that cannot be made in place, policy Preferred: the machine replaced in %.1f s", took.Seconds())
	reasons := ""
	named := count(e.history(t, name)[seen:], func(h history.Entry) bool {
		reasons += h.Message + "\n"
		return h.Verb == plan.Create && strings.Contains(h.Message, "cannot all be changed in place: ") &&
			strings.Contains(h.Message, "preKubeadmCommands")
	})
	if named == 0 {
		t.Errorf("no reason names the field that cannot be changed in place:\n%s", reasons)
	}
	e.replacesWorker(t, name)
	eventually(t, "all nodes healthy", patience, e.healthy(t, name, 2))
	e.nothingLeft(t, name)
	e.takeDown(t, name)
}

// wasDrained expects that the only upgrade of the control plane drained its node, or said why not, and that no node is cordoned.
func (e *environment) wasDrained(t *testing.T, name string) {
	t.Helper()
	all := e.nodeUpgrades(t, name)
	if len(all) != 1 || all[0].Spec.Drain.Policy != upgradev1.DrainBestEffort || ptr.Deref(all[0].Spec.Drain.TimeoutSeconds, 0) != 30 {
		t.Fatalf("%+v", all)
	}
	drained := slices.Contains(all[0].Status.Steps, string(steps.Drain))
	for _, c := range all[0].Status.Conditions {
		if c.Type == string(steps.Drain) {
			t.Logf("the node of %s, drained %t: %s: %s", all[0].Spec.Machine.Name, drained, c.Reason, c.Message)
		}
	}
	if !drained {
		t.Error("the node was not drained, and another node has room")
	}
	c, _ := e.workload(t, name)
	nodes, err := c.CoreV1().Nodes().List(context.Background(), listAll)
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.Unschedulable {
			t.Errorf("node %s is still cordoned", nodes.Items[i].Name)
		}
	}
}

// plansReplacement expects a plan that replaces the control plane's machine and names the field that forces it.
func (e *environment) plansReplacement(t *testing.T, name string, plans []report.Plan) {
	t.Helper()
	for _, p := range plans {
		for _, m := range p.Machines {
			if m.Fate == forecast.Replace && strings.Contains(m.Why, "preKubeadmCommands") {
				return
			}
		}
	}
	t.Errorf("the plan of cluster %s replaces no machine because of preKubeadmCommands: %+v", name, plans)
}

// replacesWorker gives the workers another bootstrap template, and expects that the worker is replaced with a reason that says why.
func (e *environment) replacesWorker(t *testing.T, name string) {
	t.Helper()
	ctx, c := context.Background(), e.management(t)
	var all clusterv1.MachineDeploymentList
	if err := c.List(ctx, &all, client.InNamespace("default"), clusterLabels(name)); err != nil || len(all.Items) != 1 {
		t.Fatalf("%d MachineDeployments, %v", len(all.Items), err)
	}
	md := &all.Items[0]
	workers := client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: md.Name}
	before := uids(e.machinesWith(t, workers))
	was := &bootstrapv1.KubeadmConfigTemplate{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: md.Spec.Template.Spec.Bootstrap.ConfigRef.Name}, was); err != nil {
		t.Fatal(err)
	}
	other := &bootstrapv1.KubeadmConfigTemplate{Spec: was.Spec}
	other.Namespace, other.Name, other.Labels = "default", was.Name+"-other", was.Labels
	other.Spec.Template.Spec.PreKubeadmCommands = append(other.Spec.Template.Spec.PreKubeadmCommands, "echo another")
	if err := c.Create(ctx, other); err != nil {
		t.Fatal(err)
	}
	changed := md.DeepCopy()
	changed.Spec.Template.Spec.Bootstrap.ConfigRef.Name = other.Name
	if err := c.Patch(ctx, changed, client.MergeFrom(md)); err != nil {
		t.Fatal(err)
	}
	took := eventually(t, "the worker is replaced", 2*patience, func() string {
		now := uids(e.machinesWith(t, workers))
		if len(now) != 1 || slices.Equal(now, before) {
			return fmt.Sprintf("%v", now)
		}
		return e.healthy(t, name, 2)()
	})
	t.Logf("FIGURE a worker whose bootstrap template changed, policy Preferred: replaced in %.1f s", took.Seconds())
	log, err := os.ReadFile(filepath.Join(e.state, "daemon.log"))
	if err != nil {
		t.Fatal(err)
	}
	machine := strings.Fields(before[0])[0]
	if !strings.Contains(string(log), machine+" cannot be changed in place: ") {
		t.Errorf("the log does not say why %s was replaced", machine)
	}
}
