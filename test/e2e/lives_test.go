//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/plan"
)

var listAll = metav1.ListOptions{}

const patience = 8 * time.Minute

// create: 0 -> 3 in one command, the quorum verified by etcd's own member list.
//
//quorate:shows kubernetes created default
func create(t *testing.T, e *environment) {
	took := e.up(t, "alpha", "--replicas", "3", "--failure-domains", "a,b,c")
	t.Logf("FIGURE up --replicas 3, artifacts cached: %.1f s", took.Seconds())
	eventually(t, "three voters", patience, e.quorumOf(t, "alpha", 3))
	eventually(t, "three healthy nodes", patience, e.healthy(t, "alpha", 3))
	spreadOver(t, e, "alpha", 3)
	if took := e.up(t, "alpha", "--replicas", "3", "--failure-domains", "a,b,c"); took > 30*time.Second {
		t.Errorf("a second up of the same took %s, it should find all in place", took)
	}
	kcp := e.controlPlane(t, "alpha")
	if kcp.Status.Plan.Step != "Nothing" {
		t.Errorf("the next step is %q (%s), want Nothing", kcp.Status.Plan.Step, kcp.Status.Plan.Message)
	}
	if _, err := e.try("up", "--network", e.network, "--name", "alpha", "--replicas", "4"); err == nil ||
		!strings.Contains(err.Error(), "1, 3, 5 or 7") {
		t.Errorf("an even number of replicas gave %v, want an error that says what is valid", err)
	}
	madeInOrder(t, e, "alpha")
	reportMemory(t, e)
	reportIdle(t, e, "alpha")
	e.takeDown(t, "alpha")
	e.useRights(t, false)
}

// madeInOrder verifies that the history tells the making of three machines: who asked for it, each step in its order, and how long
// the machines took.
func madeInOrder(t *testing.T, e *environment, name string) {
	t.Helper()
	var told report.History
	if err := json.Unmarshal([]byte(e.quorate(t, "history", name, "-o", "json")), &told); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, entry := range told.Entries {
		switch {
		case entry.Change != nil && entry.Change.Created:
			steps = append(steps, "created")
			if entry.Change.By == "" {
				t.Errorf("who created the control plane is not told: %+v", entry)
			}
		case entry.Verb == plan.Create:
			steps = append(steps, "Create "+entry.Machine)
			if entry.Took.Duration <= 0 || entry.Reason == "" {
				t.Errorf("how long a machine took, or why it was made, is not told: %+v", entry)
			}
		}
	}
	want := []string{"created", "Create alpha-cp-1", "Create alpha-cp-2", "Create alpha-cp-3"}
	if !slices.Equal(steps, want) {
		t.Errorf("the history tells %v, want %v", steps, want)
	}
	if out := e.quorate(t, "history", name); !strings.Contains(out, "Create alpha-cp-3") {
		t.Errorf("the history as a table:\n%s", out)
	}
}

// spreadOver verifies that no two machines share a failure domain.
func spreadOver(t *testing.T, e *environment, name string, want int) {
	t.Helper()
	var all clusterv1.MachineList
	if err := e.management(t).List(context.Background(), &all, client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		t.Fatal(err)
	}
	domains := map[string]string{}
	for _, m := range all.Items {
		domains[m.Spec.FailureDomain] = m.Name
	}
	if len(domains) != want {
		t.Errorf("machines lie in the failure domains %v, want %d of them", domains, want)
	}
}

// crash: SIGKILL of the daemon in the middle of 1 -> 3, and on it goes.
func crash(t *testing.T, e *environment) {
	e.up(t, "bravo", "--replicas", "1")
	first := e.machines(t, "bravo")
	e.quorate(t, "up", "--network", e.network, "--name", "bravo", "--replicas", "3", "--wait=false")
	eventually(t, "the joins have begun", patience, func() string {
		if n := len(e.machines(t, "bravo")); n < 2 {
			return fmt.Sprintf("%d machines", n)
		}
		return ""
	})
	killDaemon(t, e)
	if voters, err := e.voters(first[0]); err != nil || len(voters) == 0 {
		t.Fatalf("with the daemon gone, etcd answered %v, %v", voters, err)
	}
	e.up(t, "bravo", "--replicas", "3")
	eventually(t, "three voters after the daemon was killed", patience, e.quorumOf(t, "bravo", 3))
	eventually(t, "three healthy nodes", patience, e.healthy(t, "bravo", 3))
	e.takeDown(t, "bravo")
}

// killDaemon ends the daemon as a crash would.
func killDaemon(t *testing.T, e *environment) {
	t.Helper()
	text, err := os.ReadFile(e.state + "/daemon.pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		t.Fatalf("reading the daemon's process id from %q: %v", text, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the daemon is gone", time.Minute, func() string {
		if syscall.Kill(pid, 0) == nil {
			return fmt.Sprintf("process %d is there", pid)
		}
		return ""
	})
}

// scale: 0 -> 3 -> 5 -> 3 -> 1 -> 3, the API answering all the time.
func scale(t *testing.T, e *environment) {
	e.quorate(t, "up", "--network", e.network, "--name", "charlie", "--replicas", "3", "--wait=false")
	own := measureDelays(t, e, "charlie")
	e.up(t, "charlie", "--replicas", "3")
	own.report(t, "Quorate")
	e.observed(t, "charlie", "Quorate", func() {
		for _, replicas := range []int{5, 3, 1, 3} {
			e.up(t, "charlie", "--replicas", strconv.Itoa(replicas))
			eventually(t, fmt.Sprintf("%d voters", replicas), patience, e.quorumOf(t, "charlie", replicas))
			eventually(t, fmt.Sprintf("%d healthy nodes", replicas), patience, e.healthy(t, "charlie", replicas))
		}
	})
	e.takeDown(t, "charlie")
}

// joinDies: a machine is killed while it joins, the rest finishes. It is the last of the two that join: a
// control plane that grows from one to two voters cannot lose either, whoever runs it.
func joinDies(t *testing.T, e *environment) {
	e.up(t, "delta", "--replicas", "1")
	first := e.machines(t, "delta")[0]
	e.quorate(t, "up", "--network", e.network, "--name", "delta", "--replicas", "3", "--wait=false")
	var victim string
	eventually(t, "the last machine is joining etcd", patience, func() string {
		members, err := e.members(first)
		if err != nil {
			return err.Error()
		}
		voters, learners := 0, 0
		for _, m := range members {
			if m.IsLearner {
				victim, learners = m.Name, learners+1
			} else {
				voters++
			}
		}
		if voters != 2 || learners != 1 {
			return fmt.Sprintf("%d voters, %d learners", voters, learners)
		}
		return ""
	})
	if victim == "" { // a learner has no name before it started
		victim = e.unstarted(t, "delta", first)
	}
	e.quorate(t, "machine", "stop", victim)
	voters, err := e.voters(first)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("killed %s while it joined; the voters are then %v", victim, voters)
	if !slices.Contains(voters, victim) {
		eventually(t, "the stuck learner is removed", patience, func() string {
			members, err := e.members(first)
			if err != nil || len(members) != 2 {
				return fmt.Sprintf("%d members, %v", len(members), err)
			}
			return ""
		})
	}
	if out := e.quorate(t, "explain", "delta"); !strings.Contains(out, victim) {
		t.Errorf("explain does not name the machine that died, %s:\n%s", victim, out)
	}
	deleteMachine(t, e, victim)
	eventually(t, "a new machine has taken its place", patience, e.quorumOf(t, "delta", 3))
	e.takeDown(t, "delta")
}

// unstarted names the machine whose address is in the member list without a name.
func (e *environment) unstarted(t *testing.T, name, first string) string {
	t.Helper()
	out := e.quorate(t, "shell", first, "--", "sh", "-c", etcdctl+"member list")
	var list struct {
		Members []struct {
			Name     string   `json:"name"`
			PeerURLs []string `json:"peerURLs"`
		} `json:"members"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	var all clusterv1.MachineList
	if err := e.management(t).List(context.Background(), &all, client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.Items {
		for _, a := range m.Status.Addresses {
			for _, x := range list.Members {
				if x.Name == "" && len(x.PeerURLs) == 1 && x.PeerURLs[0] == "https://"+a.Address+":2380" {
					return m.Name
				}
			}
		}
	}
	t.Fatalf("no machine has the address of the member without a name: %s", out)
	return ""
}

func deleteMachine(t *testing.T, e *environment, name string) {
	t.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := e.management(t).Delete(context.Background(), m); err != nil {
		t.Fatal(err)
	}
}

// takeDown deletes one cluster and verifies that nothing of it is left in the management plane.
func (e *environment) takeDown(t *testing.T, name string) {
	t.Helper()
	start := time.Now()
	e.quorate(t, "down", name, "--yes")
	t.Logf("down %s: %.1f s", name, time.Since(start).Seconds())
	if left := namesOf(e.machinesWith(t, clusterLabels(name))); len(left) > 0 {
		t.Errorf("machines %v are left", left)
	}
}
