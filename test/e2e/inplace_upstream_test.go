//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	upstreamv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// inplaceUpstream: upstream's controllers upgrade three machines of a control plane and then a worker in place by Quorate's Runtime
// Extension, and Quorate, which gets the control plane back, finds nothing to do.
//
//quorate:shows kubernetes in-place older>newer
func inplaceUpstream(t *testing.T, e *environment) {
	const name, labels = "inup", "kind: KubeadmControlPlane\nmetadata:\n  labels:\n"
	u := buildUpstream(t, e)
	t.Setenv("QUORATE_RUNTIME_EXTENSIONS", "true")
	manifests := e.quorate(t, "up", "--dry-run", "--name", name, "--kubernetes-version", older, "--workers", "1")
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f",
		writeManifests(t, name, manifests, labels, labels+"    "+clusterv1.WatchLabel+": upstream\n"))
	e.asksForUpdates(t, name)
	u.start(t, "--feature-gates=RuntimeSDK=true,InPlaceUpdates=true")
	eventually(t, "three voters by upstream", patience, u.doing(t, e.quorumOf(t, name, 3)))
	eventually(t, "four healthy nodes", patience, e.healthy(t, name, 4))
	made, all, infrastructure := e.identities(t, name), uids(e.machinesWith(t, clusterLabels(name))), e.infrastructureOf(t, name)

	ctx, stop := context.WithCancel(context.Background())
	outage, times := e.probe(t, ctx, name), e.watchNodes(t, ctx, name)
	e.written(t, name, func() {
		start := time.Now()
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = newer })
		eventually(t, "three machines updated in place", patience, u.doing(t, e.updatedTo(t, machine.Labels(name), newer)))
		t.Logf("FIGURE upstream's controller with Quorate's extension, three machines %s -> %s in place: %.1f s", older, newer,
			time.Since(start).Seconds())
		// A worker without a registry gets the images of the new version, kube-proxy's too, when its own upgrade begins.
		start = time.Now()
		e.changeWorkers(t, name, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = newer })
		eventually(t, "a worker updated in place", patience, u.doing(t, e.updatedTo(t, clusterLabels(name), newer)))
		eventually(t, "four nodes Ready", patience, e.nodesReady(t, name, newer))
		t.Logf("FIGURE upstream's MachineDeployment with Quorate's extension, a worker %s -> %s in place: %.1f s", older, newer,
			time.Since(start).Seconds())
	})
	stop()
	for _, line := range <-times {
		t.Log(line)
	}
	t.Logf("FIGURE upstream's controller with Quorate's extension: API not answering: %s", <-outage)
	e.sameMachines(t, name, made)
	if now := uids(e.machinesWith(t, clusterLabels(name))); !slices.Equal(now, all) {
		t.Errorf("machines are %v, and were %v", now, all)
	}
	if now := e.infrastructureOf(t, name); !slices.Equal(now, infrastructure) {
		t.Errorf("infrastructure machines are %v, and were %v", now, infrastructure)
	}
	e.upgradedNodes(t, name)
	e.nothingLeft(t, name)

	u.stop(t)
	e.keptBy(t, name, "")
	e.managesMachines(t, name, 33)
	e.hasNothingToDo(t, name)
	e.sameMachines(t, name, made)
	e.isVersion(t, name, newer)
	e.takeDown(t, name)
}

// asksForUpdates has upstream's controllers update machines in place: by the annotation, and by a strategy with which they would else
// delete a machine first.
func (e *environment) asksForUpdates(t *testing.T, name string) {
	t.Helper()
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Rollout.Strategy = upstreamv1.KubeadmControlPlaneRolloutStrategy{
			Type:          upstreamv1.RollingUpdateStrategyType,
			RollingUpdate: upstreamv1.KubeadmControlPlaneRolloutStrategyRollingUpdate{MaxSurge: ptr.To(intstr.FromInt32(0))},
		}
		if kcp.Spec.MachineTemplate.ObjectMeta.Annotations == nil {
			kcp.Spec.MachineTemplate.ObjectMeta.Annotations = map[string]string{}
		}
		kcp.Spec.MachineTemplate.ObjectMeta.Annotations[upgradev1.PolicyAnnotation] = string(controlplanev1.InPlaceOnly)
	})
	e.changeWorkers(t, name, func(md *clusterv1.MachineDeployment) {
		md.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{
			Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
			RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
				MaxSurge: ptr.To(intstr.FromInt32(0)), MaxUnavailable: ptr.To(intstr.FromInt32(1)),
			},
		}
		metav1.SetMetaDataAnnotation(&md.ObjectMeta, upgradev1.PolicyAnnotation, string(controlplanev1.InPlaceOnly))
	})
}

// upgradedNodes expects that every node was upgraded, and one of them as the first.
func (e *environment) upgradedNodes(t *testing.T, name string) {
	t.Helper()
	first := 0
	all := e.nodeUpgrades(t, name)
	for _, n := range all {
		if !ptr.Deref(n.Status.Completed, false) || n.Spec.KubernetesVersion != newer {
			t.Errorf("NodeUpgrade %s to %s: %+v", n.Name, n.Spec.KubernetesVersion, n.Status)
		}
		if ptr.Deref(n.Spec.FirstNodeToBeUpgraded, false) {
			first++
		}
	}
	if len(all) != 4 || first != 1 {
		t.Errorf("%d nodes were upgraded, %d as the first", len(all), first)
	}
}

// changeWorkers changes the only MachineDeployment of a cluster.
func (e *environment) changeWorkers(t *testing.T, name string, f func(*clusterv1.MachineDeployment)) {
	t.Helper()
	var all clusterv1.MachineDeploymentList
	if err := e.management(t).List(context.Background(), &all, client.InNamespace("default"), clusterLabels(name)); err != nil ||
		len(all.Items) != 1 {
		t.Fatalf("%d MachineDeployments, %v", len(all.Items), err)
	}
	before := all.Items[0].DeepCopy()
	f(&all.Items[0])
	if err := e.management(t).Patch(context.Background(), &all.Items[0], client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// updatedTo says which of the machines with labels does not say a version, or is not reported as updated.
func (e *environment) updatedTo(t *testing.T, labels client.MatchingLabels, version string) func() string {
	return func() string {
		var missing []string
		for _, m := range e.machinesWith(t, labels) {
			_, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]
			if m.Spec.Version != version || updating || m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != version {
				missing = append(missing, fmt.Sprintf("%s says %s, updating %t", m.Name, m.Spec.Version, updating))
			}
		}
		return strings.Join(missing, ", ")
	}
}

// nodesReady says which machine's node is not Ready at a version.
func (e *environment) nodesReady(t *testing.T, name, version string) func() string {
	c, _ := e.workload(t, name)
	return func() string {
		for _, m := range e.machinesWith(t, clusterLabels(name)) {
			if !readyAt(context.Background(), c, m.Status.NodeRef.Name, version) {
				return m.Name + " is not"
			}
		}
		return ""
	}
}

// infrastructureOf are the names and UIDs of a cluster's LocalMachines, sorted.
func (e *environment) infrastructureOf(t *testing.T, name string) []string {
	t.Helper()
	var all infrav1.LocalMachineList
	if err := e.management(t).List(context.Background(), &all, client.InNamespace("default"), clusterLabels(name)); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range all.Items {
		out = append(out, all.Items[i].Name+" "+string(all.Items[i].UID))
	}
	slices.Sort(out)
	return out
}
