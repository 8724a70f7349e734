//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// What the machines of machinesVertical may use of their host, of which four must be allowed at once.
var (
	smaller = machineSize{cpu: "450m", memory: "1Gi"}
	larger  = machineSize{cpu: "500m", memory: "1536Mi"}
)

// resizingGap bounds how long no write is acknowledged while machines are replaced by larger ones.
const resizingGap = 2 * time.Second

// machinesVertical: another template with more CPU and memory replaces three machines one by one.
func machinesVertical(t *testing.T, e *environment) {
	const name = "whiskey"
	text := e.quorate(t, "up", "--dry-run", "--kind", "ControlPlane", "--name", name, "--replicas", "3")
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", writeManifests(t, name, text,
		"  template:\n    spec: {}\n", fmt.Sprintf("  template:\n    spec:\n      resources: {cpu: %s, memory: %s}\n", smaller.cpu,
			smaller.memory)))
	e.settled(t, name, 3)
	e.limitedTo(t, name, smaller)
	before := e.machines(t, name)

	ctx, stop := context.WithCancel(context.Background())
	seen := e.countMachines(t, ctx, clusterLabels(name))
	var gap time.Duration
	e.asPlanned(t, name, "ControlPlane", 2, []string{"-f", e.resized(t, name, larger)}, func() {
		gap = e.observed(t, name, "Quorate", func() {
			start := time.Now()
			e.resize(t, name, larger)
			eventually(t, "other machines", 2*patience, func() string {
				for _, m := range e.machines(t, name) {
					if slices.Contains(before, m) {
						return m + " is there: " + e.machinesOf(t, name).Status.Plan.Message
					}
				}
				return ""
			})
			e.settled(t, name, 3)
			t.Logf("FIGURE three machines replaced by larger ones: %.1f s", time.Since(start).Seconds())
		})
	})
	stop()
	if got := <-seen; got != (counted{least: 3, most: 4}) {
		t.Errorf("there were %d to %d machines, want 3 to 4", got.least, got.most)
	}
	if gap > resizingGap {
		t.Errorf("for %s no write was acknowledged, want at most %s", gap, resizingGap)
	}
	e.limitedTo(t, name, larger)
	e.takeDown(t, name)
}

// machineSize is what a machine may use of its host.
type machineSize struct{ cpu, memory string }

// templateOf is a template of machines of a size, for a cluster.
func templateOf(name string, size machineSize) *infrav1.LocalMachineTemplate {
	cpu, memory := resource.MustParse(size.cpu), resource.MustParse(size.memory)
	made := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-resized",
		Labels: map[string]string{clusterv1.ClusterNameLabel: name}}}
	made.SetGroupVersionKind(infrav1.GroupVersion.WithKind("LocalMachineTemplate"))
	made.Spec.Template.Spec.Resources = infrav1.LocalMachineResources{CPU: &cpu, Memory: &memory}
	return made
}

// resize makes a template of machines of that size, and lets the ControlPlane refer to it.
func (e *environment) resize(t *testing.T, name string, to machineSize) {
	t.Helper()
	made := templateOf(name, to)
	if err := e.management(t).Create(context.Background(), made); err != nil {
		t.Fatal(err)
	}
	e.alter(t, name, func(cp *controlplanev1alpha1.ControlPlane) {
		cp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = made.Name
	})
}

// resized writes the same to a file, and changes nothing.
func (e *environment) resized(t *testing.T, name string, to machineSize) string {
	t.Helper()
	cp := e.machinesOf(t, name)
	cp.SetGroupVersionKind(controlplanev1alpha1.GroupVersion.WithKind("ControlPlane"))
	made := templateOf(name, to)
	cp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = made.Name
	return e.manifest(t, made, cp)
}

// readLimits prints the CPU time in a period, the period and the memory that a machine's own cgroup allows, of either version.
const readLimits = "cd /sys/fs/cgroup; if [ -e cpu.max ]; then cat cpu.max memory.max; else cat cpu/cpu.cfs_quota_us " +
	"cpu/cpu.cfs_period_us memory/memory.limit_in_bytes; fi"

// limitedTo verifies what the kernel lets each machine use.
func (e *environment) limitedTo(t *testing.T, name string, want machineSize) {
	t.Helper()
	cpu, memory := resource.MustParse(want.cpu), resource.MustParse(want.memory)
	const period = 100_000
	limits := []string{strconv.FormatInt(cpu.MilliValue()*period/1000, 10), strconv.Itoa(period), strconv.FormatInt(memory.Value(), 10)}
	for _, m := range e.machines(t, name) {
		got := strings.Fields(e.quorate(t, "shell", m, "--", "sh", "-c", readLimits))
		t.Logf("the cgroup of %s: %s µs of %s, %s bytes", m, got[0], got[1], got[2])
		if !slices.Equal(got, limits) {
			t.Errorf("the cgroup of %s allows %v, want %v", m, got, limits)
		}
	}
}
