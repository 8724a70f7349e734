//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

const (
	// goesAfter is how long a machine of this life goes on living once its infrastructure was asked to go.
	goesAfter = 60 * time.Second
	// longestGap is more than elections and full processors take, and less than any loss of the quorum.
	longestGap = 30 * time.Second
)

// When in its join a machine is deleted.
const (
	atOnce    = "as soon as it is there"
	asLearner = "while it is a learner"
	asVoter   = "when it has become a voter"
)

// slowInfrastructure: machines that were deleted live on for a minute, as in a cloud, and whatever on them is about to join etcd does
// join. Meanwhile people delete the machines that join, one after the other, in every stage, while the control plane scales and rolls.
func slowInfrastructure(t *testing.T, e *environment) {
	const name = "sierra"
	e.up(t, name, "--replicas", "3")
	e.takeTime(t, name, goesAfter)
	c, _ := e.workload(t, name)
	ctx, stop := context.WithCancel(context.Background())
	writes, done := newWriter(c), make(chan struct{})
	go func() { defer close(done); writes.run(ctx) }()
	end := sync.OnceFunc(func() {
		stop()
		<-done
		t.Logf("FIGURE writes while joining machines were deleted and lived on for %s: %s", goesAfter, writes)
	})
	defer end()
	e.deleteWhatJoins(t, name)
	end()
	if lost := writes.lost(context.Background(), t); lost > 0 {
		t.Errorf("%d acknowledged writes are lost", lost)
	}
	if writes.gap > longestGap {
		t.Errorf("for %s no write was acknowledged: the quorum was lost", writes.gap)
	}
	e.takeTime(t, name, 0)
	e.takeDown(t, name)
}

// deleteWhatJoins scales and rolls a control plane while people delete the machines that join.
func (e *environment) deleteWhatJoins(t *testing.T, name string) {
	t.Helper()
	settled := e.machines(t, name)
	e.quorate(t, "up", "--network", e.network, "--name", name, "--replicas", "5", "--wait=false")
	e.deleteJoining(t, name, settled, atOnce, asLearner, asVoter)
	e.gone(t, name)
	eventually(t, "five voters", 3*patience, e.quorumOf(t, name, 5))
	eventually(t, "five healthy nodes", patience, e.healthy(t, name, 5))

	settled = e.machines(t, name)
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.Rollout.After = metav1.Now()
	})
	e.deleteJoining(t, name, settled, asLearner, asVoter)
	eventually(t, "all machines are replaced", 6*patience, func() string {
		if old := slices.DeleteFunc(e.machines(t, name), func(m string) bool { return !slices.Contains(settled, m) }); len(old) > 0 {
			return fmt.Sprintf("%v are left", old)
		}
		return ""
	})
	e.gone(t, name)
	eventually(t, "five voters", 3*patience, e.quorumOf(t, name, 5))
	eventually(t, "five healthy nodes", patience, e.healthy(t, name, 5))
}

// takeTime has the machines of a cluster, those that come too, live on for so long once they are deleted.
func (e *environment) takeTime(t *testing.T, name string, d time.Duration) {
	t.Helper()
	want := map[string]string{infrav1.DeletionDelayAnnotation: d.String()}
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) {
		annotations := maps.Clone(kcp.Spec.MachineTemplate.ObjectMeta.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		maps.Copy(annotations, want)
		kcp.Spec.MachineTemplate.ObjectMeta.Annotations = annotations
	})
	c := e.management(t)
	eventually(t, "all machines take their time to go", time.Minute, func() string {
		var all infrav1.LocalMachineList
		if err := c.List(context.Background(), &all, client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
			return err.Error()
		}
		for _, lm := range all.Items {
			if got := lm.Annotations[infrav1.DeletionDelayAnnotation]; got != d.String() {
				return fmt.Sprintf("%s has %q", lm.Name, got)
			}
		}
		return ""
	})
}

// deleteJoining deletes machines that are none of the settled ones, one in each of the stages of a join.
func (e *environment) deleteJoining(t *testing.T, name string, settled []string, stages ...string) {
	t.Helper()
	done := slices.Clone(settled)
	for _, stage := range stages {
		var victim string
		eventually(t, "a machine joins, "+stage, 2*patience, func() string {
			victim = e.joining(t, name, done, stage)
			if victim == "" {
				return "none does"
			}
			return ""
		})
		t.Logf("%s is deleted %s", victim, stage)
		deleteMachine(t, e, victim)
		done = append(done, victim)
	}
}

// gone waits until no machine is being deleted.
func (e *environment) gone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the deleted machines are gone", 3*patience, func() string {
		for _, m := range e.machineObjects(t, name) {
			if !m.DeletionTimestamp.IsZero() {
				return m.Name + " is there"
			}
		}
		return ""
	})
}

// joining is a machine, none of the others, that is in a stage of its join; empty: none is.
func (e *environment) joining(t *testing.T, name string, others []string, stage string) string {
	t.Helper()
	members := e.anyMembers(t, name)
	for _, m := range e.machineObjects(t, name) {
		if slices.Contains(others, m.Name) || !m.DeletionTimestamp.IsZero() {
			continue
		}
		i := slices.IndexFunc(members, func(x member) bool { return x.Name == m.Name || x.Name == "" && x.IsLearner })
		switch {
		case stage == atOnce,
			stage == asLearner && i >= 0 && members[i].IsLearner,
			stage == asVoter && i >= 0 && !members[i].IsLearner:
			return m.Name
		}
	}
	return ""
}

// anyMembers is etcd's member list as the first machine tells it that answers.
func (e *environment) anyMembers(t *testing.T, name string) []member {
	t.Helper()
	for _, m := range e.machines(t, name) {
		if members, err := e.members(m); err == nil {
			return members
		}
	}
	return nil
}
