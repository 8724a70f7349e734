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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/embed"
)

// restoredManagement: a machine is replaced after a backup of the management plane, and the backup is restored. What it knows is older than
// the cluster: the machine that it does not know is left alone, no name is given twice, what waits for a person is told, and when that is
// done all is as it was wanted.
func restoredManagement(t *testing.T, e *environment) {
	const name = "restored"
	e.up(t, name, "--replicas", "3")
	eventually(t, "three voters", patience, e.quorumOf(t, name, 3))
	known, uid := e.machines(t, name), e.clusterUID(t, name)
	backup := filepath.Join(t.TempDir(), "etcd")
	e.whileStopped(t, name, func(data string) error { return os.CopyFS(backup, os.DirFS(data)) })

	old := known[1]
	deleteMachine(t, e, old)
	e.replaced(t, name, append([]string{old}, make([]string, 2)...))
	eventually(t, "three voters after the replacement", patience, e.quorumOf(t, name, 3))
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	living := others(e.machines(t, name), known)[0]
	e.quorate(t, "shell", living, "--", "touch", "/var/lib/made-after-the-backup")

	e.whileStopped(t, name, func(data string) error {
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		return os.CopyFS(data, os.DirFS(backup))
	})
	if now := e.machines(t, name); !slices.Equal(now, known) {
		t.Fatalf("the backup was not restored: machines are %v, want %v", now, known)
	}
	e.tellsWhatVanished(t, name, old, living)

	start := time.Now()
	deleteMachine(t, e, old)
	eventually(t, "the Machine of which nothing is left is gone", patience, func() string {
		if slices.Contains(e.machines(t, name), old) {
			return e.controlPlane(t, name).Status.Plan.Message
		}
		return ""
	})
	t.Logf("FIGURE a machine of which nothing is left, deleted until gone: %.1f s", time.Since(start).Seconds())
	e.saysOfMember(t, name, living)

	e.quorate(t, "decide", name, "remove-voter", living, "--yes")
	eventually(t, "three voters on known machines", patience, e.quorumOf(t, name, 3))
	now := e.machines(t, name)
	if slices.Contains(now, living) || slices.Contains(now, old) {
		t.Errorf("machines are %v: %s lives under its name, and %s had its", now, living, old)
	}
	if out, err := e.try("shell", living, "--", "ls", "/var/lib/made-after-the-backup"); err != nil {
		t.Errorf("the machine %s is another: %s%v", living, out, err)
	}
	e.endHost(t, name, living)
	eventually(t, "three healthy nodes", patience, e.healthy(t, name, 3))
	e.hasNothingToDo(t, name)
	if now := e.clusterUID(t, name); now != uid {
		t.Errorf("the cluster is another: kube-system has the UID %s, it was %s", now, uid)
	}
	t.Logf("FIGURE machines before the backup %v, after the replacement with %s, at the end %v: names given twice 0, taken over 0", known,
		living, e.machines(t, name))
	e.takeDown(t, name)
}

// whileStopped does something with the data of the management plane while the daemon is stopped. Machines and endpoints go on.
func (e *environment) whileStopped(t *testing.T, name string, do func(data string) error) {
	t.Helper()
	if err := embed.Stop(context.Background(), e.state); err != nil {
		t.Fatal(err)
	}
	if err := do(filepath.Join(e.state, "management", "etcd")); err != nil {
		t.Fatal(err)
	}
	e.quorate(t, "up", "--network", e.network, "--name", name, "--wait=false")
}

// others are those of now that were not there before.
func others(now, before []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(m string) bool { return slices.Contains(before, m) })
}

// tellsWhatVanished waits until it is told that nothing is left of a machine, and that no machine is known for a member. Nobody has removed
// anything then.
func (e *environment) tellsWhatVanished(t *testing.T, name, old, living string) {
	t.Helper()
	eventually(t, "it is told that nothing is left of "+old, patience, func() string {
		lm := &infrav1.LocalMachine{}
		if err := e.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: old}, lm); err != nil {
			return err.Error()
		}
		if c := conditions.Get(lm, clusterv1.ReadyCondition); c == nil || c.Reason != infrav1.VanishedReason {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	eventually(t, "the control plane waits, and names the machine", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Step != "Wait" || !strings.Contains(p.Message, old) {
			return p.Step + ": " + p.Message
		}
		return ""
	})
	t.Logf("told with the backup restored: %+v", e.controlPlane(t, name).Status.Plan)
	voters, err := e.voters(living)
	if err != nil || len(voters) != 3 || !slices.Contains(voters, living) {
		t.Errorf("voters are %v, %v: want three, and %s among them", voters, err, living)
	}
}

// saysOfMember waits until the control plane says what a person decides about a member of no known machine.
func (e *environment) saysOfMember(t *testing.T, name, living string) {
	t.Helper()
	eventually(t, "the control plane says what to do about the member on "+living, patience, func() string {
		p := e.controlPlane(t, name).Status.Plan
		if p.Reason != "MembersUnmatched" || !strings.Contains(p.Message, living) || !strings.Contains(p.Message, "quorate decide") {
			return p.Step + ": " + p.Message
		}
		return ""
	})
	t.Logf("told before a person has decided: %+v", e.controlPlane(t, name).Status.Plan)
}

// endHost powers a machine off that is not known, and takes its Node from the cluster, as a person does.
func (e *environment) endHost(t *testing.T, name, host string) {
	t.Helper()
	e.quorate(t, "machine", "stop", host)
	c, _ := e.workload(t, name)
	if err := c.CoreV1().Nodes().Delete(context.Background(), host, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
