//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// takeover: upstream's controller makes a control plane, Quorate takes it over without replacing a machine, and gives
// it back. How long each takes for the same work is told.
//
//quorate:shows kubernetes replaced older>newer
func takeover(t *testing.T, e *environment) {
	const name, labels = "oscar", "kind: KubeadmControlPlane\nmetadata:\n  labels:\n"
	u := buildUpstream(t, e)
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, older, labels, labels+"    "+clusterv1.WatchLabel+
		": upstream\n"))
	u.start(t)
	start := time.Now()
	eventually(t, "three voters by upstream", patience, u.doing(t, e.quorumOf(t, name, 3)))
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	t.Logf("FIGURE upstream's controller, 0 -> 3: %.1f s", time.Since(start).Seconds())
	made := e.identities(t, name)

	u.stop(t)
	e.keptBy(t, name, "")
	e.managesMachines(t, name, 31)
	e.hasNothingToDo(t, name)
	e.sameMachines(t, name, made)

	e.keptBy(t, name, "upstream")
	u.start(t)
	e.managesMachines(t, name, 32)
	e.sameMachines(t, name, made)
	e.roll(t, name, "upstream's controller", older+" -> "+newer, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Version = newer })

	u.stop(t)
	e.keptBy(t, name, "")
	e.roll(t, name, "Quorate", newer+" anew, machines that upstream made", func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
	})
	e.takeDown(t, name)
}

// hasNothingToDo waits until Quorate finds a control plane as it is wanted.
func (e *environment) hasNothingToDo(t *testing.T, name string) {
	t.Helper()
	eventually(t, "Quorate has nothing to do", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Step != "Nothing" {
			return p.Step + ": " + p.Message
		}
		return ""
	})
	e.recordAtRest(t, name)
}

// roll changes a control plane so that all machines are replaced, and tells how long that took.
func (e *environment) roll(t *testing.T, name, controller, what string, change func(*controlplanev1.KubeadmControlPlane)) {
	t.Helper()
	before := e.machines(t, name)
	e.observed(t, name, controller, func() {
		start := time.Now()
		e.change(t, name, change)
		e.replaced(t, name, before)
		t.Logf("FIGURE %s, three machines %s: %.1f s", controller, what, time.Since(start).Seconds())
		eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	})
}

// adopt: the control plane's object is lost with its ties to the machines, and made again from its manifest.
func adopt(t *testing.T, e *environment) {
	const name = "papa"
	e.up(t, name, "--replicas", "3")
	made := e.identities(t, name)
	e.keptBy(t, name, "nobody")
	lost := e.controlPlane(t, name)
	c := e.management(t)
	if err := c.Delete(context.Background(), lost, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no machine has an owner", patience, func() string {
		for _, m := range e.machineObjects(t, name) {
			if metav1.GetControllerOf(&m) != nil {
				return m.Name + " has one"
			}
		}
		return ""
	})
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Finalizers = nil })
	took := e.up(t, name, "--replicas", "3")
	t.Logf("FIGURE three machines adopted: %.1f s", took.Seconds())
	e.sameMachines(t, name, made)
	owner := e.controlPlane(t, name)
	for _, m := range e.machineObjects(t, name) {
		if !metav1.IsControlledBy(&m, owner) || !machine.HasHook(&m) {
			t.Errorf("%s is controlled by %v, annotations %v", m.Name, m.OwnerReferences, m.Annotations)
		}
	}
	if owner.UID == lost.UID {
		t.Fatal("the control plane was never lost")
	}
	e.up(t, name, "--replicas", "1")
	eventually(t, "one voter", patience, e.quorumOf(t, name, 1))
	e.takeDown(t, name)
}

// keptBy says which manager keeps a control plane; empty: the environment's own.
func (e *environment) keptBy(t *testing.T, name, manager string) {
	t.Helper()
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		delete(kcp.Labels, clusterv1.WatchLabel)
		if manager != "" {
			kcp.Labels[clusterv1.WatchLabel] = manager
		}
	})
}

// managesMachines waits until whoever keeps the control plane has brought a change to all machines in place.
func (e *environment) managesMachines(t *testing.T, name string, seconds int32) {
	t.Helper()
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = &seconds
	})
	e.managed(t, name, seconds)
}

// managed waits until all machines have a timeout of drains.
func (e *environment) managed(t *testing.T, name string, seconds int32) {
	t.Helper()
	eventually(t, "a change has come to all machines", patience, func() string {
		for _, m := range e.machineObjects(t, name) {
			if got := ptr.Deref(m.Spec.Deletion.NodeDrainTimeoutSeconds, 0); got != seconds {
				return fmt.Sprintf("%s has nodeDrainTimeoutSeconds %d", m.Name, got)
			}
		}
		return ""
	})
}

// identities are the names and UIDs of a cluster's control plane machines, sorted.
func (e *environment) identities(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	for _, m := range e.machineObjects(t, name) {
		all = append(all, m.Name+" "+string(m.UID))
	}
	slices.Sort(all)
	return all
}

func (e *environment) sameMachines(t *testing.T, name string, before []string) {
	t.Helper()
	if now := e.identities(t, name); !slices.Equal(now, before) {
		t.Errorf("machines are\n%s, and were\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
	if missing := e.quorumOf(t, name, len(before))(); missing != "" {
		t.Error(missing)
	}
}

// upstream is Cluster API's own controller of control planes, built from the module, as a process on this host. It
// works on all control planes; the label watch-filter keeps Quorate from those.
type upstream struct {
	environment *environment
	folder      string
	command     *exec.Cmd
	ended       chan struct{} // closed when it has ended
}

// buildUpstream builds upstream's controller into a folder of the test.
func buildUpstream(t *testing.T, e *environment) *upstream {
	t.Helper()
	u := &upstream{environment: e, folder: t.TempDir()}
	start := time.Now()
	out, err := exec.Command("go", "build", "-o", u.folder+"/manager", "sigs.k8s.io/cluster-api/controlplane/kubeadm").CombinedOutput()
	if err != nil {
		t.Fatalf("building upstream's controller: %v\n%s", err, out)
	}
	t.Logf("upstream's controller built: %.1f s", time.Since(start).Seconds())
	t.Cleanup(func() { u.stop(t) })
	return u
}

// start runs upstream's controller, with more flags than it always has.
func (u *upstream) start(t *testing.T, flags ...string) {
	t.Helper()
	kubeconfig := filepath.Join(u.folder, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(u.environment.quorate(t, "kubeconfig", "--management")), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(u.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	u.command = exec.Command(u.folder+"/manager", append(flags, "--kubeconfig", kubeconfig,
		"--webhook-port", freePort(t), "--webhook-cert-dir", u.environment.state+"/management/pki", "--webhook-cert-name", "webhooks.crt",
		"--webhook-key-name", "webhooks.key",
		"--health-addr", "127.0.0.1:0", "--diagnostics-address", "127.0.0.1:0", "--insecure-diagnostics", "--skip-crd-migration-phases",
		"StorageVersionMigration,CleanupManagedFields")...)
	u.command.Stdout, u.command.Stderr = log, log
	if err := u.command.Start(); err != nil {
		t.Fatal(err)
	}
	command, ended := u.command, make(chan struct{})
	u.ended = ended
	go func() {
		_ = command.Wait() // asked to end, it says so as an error
		close(ended)
	}()
}

// doing has a wait end early when upstream's controller has ended.
func (u *upstream) doing(t *testing.T, missing func() string) func() string {
	return func() string {
		select {
		case <-u.ended:
			t.Fatal("upstream's controller has ended")
		default:
		}
		return missing()
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// stop ends upstream's controller.
func (u *upstream) stop(t *testing.T) {
	if u.command == nil {
		return
	}
	_ = u.command.Process.Signal(syscall.SIGTERM)
	<-u.ended
	u.command = nil
	if log, err := os.ReadFile(filepath.Join(u.folder, "log")); t.Failed() && err == nil {
		t.Logf("the end of upstream's log:\n%s", log[max(0, len(log)-8000):])
	}
}
