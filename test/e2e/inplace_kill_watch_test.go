//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/steps"
)

// killMoment is when in a step, or in a phase of the swap, its process is killed.
type killMoment string

// The moments: as soon as it is seen; after half of the time that it took when it was left alone; after nine tenths of that.
const (
	beginning killMoment = "beginning"
	middle    killMoment = "middle"
	end       killMoment = "end"
)

// share is the part of the usual time that is over at a moment.
var share = map[killMoment]float64{beginning: 0, middle: 0.5, end: 0.9}

// kill is one that is tried: of a step, or of the service in a phase of the swap.
type kill struct {
	at     string
	phase  bool
	moment killMoment
}

// killed is a kill that was tried, and what became of it.
type killed struct {
	kill
	when time.Time
	// missed says why it met nothing; empty: the process was killed in that step or phase.
	missed string
	// outcome is how the update ended; wrong is what is not as it must be then.
	outcome string
	seconds float64
	wrong   []string
}

// killer watches the upgrader's processes on a machine, and kills as it is told.
type killer struct {
	t *testing.T
	// root is the machine's file system, namespace the one of its process numbers, as this host sees them.
	root, namespace string
	// usual is how long steps and phases take at least that are left alone.
	usual map[string]time.Duration
	// todo are the kills that are left for this update, in their order; done are those that were tried.
	todo []kill
	done []*killed
	// damage, if any, is called once when the swap begins to go back.
	damage func()

	young   map[int]time.Time // processes that may become one of the upgrader's, by when they were first seen
	old     map[int]time.Time // processes that are none, by when that was found
	begun   bool              // the node has forgotten the update before this one
	step    running           // the step that is under way
	service int               // the process of the swap's service; 0: it is not known
	phase   running           // the phase that is under way, without process
	pending *killed           // the kill of a step of which is not known yet whether it met one
}

// running is a step or a phase that is under way.
type running struct {
	name  string
	pid   int
	since time.Time
	cut   bool
}

// newKiller watches a machine of this environment.
func newKiller(t *testing.T, e *environment, machine string) *killer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(e.state, "machines", machine, "machine.json"))
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Process struct {
			PID int `json:"pid"`
		} `json:"process"`
	}
	if err := json.Unmarshal(data, &record); err != nil || record.Process.PID == 0 {
		t.Fatalf("machine %s has process %d, %v", machine, record.Process.PID, err)
	}
	first := fmt.Sprintf("/proc/%d", record.Process.PID)
	namespace, err := os.Readlink(first + "/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	return &killer{t: t, root: first + "/root", namespace: namespace, usual: map[string]time.Duration{}}
}

// watch kills what is to be killed until ctx ends, and returns when it has ended.
func (k *killer) watch(ctx context.Context, todo []kill) {
	k.todo, k.young, k.old = todo, map[int]time.Time{}, map[int]time.Time{}
	k.step, k.phase, k.service, k.pending, k.begun = running{}, running{}, 0, nil, false
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ; ctx.Err() == nil; <-tick.C {
		k.lookAtProcesses()
		k.lookAtPhase()
		k.strike()
	}
	if k.pending != nil {
		k.settle("it was over")
	}
}

// How long a process may take until it is what it was made for, and how soon its number may be another's.
const (
	growsUp = 5 * time.Second
	renewed = time.Minute
)

// lookAtProcesses finds the upgrader's processes on the machine, and notes which step has ended and which has begun.
func (k *killer) lookAtProcesses() {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	now, first := time.Now(), len(k.old) == 0
	var found []running // steps, and without a name services
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || now.Sub(k.old[pid]) < renewed {
			continue
		}
		if k.young[pid].IsZero() {
			k.young[pid] = now
			if _, again := k.old[pid]; again || first {
				k.young[pid] = now.Add(-2 * growsUp) // one look is enough
			}
		}
		name, ours := k.role(pid)
		switch {
		case ours:
			found = append(found, running{name: name, pid: pid, since: now})
		case now.Sub(k.young[pid]) > growsUp:
			k.old[pid] = now
			delete(k.young, pid)
		}
	}
	step, service := pick(found, k.step.pid, false), pick(found, k.service, true)
	step.name = k.under(step.pid)
	if service.pid != k.service && service.pid != 0 {
		// It begins its phase again, whatever was done of that.
		k.phase.since, k.phase.cut = now, false
	}
	k.service = service.pid
	if step.pid != k.step.pid || step.name != k.step.name {
		k.stepped(running{name: step.name, pid: step.pid, since: now})
	}
}

// under is the step that a container is at: the one that runs inside the node, or else one that the pod does itself; between two it is the
// one before.
func (k *killer) under(pid int) string {
	argv := command(pid)
	if inside := k.inside(pid); inside != pid {
		argv = command(inside)
	} else if at := k.step; at.pid == pid && at.name != "" {
		next := slices.Index(argv, steps.Name(at.name).Command()) + 1
		itself := next < len(argv) && (argv[next] == steps.Drain.Command() || argv[next] == steps.Uncordon.Command())
		if at.cut || !itself {
			return at.name
		}
		argv = argv[next-1:]
	}
	if len(argv) < 2 {
		return ""
	}
	s, _ := steps.ByCommand(argv[1])
	return string(s.Name)
}

// pick returns the process that was known before, while there is one: for a moment, those that it starts look the same. Else it is any that
// was found.
func pick(found []running, known int, service bool) running {
	var picked running
	for _, f := range found {
		if (f.name == "") == service && (picked.pid == 0 || f.pid == known) {
			picked = f
		}
	}
	return picked
}

// role says what a process is to the upgrader of the machine: the container of a stage, by its first step, or, without a name, the service
// of the swap.
func (k *killer) role(pid int) (step string, ours bool) {
	argv := command(pid)
	if len(argv) < 2 || filepath.Base(argv[0]) != "upgrader" {
		return "", false
	}
	if namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || namespace != k.namespace {
		return "", false
	}
	if argv[1] == "swap-service" {
		return "", true
	}
	s, known := steps.ByCommand(argv[1])
	return string(s.Name), known
}

// command is a process's command line; none: it has ended.
func command(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// stepped notes that the step that was under way has ended, and which one follows; without a name, none does yet.
func (k *killer) stepped(to running) {
	from := k.step
	k.took(from)
	k.step = to
	if to.name == "" {
		return
	}
	if k.pending != nil && to.name == k.pending.at && to.name != string(steps.Copy) {
		k.step.cut = true // what it had just started looks the same, and ends with it
		return
	}
	if k.pending != nil {
		// A pod that was cut off is followed by another, whose steps begin with the first one.
		if to.name == string(steps.Copy) {
			k.settle("")
		} else {
			k.settle("it was over")
		}
	}
	if next := k.next(); next != nil && !next.phase && to.name != next.at && slices.Index(stepNames(), to.name) > slices.Index(stepNames(),
		next.at) {
		k.skip("it was over")
	}
}

// took notes how long something took that was left alone. The shortest time counts: what is killed after a part of it is under way.
func (k *killer) took(r running) {
	if r.name == "" || r.cut {
		return
	}
	now := time.Since(r.since)
	if was, known := k.usual[r.name]; !known || now < was {
		k.usual[r.name] = now
	}
}

// stepNames are the steps in their order.
func stepNames() []string {
	var names []string
	for _, s := range steps.All() {
		names = append(names, string(s.Name))
	}
	return names
}

// phaseOrder are the phases as they follow each other; those of the way back come after those of the way there.
var phaseOrder = []steps.Phase{
	"", steps.Preparing, steps.Stopping, steps.Replacing, steps.Starting, steps.Proving, steps.Committed,
	steps.Reverting, steps.Restarting, steps.RestoringData, steps.Reverted,
}

// lookAtPhase notes how far the swap is.
func (k *killer) lookAtPhase() {
	name := k.journal()
	k.begun = k.begun || name == "" || name == string(steps.Preparing)
	if !k.begun || name == k.phase.name {
		return
	}
	k.took(k.phase)
	k.phase = running{name: name, since: time.Now()}
	if name == string(steps.Reverting) && k.damage != nil {
		k.damage()
		k.damage = nil
	}
	next := k.next()
	if next == nil || !next.phase || k.service == 0 {
		return // a service that was killed may go on in an earlier phase
	}
	is, want := slices.Index(phaseOrder, steps.Phase(name)), slices.Index(phaseOrder, steps.Phase(next.at))
	// Data are restored after a restart has failed, and before the next one.
	if is > want && !(name == string(steps.RestoringData) && next.at == string(steps.Restarting)) {
		k.skip("it was over")
	}
}

// journal is the phase that the node remembers; empty: none.
func (k *killer) journal() string {
	data, err := os.ReadFile(k.root + "/var/lib/quorate-upgrade/state.json")
	if err != nil {
		return ""
	}
	var j steps.Journal
	if json.Unmarshal(data, &j) != nil {
		return ""
	}
	return string(j.Phase)
}

// next is the kill whose turn it is; nil: there is none, or it is not known yet what became of the one before.
func (k *killer) next() *kill {
	if len(k.todo) == 0 || k.pending != nil {
		return nil
	}
	return &k.todo[0]
}

// skip notes that the next kill finds nothing, and goes on to the one after.
func (k *killer) skip(why string) {
	k.done = append(k.done, &killed{kill: k.todo[0], when: time.Now(), missed: why})
	k.todo = k.todo[1:]
}

// settle notes whether the kill of a step met one.
func (k *killer) settle(missed string) {
	k.pending.missed = missed
	k.pending = nil
}

// strike kills, if the moment has come.
func (k *killer) strike() {
	next := k.next()
	if next == nil {
		return
	}
	if next.phase {
		k.strikeService(*next)
		return
	}
	if k.step.name != next.at || k.step.cut || !k.due(*next, k.step.since) {
		return
	}
	victim := k.step.pid
	if next.moment == middle {
		victim = k.inside(victim)
	}
	if !struck(victim) {
		return // it has just ended, and what follows tells so
	}
	k.step.cut = true
	k.pending = &killed{kill: *next, when: time.Now()}
	k.done, k.todo = append(k.done, k.pending), k.todo[1:]
}

// strikeService kills the service of the swap, if it is in the phase.
func (k *killer) strikeService(next kill) {
	if k.phase.name != next.at || !k.due(next, k.phase.since) {
		return
	}
	argv := command(k.service)
	if len(argv) < 2 || argv[1] != "swap-service" || !struck(k.service) {
		k.service = 0
		return
	}
	k.phase.cut, k.service = true, 0
	one := &killed{kill: next, when: time.Now()}
	if is := k.journal(); is != next.at {
		one.missed = "it was in " + is
	}
	k.done, k.todo = append(k.done, one), k.todo[1:]
	// Whatever follows begins again, also where it is the same phase.
	k.phase = running{}
}

// due reports whether the moment has come.
func (k *killer) due(next kill, since time.Time) bool {
	if told, come := k.told(next); told {
		return come
	}
	return float64(time.Since(since)) >= share[next.moment]*float64(k.usual[next.at])
}

// told reports whether a moment is told by what is there, and if so whether it has come. How long going back takes depends on what serves
// by then, and restoring data is over in no time.
func (k *killer) told(next kill) (told, come bool) {
	switch {
	case next.at == string(steps.Reverting) && next.moment == end:
		manifest, err := os.ReadFile(k.root + "/etc/kubernetes/manifests/kube-apiserver.yaml")
		return true, err == nil && !strings.Contains(string(manifest), unknownArgument)
	case next.at == string(steps.RestoringData) && next.moment == middle:
		_, err := os.Stat(k.root + "/var/lib/.etcd-restored")
		return true, err == nil
	case next.at == string(steps.RestoringData) && next.moment == end:
		info, err := os.Stat(k.root + "/var/lib/etcd/member")
		return true, err == nil && info.IsDir()
	}
	return false, false
}

// inside is the part of a step that runs inside the node, or else the step itself.
func (k *killer) inside(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	all := strings.Fields(string(text))
	if err != nil || len(all) == 0 {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, t := range tasks {
			text, _ := os.ReadFile(t)
			all = append(all, strings.Fields(string(text))...)
		}
	}
	for _, child := range all {
		n, err := strconv.Atoi(child)
		if argv := command(n); err == nil && slices.ContainsFunc(argv, func(a string) bool { return strings.HasPrefix(a, "--inside=") }) {
			return n
		}
	}
	return pid
}

// struck kills a process of the upgrader's, and reports whether there was one that had not ended.
func struck(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || strings.Contains(string(stat), ") Z ") {
		return false
	}
	return !errors.Is(syscall.Kill(pid, syscall.SIGKILL), syscall.ESRCH)
}
