//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// What happens to the machines that a drill loses.
const (
	etcdKilled = "killed"     // etcd's process is killed and not started again; all else on the machine runs
	poweredOff = "off"        // they are powered off
	wiped      = "wiped"      // the data of etcd are deleted, and they are powered off
	returning  = "back-in"    // they are powered off, and come back while the recovery waits for them to be deleted
	returned   = "back-after" // they are powered off, declared off for good, and come back after the end
)

// drill is one way to lose a control plane, and what happens to the lost machines later.
type drill struct {
	machines, lost int
	fault          string
}

// String is the drill's name, by which QUORATE_DRILLS chooses it.
func (d drill) String() string { return fmt.Sprintf("%d-of-%d-%s", d.lost, d.machines, d.fault) }

// fromBackup: no member is left that could be asked.
func (d drill) fromBackup() bool { return d.lost == d.machines }

// drilled is what came of a drill.
type drilled struct {
	Drill string `json:"drill"`
	// Held are the acknowledged writes that the source held, and Lost those of them that are lost.
	Held int `json:"held"`
	Lost int `json:"lost"`
	// After are the writes acknowledged by the machine that the seed made and later, and LostAfter those of them that are lost.
	After     int `json:"after"`
	LostAfter int `json:"lostAfter"`
	// GivenUp are the writes that the old machines acknowledged after the source was taken: the recovery gives them up.
	GivenUp int `json:"givenUp"`
	// Two counts the looks in which two clusters of etcd had a leader, and Served those in which the endpoint served the old one after the
	// end of the recovery.
	Two    int `json:"two"`
	Served int `json:"served"`
	// Told is how long after the loss the recovery was told as possible; Write from the command to the first write that was accepted by the
	// new machine; Voters to all voters. In seconds.
	Told   float64 `json:"toldSeconds"`
	Write  float64 `json:"writeSeconds"`
	Voters float64 `json:"votersSeconds"`
	Failed bool    `json:"failed"`
}

// allDrills are {2 of 3, 3 of 5, all with a backup, 1 of 1} with each fault.
func allDrills() []drill {
	var all []drill
	for _, d := range []drill{{machines: 3, lost: 2}, {machines: 5, lost: 3}, {machines: 3, lost: 3}, {machines: 1, lost: 1}} {
		for _, fault := range []string{etcdKilled, poweredOff, wiped, returning, returned} {
			d.fault = fault
			all = append(all, d)
		}
	}
	return all
}

// pickDrills returns those that QUORATE_DRILLS chooses: a number of them, in an order by QUORATE_DRILLS_SEED, or their names, separated by
// commas; all without it.
func pickDrills(t *testing.T) []drill {
	t.Helper()
	all, asked := allDrills(), os.Getenv("QUORATE_DRILLS")
	seed, _ := strconv.ParseUint(os.Getenv("QUORATE_DRILLS_SEED"), 10, 64)
	if n, err := strconv.Atoi(asked); err == nil && n > 0 {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(n, len(all))]
	} else if asked != "" {
		names := strings.Split(asked, ",")
		all = slices.DeleteFunc(all, func(d drill) bool { return !slices.Contains(names, d.String()) })
		if len(all) != len(names) {
			t.Fatalf("invalid QUORATE_DRILLS %q: must be a number or some of %v", asked, allDrills())
		}
	}
	// Those of one size are drilled one after the other, on one cluster.
	slices.SortStableFunc(all, func(a, b drill) int { return b.machines - a.machines })
	return all
}

// recoverDrills: control planes are lost in all ways, and recovered. No acknowledged write is lost that the source held, and no two
// clusters serve. The results are printed as a table, and appended as JSON to the file that QUORATE_DRILLS_RESULTS names.
func recoverDrills(t *testing.T, e *environment) {
	const name = "xray"
	var table []drilled
	up := false
	for _, d := range pickDrills(t) {
		r := drilled{Drill: d.String()}
		if t.Run(d.String(), func(t *testing.T) {
			e.resizeControlPlane(t, name, d.machines)
			if !up {
				e.fills(t, name)
			}
			up = true
			e.drill(t, name, d, &r)
		}) {
			table = append(table, r)
			continue
		}
		r.Failed = true
		table = append(table, r)
		e.tellWhy(t)
		e.clear(t)
		up = false
	}
	if up {
		e.takeDown(t, name)
	}
	tellDrills(t, table)
}

// fills writes as many MB into a cluster as QUORATE_DRILLS_FILL says; none without it.
func (e *environment) fills(t *testing.T, name string) {
	t.Helper()
	asked := os.Getenv("QUORATE_DRILLS_FILL")
	if asked == "" {
		return
	}
	most, err := strconv.Atoi(asked)
	if err != nil || most < 1 {
		t.Fatalf("invalid QUORATE_DRILLS_FILL %q: must be a number of MB", asked)
	}
	c, _ := e.workload(t, name)
	block := make([]byte, 500_000)
	for n := range 2 * most {
		for i := range block {
			block[i] = byte(rand.Uint32())
		}
		of := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fill-%d", n)}, BinaryData: map[string][]byte{"x": block}}
		if _, err := c.CoreV1().ConfigMaps("default").Create(context.Background(), of, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d MB were written into %s", most, name)
}

// resizeControlPlane makes a control plane of so many machines, or changes one, and waits until all of it is healthy.
func (e *environment) resizeControlPlane(t *testing.T, name string, machines int) {
	t.Helper()
	e.up(t, name, "--replicas", strconv.Itoa(machines), "--backup", "@daily")
	eventually(t, "all voters", patience, e.quorumOf(t, name, machines))
	eventually(t, "all nodes are healthy", patience, e.healthy(t, name, machines))
}

// drill loses machines of a healthy control plane, recovers it, and counts what is lost.
func (e *environment) drill(t *testing.T, name string, d drill, r *drilled) {
	t.Helper()
	old := e.machines(t, name)
	rand.Shuffle(len(old), func(i, j int) { old[i], old[j] = old[j], old[i] })
	lost := old[:d.lost]
	held := e.writes(t, name, 5*time.Second)
	var flags []string
	if d.fromBackup() {
		e.quorate(t, "backup", "now", name)
		all := e.backups(t, name)
		flags = []string{"--from", all[len(all)-1].Name}
		r.GivenUp = len(e.writes(t, name, 2*time.Second).acknowledged)
	}
	switch d.fault {
	case returning:
		e.lingers(t, lost, 45*time.Second)
	case returned:
		e.lingers(t, lost, 2*time.Hour)
		flags = append(flags, "--off", strings.Join(lost, ","))
	}
	watched := e.watchRecovery(t, name, old)
	r.Told = e.loses(t, name, d, lost).Seconds()
	e.recoversDrill(t, name, d, watched, lost, flags, r)
	r.Held, r.Lost = len(held.acknowledged), held.missing(t)
	watched.stop()
	r.Two, r.Served = len(watched.beside), len(watched.backwards)
	if r.Lost > 0 || r.LostAfter > 0 || r.Served > 0 || r.Two > 0 && d.fault != returned {
		t.Errorf("%+v; two clusters had a leader: %s; the endpoint served the old one: %s", *r, orNone(watched.beside), orNone(watched.backwards))
	}
	if d.fault == returned {
		e.lingers(t, lost, 0)
		eventually(t, "the old machines are gone", patience, e.quorumOf(t, name, d.machines))
	}
	e.hasNothingToDo(t, name)
}

// lingers has machines live on for a while once their infrastructure is to be deleted.
func (e *environment) lingers(t *testing.T, machines []string, d time.Duration) {
	t.Helper()
	c := e.management(t)
	for _, m := range machines {
		lm := &infrav1.LocalMachine{}
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: m}, lm); err != nil {
			t.Fatal(err)
		}
		before := lm.DeepCopy()
		if lm.Annotations == nil {
			lm.Annotations = map[string]string{}
		}
		lm.Annotations[infrav1.DeletionDelayAnnotation] = d.String()
		if err := c.Patch(context.Background(), lm, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
}

// loses loses machines, and returns how long it takes until a recovery is told as possible.
func (e *environment) loses(t *testing.T, name string, d drill, lost []string) time.Duration {
	t.Helper()
	for _, m := range lost {
		switch d.fault {
		case etcdKilled:
			e.quorate(t, "shell", m, "--", "mv", "/etc/kubernetes/manifests/etcd.yaml", "/root/")
			e.quorate(t, "machine", "kill-component", m, "etcd")
		case wiped:
			e.quorate(t, "shell", m, "--", "rm", "-rf", "/var/lib/etcd/member")
		}
	}
	if d.fault != etcdKilled {
		e.quorate(t, append([]string{"machine", "stop"}, lost...)...)
	}
	return told(t, recoveryPossible, e.said(t, name))
}

// said is what the plan of a control plane says now.
func (e *environment) said(t *testing.T, name string) func() (reason, message string) {
	return func() (reason, message string) {
		p := e.controlPlane(t, name).Status.Plan
		return p.Reason, p.Message
	}
}

// told waits until a plan says what can be recovered from, and returns how long after the loss that was. It prints for how long the plan
// had said without it that there is no quorum.
func told(t *testing.T, from string, plan func() (reason, message string)) time.Duration {
	t.Helper()
	var since time.Time
	said := ""
	took := eventually(t, "a recovery is told as possible", patience, func() string {
		reason, message := plan()
		said = reason + ": " + message
		if since.IsZero() && (reason == "QuorumLost" || strings.Contains(message, from)) {
			since = time.Now()
		}
		if !strings.Contains(message, from) {
			return said
		}
		return ""
	})
	t.Logf("FIGURE a recovery is told as possible %.1f s after QuorumLost, %.1f s after the loss: %s", time.Since(since).Seconds(),
		took.Seconds(), said)
	return took
}

// recoveryPossible is how a wait begins to tell what an etcd that lost its quorum can be recovered from.
const recoveryPossible = "recovery is possible from "

// recoversDrill recovers a control plane under writes, while the machines that it lost come back as the drill says.
func (e *environment) recoversDrill(
	t *testing.T, name string, d drill, watched *recoveryWatch, lost, flags []string, r *drilled,
) {
	t.Helper()
	c, _ := e.workload(t, name)
	during := newWriter(c)
	end := during.begin(t)
	start, came := time.Now(), make(chan error, 1)
	if d.fault == returning {
		go func() { came <- e.comeBack(watched, lost) }()
	}
	out := e.quorate(t, append([]string{"recover", name, "--yes", "--timeout", "15m"}, flags...)...)
	t.Logf("recovery, %.1f s:\n%s", time.Since(start).Seconds(), out)
	watched.ended(t)
	if d.fault == returning {
		if err := <-came; err != nil {
			t.Error(err)
		}
	}
	if d.fault == returned {
		e.quorate(t, append([]string{"machine", "start"}, lost...)...)
		eventually(t, "all voters, none of them on an old machine", patience, e.votersWithout(t, name, d.machines, watched.old))
	} else {
		eventually(t, "all voters", patience, e.quorumOf(t, name, d.machines))
	}
	r.Voters = time.Since(start).Seconds()
	eventually(t, "all nodes are healthy", patience, e.healthyWithout(t, name, d.machines, watched.old))
	end()
	seeded := watched.firstSeeded()
	after := during.between(seeded, time.Time{})
	r.GivenUp += len(during.between(time.Time{}, seeded).acknowledged)
	r.After, r.LostAfter = len(after.acknowledged), after.missing(t)
	r.Write = seeded.Add(during.firstAfter(seeded)).Sub(start).Seconds()
}

// comeBack starts machines again once their infrastructure is to be deleted.
func (e *environment) comeBack(watched *recoveryWatch, machines []string) error {
	for {
		deleting := 0
		var all infrav1.LocalMachineList
		of := client.MatchingLabels{clusterv1.ClusterNameLabel: watched.cluster}
		if err := watched.management.List(context.Background(), &all, client.InNamespace("default"), of); err != nil {
			return err
		}
		for i := range all.Items {
			if slices.Contains(machines, all.Items[i].Name) && !all.Items[i].DeletionTimestamp.IsZero() {
				deleting++
			}
		}
		if deleting == len(machines) {
			break
		}
		time.Sleep(300 * time.Millisecond)
	}
	_, err := e.try(append([]string{"machine", "start"}, machines...)...)
	return err
}

// votersWithout says what is missing until so many machines that are none of the old ones are all voters, and no other is a member.
func (e *environment) votersWithout(t *testing.T, name string, want int, old []string) func() string {
	return func() string {
		now := slices.DeleteFunc(e.machines(t, name), func(m string) bool { return slices.Contains(old, m) })
		if len(now) != want {
			return fmt.Sprintf("%d new machines, want %d: %s", len(now), want, e.controlPlane(t, name).Status.Plan.Message)
		}
		for _, m := range now {
			voters, err := e.voters(m)
			if err != nil {
				return err.Error()
			}
			if !slices.Equal(slices.Sorted(slices.Values(voters)), now) {
				return fmt.Sprintf("etcd on %s has the voters %v, the machines are %v", m, voters, now)
			}
		}
		return ""
	}
}

// healthyWithout is healthy for so many Nodes, none of which is an old machine's.
func (e *environment) healthyWithout(t *testing.T, name string, want int, old []string) func() string {
	c, _ := e.workload(t, name)
	healthy := e.healthy(t, name, want)
	return func() string {
		nodes, err := c.CoreV1().Nodes().List(context.Background(), listAll)
		if err != nil {
			return err.Error()
		}
		for i := range nodes.Items {
			if slices.Contains(old, nodes.Items[i].Name) {
				return "the Node of " + nodes.Items[i].Name + ", which was given up, is there"
			}
		}
		return healthy()
	}
}

// tellDrills prints the table, and appends it to the file of the results.
func tellDrills(t *testing.T, table []drilled) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%-20s %6s %5s %6s %5s %8s %4s %7s %6s %6s %7s %s\n",
		"drill", "held", "lost", "after", "lost", "given up", "two", "served", "told", "write", "voters", "failed")
	for _, r := range table {
		fmt.Fprintf(&text, "%-20s %6d %5d %6d %5d %8d %4d %7d %6.1f %6.1f %7.1f %t\n",
			r.Drill, r.Held, r.Lost, r.After, r.LostAfter, r.GivenUp, r.Two, r.Served, r.Told, r.Write, r.Voters, r.Failed)
	}
	t.Logf("FIGURE drills of recovery:\n%s", text.String())
	name := os.Getenv("QUORATE_DRILLS_RESULTS")
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, r := range table {
		if err := json.NewEncoder(f).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
}
