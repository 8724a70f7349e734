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
	kubeadmv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// machinesOperator: an operator in the cluster keeps etcd on the machines of a ControlPlane, which scales 3 -> 5 -> 3 while the
// operator says that etcd is healthy, and waits while it does not.
func machinesOperator(t *testing.T, e *environment) {
	const name = "zulu"
	text := e.quorate(t, "up", "--dry-run", "--kind", "ControlPlane", "--name", name, "--replicas", "3")
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", writeManifests(t, name, text, "management: Members\n",
		"management: Operator\n"))
	operator := e.runEtcdOperator(t, name)
	e.settled(t, name, 3)
	before := e.machines(t, name)
	e.written(t, name, func() {
		e.scaleAgainst(t, name, operator, 3, 5, "a backup of etcd is being taken")
		e.scaleAgainst(t, name, operator, 5, 3, "member "+before[0]+" has a slow disk")
	})
	var gone []string
	for _, m := range before {
		if !slices.Contains(e.machines(t, name), m) {
			gone = append(gone, m)
		}
	}
	removed := operator.removals()
	t.Logf("gone are %v; the operator removed the members of %v", gone, removed)
	if len(removed) != 2 {
		t.Errorf("the operator removed the members of %v, want those of two machines", removed)
	}
	e.takeDown(t, name)
}

// scaleAgainst scales while the operator says that etcd is not healthy: nothing comes or goes, and its words are told, until it says
// otherwise.
func (e *environment) scaleAgainst(t *testing.T, name string, operator *etcdOperator, from, to int, words string) {
	t.Helper()
	machines := e.identities(t, name)
	operator.object(words)
	eventually(t, "the operator's words are told", patience, func() string {
		c := conditions.Get(e.machinesOf(t, name), kubeadmv1.KubeadmControlPlaneEtcdClusterHealthyCondition)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, words) {
			return fmt.Sprint(c)
		}
		return ""
	})
	ctx, stop := context.WithCancel(context.Background())
	seen := e.countMachines(t, ctx, clusterLabels(name))
	if err := e.scaleTo(t, name, to); err != nil {
		t.Fatal(err)
	}
	e.waitsFor(t, name, words)
	stop()
	if got := <-seen; got != (counted{least: from, most: from}) {
		t.Errorf("while the operator objected there were %d to %d machines, want %d", got.least, got.most, from)
	}
	if now := e.identities(t, name); !slices.Equal(now, machines) {
		t.Errorf("while the operator objected the machines became\n%s, and were\n%s", strings.Join(now, "\n"), strings.Join(machines, "\n"))
	}
	start := time.Now()
	operator.object("")
	e.settled(t, name, to)
	t.Logf("FIGURE from the operator's consent until %d machines are %d and healthy: %.1f s", from, to, time.Since(start).Seconds())
}
