package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// named are worlds in which rules once waited for one another, or lost a quorum. Each ends
// as wanted, and soon.
var named = []struct {
	name  string
	setup Setup
	// within is how long it may take after the last event.
	within time.Duration
}{
	{"dead and leaving block each other: a person deletes", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Freeze, N: 1, For: 500 * time.Hour}, {At: 11 * time.Minute, Kind: DeleteMachine, N: 2},
			{At: 12 * time.Minute, Kind: Mark, N: 1}}}, 10 * time.Minute},
	{"dead and leaving block each other: a rollout without surge", Setup{Seed: 9, Replicas: 3, Surge: 0, Domains: abc, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 10*time.Minute + 2*time.Second, Kind: Freeze, N: 1,
			For: 500 * time.Hour}}}, 30 * time.Minute},
	{"dead and leaving block each other: an hour's drain of five", Setup{Seed: 9, Replicas: 5, Surge: 1, Domains: abc, Places: true,
		Checks: true, Repair: always, Drain: 24 * time.Hour,
		Script: []Event{{At: 10 * time.Minute, Kind: DeleteMachine, N: 2}, {At: 10*time.Minute + time.Second, Kind: Freeze, N: 1,
			For: 500 * time.Hour}}}, 25 * time.Hour},
	{"a doomed voter", Setup{Seed: 7209, Replicas: 3, Surge: 1, Places: true, Checks: true, Repair: always, Boot: 25 * time.Minute,
		Leave: time.Hour, Sturdy: true,
		Script: []Event{{At: time.Hour, Kind: Change, N: 2}, {At: time.Hour + 20*time.Second, Kind: Change, N: 3},
			{At: 65 * time.Minute, Kind: Kill, N: 2}}}, 6 * time.Hour},
	{"lost status in a rollout", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 10*time.Minute + 30*time.Second, Kind: Outage, For: time.Minute},
			{At: 10*time.Minute + 30*time.Second, Kind: LoseStatus}, {At: 14 * time.Minute, Kind: LoseStatus}}}, 30 * time.Minute},
	{"lost status and the authorities", Setup{Seed: 9, Replicas: 3, Surge: 0, Domains: abc, Places: true, Checks: true, Repair: always,
		Provable: true,
		Script: []Event{{At: 10 * time.Minute, Kind: BlindAPI, For: 20 * time.Minute}, {At: 10 * time.Minute, Kind: LoseStatus},
			{At: 11 * time.Minute, Kind: NoAuthority, For: time.Hour}, {At: 12 * time.Minute, Kind: Change, N: 2}}}, 3 * time.Hour},
	{"all machines deleted at once", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
		Drain: 10 * time.Minute, Leave: 10 * time.Minute, Boot: 20 * time.Minute,
		Script: []Event{{At: time.Hour, Kind: DeleteMany, N: 3}}}, 5 * time.Hour},
	{"a person's mark goes before that of a health check", Setup{Seed: 9, Replicas: 5, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always,
		Script: []Event{{At: time.Hour, Kind: Unready, N: 1, For: 12 * time.Minute},
			{At: time.Hour + time.Second, Kind: Pause, For: 9 * time.Minute}, {At: time.Hour + 8*time.Minute, Kind: Mark, N: 3}}}, 3 * time.Hour},
	{"of marked machines that without an API server goes first", Setup{Seed: 9, Replicas: 5, Surge: 1, Domains: abc, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: time.Hour, Kind: Pause, For: 2 * time.Minute}, {At: time.Hour + time.Second, Kind: APIDown, N: 3,
			For: 20 * time.Minute}, {At: time.Hour + time.Minute, Kind: Mark, N: 2}, {At: time.Hour + time.Minute, Kind: Mark, N: 3}}},
		3 * time.Hour},
	{"a full etcd is relieved without a person, and a rollout goes on", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Alarm, N: 1, For: 500 * time.Hour},
			{At: 10 * time.Minute, Kind: Alarm, N: 2, For: 500 * time.Hour}, {At: 10*time.Minute + 10*time.Second, Kind: Change, N: 2}}},
		30 * time.Minute},
	{"a full etcd of one is relieved without a person, and grows", Setup{Seed: 9, Replicas: 1, Surge: 1, Domains: abc, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Alarm, N: 1, For: 500 * time.Hour}, {At: 10*time.Minute + time.Second, Kind: Scale, N: 3}}},
		30 * time.Minute},
	{"a full etcd is relieved by a controller that forgot what it did", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Alarm, N: 1, For: 500 * time.Hour},
			{At: 10*time.Minute + 3*time.Second, Kind: Restart}, {At: 10*time.Minute + 9*time.Second, Kind: Restart},
			{At: 11 * time.Minute, Kind: Mark, N: 2}}}, 30 * time.Minute},
	{"a frozen host comes back", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Freeze, N: 1, For: 8 * time.Minute}}}, 20 * time.Minute},
	{"a frozen host comes back when its member is gone", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always, Leave: time.Hour,
		Script: []Event{{At: 10 * time.Minute, Kind: Freeze, N: 1, For: 20 * time.Minute}}}, 2 * time.Hour},
	{"a machine loses its labels, and another is deleted meanwhile", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Hide, N: 2, For: time.Hour}, {At: 11 * time.Minute, Kind: DeleteMachine, N: 1}}},
		2 * time.Hour},
	{"etcd is away everywhere, and comes back before a host does", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true,
		Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Outage, For: 9 * time.Minute}, {At: 10*time.Minute + 30*time.Second, Kind: Freeze, N: 1,
			For: time.Hour}}}, 2 * time.Hour},
	{"data that differ from those of the others", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Corrupt, N: 1}, {At: 11 * time.Minute, Kind: DeleteMachine, N: 2},
			{At: 12 * time.Minute, Kind: Mark, N: 1}}}, 30 * time.Minute},
	{"etcd behind port-forwards that become forbidden", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always, Forwarded: true,
		Script: []Event{{At: 10 * time.Minute, Kind: Forbid}, {At: 10*time.Minute + time.Second, Kind: DeleteMachine, N: 2},
			{At: 20 * time.Minute, Kind: Scale, N: 5}}}, 30 * time.Minute},
	{"upstream's controller in between", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Upstream, For: 2 * time.Second}, {At: 10*time.Minute + 20*time.Second, Kind: Upstream,
			For: time.Minute}}}, 2 * time.Hour},
	{"the group is made anew", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Recreate, For: 10 * time.Minute}, {At: 12 * time.Minute, Kind: DeleteMachine, N: 1}}},
		time.Hour},
	{"the group is deleted without its machines", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: OrphanGroup, For: 10 * time.Minute}, {At: 11 * time.Minute, Kind: DeleteMachine, N: 1}}},
		time.Hour},
	{"a dead machine is replaced while the spec is refused", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Invalid, N: 1, For: time.Hour}, {At: 11 * time.Minute, Kind: Kill, N: 2}}}, 2 * time.Hour},
	{"a voter that is silent for a moment is not dead", Setup{Seed: 9, Replicas: 5, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always, Boot: 25 * time.Minute,
		Script: []Event{{At: 2 * time.Hour, Kind: DeleteMachine, N: 2}, {At: 2*time.Hour + 40*time.Second, Kind: BlindMember, N: 3,
			For: 4 * time.Minute}, {At: 2*time.Hour + 41*time.Second, Kind: Mark, N: 3}}}, 3 * time.Hour},
	{"a member that is given time holds up no other", Setup{Seed: 9, Replicas: 7, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always,
		Script: []Event{{At: time.Hour, Kind: Pause, For: 30 * time.Second}, {At: time.Hour + time.Second, Kind: ForceDelete, N: 5},
			{At: time.Hour + 16*time.Second, Kind: ForceDelete, N: 2}, {At: time.Hour + 36*time.Second, Kind: Unmark, N: 1}}}, 2 * time.Hour},
	{"a member that must stay holds up no other", Setup{Seed: 9, Replicas: 7, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always, Fates: map[int]Fate{8: {At: syncing}},
		Script: []Event{{At: time.Hour, Kind: DeleteMachine, N: 7}, {At: time.Hour + 205*time.Second, Kind: Pause, For: 20 * time.Second},
			{At: time.Hour + 206*time.Second, Kind: ForceDelete, N: 1}, {At: time.Hour + 211*time.Second, Kind: StopEtcd, N: 3},
			{At: time.Hour + 212*time.Second, Kind: Hide, N: 3, For: 30 * time.Minute}, {At: time.Hour + 265*time.Second, Kind: Unmark, N: 4},
			{At: time.Hour + 280*time.Second, Kind: Unmark, N: 4}, {At: 2 * time.Hour, Kind: Mark, N: 3}}}, 3 * time.Hour},
	{"a machine loses its labels, and fewer are wanted", Setup{Seed: 9, Replicas: 5, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always,
		Script: []Event{{At: time.Hour, Kind: Hide, N: 2, For: time.Hour}, {At: time.Hour + time.Minute, Kind: Scale, N: 3}}}, 3 * time.Hour},
	{"kubeadm goes on where a hook was released", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Checks: true, Repair: always,
		Leave: 10 * time.Minute, Fates: map[int]Fate{4: {At: syncing}},
		Script: []Event{{At: time.Hour, Kind: ForceDelete, N: 3}, {At: time.Hour + 30*time.Second, Kind: DeleteMachine, N: 4},
			{At: time.Hour + time.Minute, Kind: DeleteMachine, N: 4}, {At: time.Hour + 90*time.Second, Kind: Unmark, N: 1},
			{At: time.Hour + 100*time.Second, Kind: Unmark, N: 1}, {At: time.Hour + 110*time.Second, Kind: Unmark, N: 1},
			{At: time.Hour + 120*time.Second, Kind: Unmark, N: 1}}}, 4 * time.Hour},
	{"an API server without etcd holds up nobody", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: always,
		Script: []Event{{At: time.Hour, Kind: Silent, N: 2, For: 10 * time.Minute}, {At: time.Hour, Kind: Silent, N: 3, For: 10 * time.Minute},
			{At: time.Hour + 60*time.Second, Kind: StopEtcd, N: 1},
			{At: time.Hour + 70*time.Second, Kind: DeleteMachine, N: 1}, {At: time.Hour + 2*time.Minute, Kind: Unmark, N: 2}}}, 3 * time.Hour},
	{"an API server that answers stays, whatever its probe says", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: time.Hour, Kind: APIDown, N: 2, For: 8 * time.Minute}, {At: time.Hour, Kind: APIDown, N: 3, For: 8 * time.Minute},
			{At: time.Hour, Kind: APIUnready, N: 1, For: 8 * time.Minute},
			{At: time.Hour + 70*time.Second, Kind: DeleteMachine, N: 1}}}, 3 * time.Hour},
	{"an API server of which nothing is known does not stand in", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: time.Hour, Kind: Silent, N: 2, For: 8 * time.Minute}, {At: time.Hour, Kind: Silent, N: 3, For: 8 * time.Minute},
			{At: time.Hour, Kind: APIDown, N: 2, For: 8 * time.Minute},
			{At: time.Hour, Kind: APIDown, N: 3, For: 8 * time.Minute}, {At: time.Hour + 70*time.Second, Kind: DeleteMachine, N: 1}}},
		3 * time.Hour},
	{"nobody leads whose etcd does not run", Setup{Seed: 9, Replicas: 5, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
		Script: []Event{{At: time.Hour, Kind: Sicken, N: 1, For: time.Hour}, {At: time.Hour, Kind: Sicken, N: 2, For: time.Hour},
			{At: time.Hour, Kind: Sicken, N: 3, For: time.Hour},
			{At: time.Hour, Kind: Sicken, N: 4, For: time.Hour}, {At: time.Hour, Kind: Sicken, N: 5, For: time.Hour},
			{At: time.Hour + 10*time.Second, Kind: Crash, N: 5, For: time.Hour}, {At: time.Hour + 60*time.Second, Kind: DeleteLeader}}},
		4 * time.Hour},
	{"one that broke too often holds up no other", Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true,
		Repair: plan.RepairLimits{Most: 0, Healthy: 10 * time.Hour},
		Script: []Event{{At: 10 * time.Minute, Kind: Kill, N: 2}, {At: 20 * time.Minute, Kind: Scale, N: 5},
			{At: 30 * time.Minute, Kind: Kill, N: 4},
			{At: 31 * time.Minute, Kind: Kill, N: 6}, {At: 3 * time.Hour, Kind: SetRepair, N: 3}}}, 2 * time.Hour},
	{"an inactive group waits with all of it, and goes on afterwards", Setup{Seed: 9, Replicas: 3, Surge: 1, MaxParallel: 1, NodeOnly: true,
		Domains: abc, Places: true, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Deactivate, For: 30 * time.Minute}, {At: 11 * time.Minute, Kind: Scale, N: 5},
			{At: 12 * time.Minute, Kind: DeleteMachine, N: 1}, {At: 13 * time.Minute, Kind: Kill, N: 2}}}, 2 * time.Hour},
	{"an inactive group is deleted like any other", Setup{Seed: 9, Replicas: 3, Surge: 1, MaxParallel: 1, NodeOnly: true, Domains: abc,
		Places: true, Checks: true, Repair: always, Workers: true,
		Script: []Event{{At: 10 * time.Minute, Kind: Deactivate, For: 1000 * time.Hour}, {At: 11 * time.Minute, Kind: DeleteGroup}}},
		2 * time.Hour},
	{"machines of which only the Node is known are replaced", Setup{Seed: 9, Replicas: 3, Surge: 1, MaxParallel: 1, NodeOnly: true,
		Domains: abc, Places: true, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 11 * time.Minute, Kind: Unready, N: 2, For: 100 * time.Hour},
			{At: 30 * time.Minute, Kind: Silent, N: 3, For: 100 * time.Hour}}}, 2 * time.Hour},
	{"machines of which only the Node is known are replaced, without etcd", Setup{Seed: 9, Replicas: 2, Surge: 1, MaxParallel: 1,
		NodeOnly: true, External: true, Domains: abc, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 11 * time.Minute, Kind: DeleteMachine, N: 2},
			{At: time.Hour, Kind: DeleteMachine, N: 3}}}, 2 * time.Hour},
	{"a Node that is ready beside a dead etcd is no API server", Setup{Seed: 9, Replicas: 5, Surge: 1, MaxParallel: 1, NodeOnly: true,
		Domains: abc, Places: true, Checks: true, Repair: always,
		Script: []Event{{At: time.Hour, Kind: Unready, N: 2, For: 4 * time.Minute}, {At: time.Hour, Kind: Unready, N: 3, For: 4 * time.Minute},
			{At: time.Hour, Kind: Unready, N: 5, For: 4 * time.Minute},
			{At: time.Hour, Kind: APIDown, N: 2, For: 4 * time.Minute}, {At: time.Hour, Kind: APIDown, N: 3, For: 4 * time.Minute},
			{At: time.Hour, Kind: APIDown, N: 5, For: 4 * time.Minute},
			{At: time.Hour, Kind: StopEtcd, N: 4}, {At: time.Hour + 10*time.Second, Kind: DeleteMachine, N: 1},
			{At: time.Hour + 10*time.Minute, Kind: Mark, N: 4}}}, 3 * time.Hour},
	{"a machine of etcd whose member a person dropped holds up no other", Setup{Seed: 9, Replicas: 5, Surge: 1, EtcdOnly: true, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: 8*time.Minute + 20*time.Second, Kind: DeleteMachine, N: 1}, {At: 8*time.Minute + 30*time.Second, Kind: Change, N: 2},
			{At: 8*time.Minute + 31*time.Second, Kind: DropMember, N: 3}}}, time.Hour},
	{"a machine of etcd whose member a person dropped did come up", Setup{Seed: 9, Replicas: 5, Surge: 0, EtcdOnly: true, Places: true,
		Checks: true, Repair: always,
		Script: []Event{{At: time.Hour, Kind: DeleteMachine, N: 1}, {At: time.Hour, Kind: Change, N: 2},
			{At: time.Hour + time.Second, Kind: DropMember, N: 3}}}, 2 * time.Hour},
	{"a voter of an unknown machine that cannot be asked for a moment", Setup{Seed: 9, Replicas: 5, Surge: 0, EtcdOnly: true, Places: true,
		Checks: true, Repair: always, Luck: Luck{Blind: 60},
		Script: []Event{{At: 10 * time.Minute, Kind: Hide, N: 5, For: 40 * time.Minute}, {At: 11 * time.Minute, Kind: Change, N: 2},
			{At: 12 * time.Minute, Kind: DropMember, N: 4}}}, 3 * time.Hour},
	{"an operator keeps etcd, and complains of a dead machine while another is missing", Setup{Seed: 9, Replicas: 3, Surge: 1, MaxParallel: 1,
		NodeOnly: true, External: true, Operated: true, ShrinkHealthy: true, Domains: abc, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Scale, N: 5}, {At: 10*time.Minute + time.Second, Kind: Kill, N: 2}}}, 2 * time.Hour},
	{"an operator keeps etcd, and the only machine is deleted", Setup{Seed: 9, Replicas: 1, Surge: 1, MaxParallel: 1, NodeOnly: true,
		External: true, Operated: true, ShrinkHealthy: true, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: DeleteMachine, N: 1}}}, time.Hour},
	{"an operator keeps etcd, and its machines are rolled out while one dies", Setup{Seed: 9, Replicas: 3, Surge: 1, MaxParallel: 1,
		NodeOnly: true, External: true, Operated: true, ShrinkHealthy: true, Sturdy: true, Domains: abc, Checks: true, Repair: always,
		Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 12 * time.Minute, Kind: Kill, N: 1}}}, 3 * time.Hour},
}

// TestWorldsByName lets the rules run worlds that are known by name, each with many seeds.
func TestWorldsByName(t *testing.T) {
	for _, n := range named {
		t.Run(n.name, func(t *testing.T) {
			for seed := range int64(100) {
				s := n.setup
				s.Seed = seed
				if err := ends(s, n.within, nil); err != nil {
					story := &Story{}
					t.Fatalf("seed %d: %v\n%s", seed, ends(s, n.within, story), story)
				}
			}
		})
	}
}

// ends lets a world live, which must become as wanted, soon after the last event.
func ends(s Setup, within time.Duration, story *Story) error {
	w := New(s)
	w.story = story
	if _, err := w.live(); err != nil {
		return err
	}
	if err := w.AsWanted(); err != nil {
		return err
	}
	last := s.Script[len(s.Script)-1].At
	if took := w.now.Sub(w.start) - last; took > within {
		return fmt.Errorf("it took %s, more than %s", took, within)
	}
	return nil
}
