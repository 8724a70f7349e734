//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// slowestStart bounds how long a ControlPlane's 0 -> 3 takes, in times of a KubeadmControlPlane's.
const slowestStart = 1.3

// machinesScale: a ControlPlane's 1 -> 3 -> 5 -> 3 through its scale subresource, the API answering all the time, and 4 refused.
func machinesScale(t *testing.T, e *environment) {
	const name = "victor"
	e.startMachines(t, name, 1)
	e.settled(t, name, 1)
	e.observed(t, name, "Quorate", func() {
		for _, replicas := range []int{3, 5, 3} {
			start := time.Now()
			if err := e.scaleTo(t, name, replicas); err != nil {
				t.Fatal(err)
			}
			e.settled(t, name, replicas)
			t.Logf("FIGURE a ControlPlane scaled to %d machines, all healthy: %.1f s", replicas, time.Since(start).Seconds())
		}
	})
	if err := e.scaleTo(t, name, 4); err == nil || !strings.Contains(err.Error(), "odd number of machines") {
		t.Errorf("scaling to 4 gave %v, want an error that says which numbers are accepted", err)
	}
	if got := *e.machinesOf(t, name).Spec.Replicas; got != 3 {
		t.Errorf("after scaling to 4 was refused, spec.replicas is %d", got)
	}
	e.takeDown(t, name)
	e.compareStarts(t, 2)
}

// compareStarts measures, in turns and so many times each, how long both kinds of control planes take from nothing to three machines.
func (e *environment) compareStarts(t *testing.T, times int) {
	t.Helper()
	ratio := e.inTurns(t, times, variant{what: "a KubeadmControlPlane", flags: []string{"--kind", "KubeadmControlPlane"}},
		variant{what: "a ControlPlane", flags: []string{"--kind", "ControlPlane"}}, nil)
	if ratio > slowestStart {
		t.Errorf("a ControlPlane took %.2f times as long as a KubeadmControlPlane, want at most %.1f", ratio, slowestStart)
	}
}

// variant is a way to make a cluster: what it is called, and what is asked of up.
type variant struct {
	what  string
	flags []string
	// making is how long the infrastructure takes to make each machine.
	making time.Duration
}

// begin begins to make a cluster of three machines.
func (v variant) begin(t *testing.T, e *environment, name string) {
	t.Helper()
	args := []string{"--network", e.network, "--wait=false"}
	asked := append([]string{"--name", name, "--replicas", "3"}, v.flags...)
	if v.making == 0 {
		e.quorate(t, append(append([]string{"up"}, args...), asked...)...)
		return
	}
	text := e.quorate(t, append([]string{"up", "--dry-run", "-o", "yaml"}, asked...)...)
	var manifests []string
	for _, document := range strings.Split(text, "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object["kind"] == "KubeadmControlPlane" {
			if err := unstructured.SetNestedField(object, v.making.String(), "spec", "machineTemplate", "metadata", "annotations",
				infrav1.ProvisioningDelayAnnotation); err != nil {
				t.Fatal(err)
			}
		}
		changed, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, string(changed))
	}
	file := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte(strings.Join(manifests, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	e.quorate(t, append(append([]string{"up"}, args...), "-f", file)...)
}

// inTurns measures, in turns and so many times each, how long two variants of a cluster take from nothing to three machines, and
// returns how many times as long as the first the second takes. look, if any, is called with the name of each cluster that is up.
func (e *environment) inTurns(t *testing.T, times int, first, second variant, look func(v variant, name string)) float64 {
	t.Helper()
	took := map[string]float64{}
	for n := range times {
		for k, v := range []variant{first, second} {
			name := fmt.Sprintf("start-%d-%d", n+1, k+1)
			start := time.Now()
			v.begin(t, e, name)
			eventually(t, "three voters of "+v.what, patience, e.quorumOf(t, name, 3))
			eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
			t.Logf("%s, 0 -> 3: %.1f s", v.what, time.Since(start).Seconds())
			took[v.what] += time.Since(start).Seconds() / float64(times)
			if look != nil {
				look(v, name)
			}
			e.takeDown(t, name)
		}
	}
	ratio := took[second.what] / took[first.what]
	t.Logf("FIGURE 0 -> 3, %d times each: %s %.1f s, %s %.1f s on average, ratio %.2f", times, second.what, took[second.what], first.what,
		took[first.what], ratio)
	return ratio
}

// startMachines begins to make a cluster whose control plane is a ControlPlane.
func (e *environment) startMachines(t *testing.T, name string, replicas int) {
	t.Helper()
	e.quorate(t, "up", "--network", e.network, "--kind", "ControlPlane", "--name", name, "--replicas", strconv.Itoa(replicas), "--wait=false")
}

// machinesOf reads the cluster's ControlPlane.
func (e *environment) machinesOf(t *testing.T, name string) *controlplanev1alpha1.ControlPlane {
	t.Helper()
	var all controlplanev1alpha1.ControlPlaneList
	if err := e.management(t).List(context.Background(), &all, client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != 1 {
		t.Fatalf("%d ControlPlanes of cluster %s, want 1", len(all.Items), name)
	}
	return &all.Items[0]
}

// settled waits until a ControlPlane has nothing to do, its status counts so many machines, all of them ready and up to date,
// etcd on each lists exactly these as voters, and all Nodes and pods are healthy.
func (e *environment) settled(t *testing.T, name string, replicas int) {
	t.Helper()
	e.rests(t, name, replicas)
	eventually(t, fmt.Sprintf("%d voters", replicas), patience, e.quorumOf(t, name, replicas))
}

// rests waits until a ControlPlane of so many machines, wherever its etcd runs, has nothing to do and its Nodes are healthy.
func (e *environment) rests(t *testing.T, name string, replicas int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d machines, nothing to do", replicas), patience, func() string {
		cp := e.machinesOf(t, name)
		s := cp.Status
		counts := []int32{ptr.Deref(s.Replicas, 0), ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.AvailableReplicas, 0),
			ptr.Deref(s.UpdatedReplicas, 0)}
		for _, n := range counts {
			if int(n) != replicas || s.ObservedGeneration != cp.Generation || s.Plan.Step != "Nothing" {
				return fmt.Sprintf("%d machines, %d ready, %d available, %d updated; %s: %s", counts[0], counts[1], counts[2], counts[3], s.Plan.Step,
					s.Plan.Message)
			}
		}
		return ""
	})
	eventually(t, fmt.Sprintf("%d healthy nodes", replicas), patience, e.healthy(t, name, replicas))
	e.recordAtRest(t, name)
}

// scaleTo asks for so many machines through the scale subresource, as `kubectl scale` and autoscalers do.
func (e *environment) scaleTo(t *testing.T, name string, replicas int) error {
	t.Helper()
	object, scale := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	object.SetGroupVersionKind(controlplanev1alpha1.GroupVersion.WithKind("ControlPlane"))
	object.SetNamespace("default")
	object.SetName(e.machinesOf(t, name).Name)
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)))
	return e.management(t).SubResource("scale").Patch(context.Background(), object, patch, client.WithSubResourceBody(scale))
}

// alter lets a user change a ControlPlane.
func (e *environment) alter(t *testing.T, name string, f func(*controlplanev1alpha1.ControlPlane)) {
	t.Helper()
	cp := e.machinesOf(t, name)
	before := cp.DeepCopy()
	f(cp)
	if err := e.management(t).Patch(context.Background(), cp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// waitsFor waits until a ControlPlane, for its spec of today, says in certain words what it waits for.
func (e *environment) waitsFor(t *testing.T, name, words string) {
	t.Helper()
	var said string
	eventually(t, "it waits: "+words, patience, func() string {
		cp := e.machinesOf(t, name)
		p := cp.Status.Plan
		said = fmt.Sprintf("%s (%s): %s", p.Step, p.Reason, p.Message)
		if p.Step != "Wait" || cp.Status.ObservedGeneration != cp.Generation || !strings.Contains(p.Message, words) {
			return said
		}
		return ""
	})
	t.Log(said)
}
