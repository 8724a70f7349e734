package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

var update = flag.Bool("update", false, "write the stories down as they are now; read the difference before you keep it")

var abc = []string{"a", "b", "c"}

// always: a machine is replaced as often as it breaks.
var always = plan.RepairLimits{Most: -1, Healthy: time.Hour}

// stories are whole lives that everybody should know.
var stories = []struct {
	name, about string
	setup       Setup
}{
	{"create-3", "Three machines: the first initialises, the others join at once.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true}},
	{"create-3-one-by-one", "The same with joins.maxParallel 1.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, MaxParallel: 1}},
	{"create-3-as-voters", "The same with a kubeadm that does not know learners.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Serial: true}},
	{"create-3-ahead", "The same with joins.eager: all are made at once, and the others wait for the first.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Eager: true}},
	{"first-deleted-ahead", "The first machine is deleted while it initialises the cluster: another does, and who was made ahead joins " +
		"that one.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Eager: true, Script: []Event{{At: 8 * time.Second, Kind: DeleteMachine, N: 1}}}},
	{"create-4-external-etcd", "Four machines, etcd elsewhere; two of them go again.",
		Setup{Seed: 9, Replicas: 4, Domains: abc, External: true, Script: []Event{{At: 5 * time.Minute, Kind: Scale, N: 2}}}},
	{"scale-3-5-3-1-3", "Up and down, the leader handing over before its machine goes; 3 to 1 passes 2 with a quorum " +
		"(cluster-api-provider-rke2 #263, cluster-api-k3s #96).",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{
			{At: 5 * time.Minute, Kind: Scale, N: 5}, {At: 10 * time.Minute, Kind: Scale, N: 3},
			{At: 15 * time.Minute, Kind: Scale, N: 1}, {At: 20 * time.Minute, Kind: Scale, N: 3},
		}}},
	{"join-dies", "A host dies after its member was added: the others join all the same (etcd #13221, a member that never starts blocks " +
		"every later join).",
		Setup{Seed: 9, Checks: true, Repair: always, Replicas: 5, Domains: abc, Places: true,
			Fates: map[int]Fate{3: {At: starting, Dies: true}}}},
	{"join-fails", "kubeadm gives up, and the provider says so.",
		Setup{Seed: 9, Checks: true, Repair: always, Replicas: 3, Domains: abc, Places: true, Reports: true,
			Fates: map[int]Fate{2: {At: syncing}}}},
	{"join-never-boots", "A machine that never comes up, with one join at a time.",
		Setup{Seed: 9, Checks: true, Repair: always, Replicas: 3, Domains: abc, Places: true, MaxParallel: 1,
			Fates: map[int]Fate{2: {At: booting}}}},
	{"init-dies", "The first machine dies before it has initialised anything.",
		Setup{Seed: 9, Checks: true, Repair: always, Replicas: 3, Domains: abc, Places: true, Fates: map[int]Fate{1: {At: raising, Dies: true}}}},
	{"member-left-behind", "Somebody forces a machine away, and its member stays behind (cluster-api #2818, k0smotron #459 and #991).",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{{At: 5 * time.Minute, Kind: ForceDelete, N: 1}}}},
	{"machine-deleted", "Somebody deletes the machine of the leader.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{{At: 5 * time.Minute, Kind: DeleteMachine, N: 1}}}},
	{"dead-machine-deleted", "A host of three dies; somebody deletes its machine.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{{At: 5 * time.Minute, Kind: Kill, N: 2},
			{At: 8 * time.Minute, Kind: DeleteMachine, N: 2}}}},
	{"all-machines-deleted", "Somebody deletes all machines, one after the other.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{
			{At: 5 * time.Minute, Kind: DeleteMachine, N: 1}, {At: 301 * time.Second, Kind: DeleteMachine, N: 2},
			{At: 302 * time.Second, Kind: DeleteMachine, N: 3},
		}}},
	{"last-machine-deleted", "Somebody deletes the only machine: it is replaced before it goes.",
		Setup{Seed: 9, Replicas: 1, Domains: abc, Places: true, Script: []Event{{At: 3 * time.Minute, Kind: DeleteMachine, N: 1}}}},
	{"joining-machine-deleted", "Somebody deletes a machine that is joining a single member.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{{At: 70 * time.Second, Kind: DeleteMachine, N: 2}}}},
	{"quorum-lost", "Two hosts of three die: nothing is touched.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{
			{At: 5 * time.Minute, Kind: Kill, N: 1}, {At: 6 * time.Minute, Kind: Kill, N: 2}, {At: 7 * time.Minute, Kind: DeleteMachine, N: 1},
			{At: 8 * time.Minute, Kind: Scale, N: 5},
		}}},
	{"scale-down-with-a-dead-one", "Of three machines, one dead, one is to stay.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{{At: 5 * time.Minute, Kind: Kill, N: 2},
			{At: 8 * time.Minute, Kind: Scale, N: 1}}}},
	{"etcd-restarts", "etcd on a machine stops for a while as the group grows.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{
			{At: 5 * time.Minute, Kind: Crash, N: 2, For: time.Minute}, {At: 5*time.Minute + 5*time.Second, Kind: Scale, N: 5},
		}}},
	{"controller-dies", "The controller dies in the middle of steps, steps are lost or done twice, and looks are old.",
		Setup{Seed: 5, Replicas: 3, Domains: abc, Places: true, Luck: Luck{Dropped: 15, Repeated: 20, CutShort: 25, Stale: 40},
			Script: []Event{{At: 5 * time.Minute, Kind: Scale, N: 1}}}},
	{"controller-dies-between-steps", "The controller dies after every step while leaders hand over, members are removed and machines go " +
		"(cluster-api #4365 and #8877).",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: append([]Event{{At: 5 * time.Minute, Kind: Scale, N: 1}},
			restarts(5*time.Minute, 326*time.Second)...)}},
	{"clock-ahead", "A clock that is ahead makes a certificate that etcd finds not yet valid: what cannot be asked is not dead, and nothing " +
		"is deleted (cluster-api #4304).",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{
			{At: 5 * time.Minute, Kind: Refuse, For: 3 * time.Minute}, {At: 5*time.Minute + time.Second, Kind: Scale, N: 1},
			{At: 5*time.Minute + 2*time.Second, Kind: DeleteMachine, N: 2},
		}}},
	{"first-restarts", "etcd on the first machine restarts, twice, while one becomes three (etcd-backup-restore #646).",
		Setup{Seed: 9, Replicas: 1, Domains: abc, Places: true, Script: []Event{
			{At: 3 * time.Minute, Kind: Scale, N: 3}, {At: 3*time.Minute + 20*time.Second, Kind: Crash, N: 1, For: 15 * time.Second},
			{At: 3*time.Minute + 50*time.Second, Kind: Crash, N: 1, For: 15 * time.Second},
		}}},
	{"etcd-hangs", "etcd on a machine stands still. To the others it is connected, and they would let one go that is needed; nobody is.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{
			{At: 5 * time.Minute, Kind: Hang, N: 2, For: 2 * time.Minute}, {At: 5*time.Minute + 5*time.Second, Kind: DeleteMachine, N: 3},
			{At: 6 * time.Minute, Kind: Scale, N: 5},
		}}},
	{"rollout-surge-1", "Another spec: one machine more than wanted, the leader's goes last.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}}}},
	{"rollout-overlap", "The same beside the hosts of those that have left, which take up to half an hour to go: one may linger, and the " +
		"rollout waits for a second.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Overlap: true, Domains: abc, Places: true, Leave: 30 * time.Minute,
			Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}}}},
	{"rollout-surge-0", "The same without one more: one goes first.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}}}},
	{"backup-before-rollout", "The rollout needs a backup, and the store is down: a host that dies meanwhile is replaced all the same. " +
		"What the store has then is a backup of another cluster, and one that is too old.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
			Gate: time.Hour, Gated: map[int]bool{2: true}, Script: []Event{
				{At: 4 * time.Minute, Kind: StoreDown, For: 10 * time.Minute}, {At: 5 * time.Minute, Kind: Change, N: 2},
				{At: 6 * time.Minute, Kind: Kill, N: 3}, {At: 13 * time.Minute, Kind: StoreLies, N: 0}, {At: 13 * time.Minute, Kind: StoreLies, N: 3},
			}}},
	{"bad-spec-corrected", "A spec of which the Node is never ready: the rollout stands, until the spec is corrected.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Bad: map[int]Fate{2: {At: up}},
			Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}, {At: 10 * time.Minute, Kind: Change, N: 3}}}},
	{"bad-spec-reverted", "A spec of which no machine joins, without surge; it is reverted while the first tries.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Bad: map[int]Fate{2: {At: starting}},
			Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}, {At: 7 * time.Minute, Kind: Change, N: 1}}}},
	{"repair-one-of-three", "A host of three dies, and the health check finds it.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
			Script: []Event{{At: 5 * time.Minute, Kind: Kill, N: 1}}}},
	{"repair-two-of-five", "Two hosts of five die at once.",
		Setup{Seed: 9, Replicas: 5, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
			Script: []Event{{At: 5 * time.Minute, Kind: Kill, N: 1}, {At: 5 * time.Minute, Kind: Kill, N: 4}}}},
	{"repair-that-breaks-again", "No machine that replaces another comes up: the third is left alone for as long as it should have been well.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: plan.RepairLimits{Most: 2, Healthy: time.Hour},
			Fates:  map[int]Fate{4: {At: booting}, 5: {At: booting}, 6: {At: booting}},
			Script: []Event{{At: 5 * time.Minute, Kind: Kill, N: 2}}}},
	{"rollout-leader-dies", "The leader's host dies in the middle of a rollout; the health check finds it.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
			Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}, {At: 6 * time.Minute, Kind: Kill, N: 1}}}},
	{"rollout-and-scale", "Another spec and five instead of three: what is missing is made first, of the new spec.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true,
			Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}, {At: 5*time.Minute + 20*time.Second, Kind: Scale, N: 5}}}},
	{"rollout-machine-deleted", "Somebody deletes an old machine in the middle of a rollout.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true,
			Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}, {At: 5*time.Minute + 30*time.Second, Kind: DeleteMachine, N: 3}}}},
	{"dead-and-leaving", "A host freezes and is marked while another machine is being deleted: the dead one goes first, and neither waits " +
		"for the other.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
			Script: []Event{{At: 10 * time.Minute, Kind: Freeze, N: 1, For: 500 * time.Hour}, {At: 11 * time.Minute, Kind: DeleteMachine, N: 2},
				{At: 12 * time.Minute, Kind: Mark, N: 1}}}},
	{"dead-and-leaving-rollout", "The same, where it is a rollout without surge that deletes.",
		Setup{Seed: 9, Replicas: 3, Surge: 0, Domains: abc, Places: true, Checks: true, Repair: always,
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 10*time.Minute + 2*time.Second, Kind: Freeze, N: 1,
				For: 500 * time.Hour}}}},
	{"doomed-voter", "A machine that nobody wants any more starts late, and its infrastructure takes an hour to go: what joins there " +
		"never counts.",
		Setup{Seed: 0, Replicas: 3, Surge: 1, Places: true, Checks: true, Repair: always, Boot: 25 * time.Minute, Leave: time.Hour, Sturdy: true,
			Script: []Event{{At: time.Hour, Kind: Change, N: 2}, {At: time.Hour + 20*time.Second, Kind: Change, N: 3},
				{At: 65 * time.Minute, Kind: Kill, N: 2}}}},
	{"status-lost-in-a-rollout", "Status is lost while no API server answers in the middle of a rollout: nothing is taken away before the " +
		"cluster is seen again.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 10*time.Minute + 10*time.Second, Kind: Outage, For: time.Minute},
				{At: 10*time.Minute + 10*time.Second, Kind: LoseStatus}}}},
	{"frozen-host-returns", "A frozen host comes back when its machine was given up already, and its member is gone.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always, Leave: time.Hour,
			Script: []Event{{At: 10 * time.Minute, Kind: Freeze, N: 1, For: 20 * time.Minute}}}},
	{"downgrade", "Etcd on machines of its own goes from 3.6 to 3.5, and the controller starts anew every second meanwhile.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, EtcdOnly: true, Minors: map[int]int{1: 6, 2: 5},
			Script: append([]Event{{At: 5 * time.Minute, Kind: Change, N: 2}}, restarts(5*time.Minute, 6*time.Minute)...)}},
	{"downgrade-machine-dies", "The first machine of the older version dies when its member is in the list, and the next when it alone is " +
		"of the older version: it begins again.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, EtcdOnly: true, Minors: map[int]int{1: 6, 2: 5}, Checks: true,
			Repair: always,
			Fates:  map[int]Fate{4: {At: starting, Dies: true}},
			Script: []Event{{At: 5 * time.Minute, Kind: Change, N: 2}, {At: 35*time.Minute + 50*time.Second, Kind: Kill, N: 5}}}},
	{"downgrade-taken-back", "An older etcd is asked for while a member is away: nothing is lowered. It is taken back when it was, and once " +
		"more when the first machine votes.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, EtcdOnly: true, Minors: map[int]int{1: 6, 2: 5},
			Script: []Event{
				{At: 5 * time.Minute, Kind: Crash, N: 2, For: time.Minute}, {At: 5*time.Minute + time.Second, Kind: Change, N: 2},
				{At: 6*time.Minute + 5*time.Second, Kind: Change, N: 1}, {At: 8 * time.Minute, Kind: Change, N: 2},
				{At: 8*time.Minute + 40*time.Second, Kind: Change, N: 1},
			}}},
	{"update-in-place", "Three machines are updated where they are: one after the other, the leader's last, which hands over before.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, InPlace: plan.InPlaceOnly,
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}}}},
	{"update-single", "The only machine is updated: nothing answers meanwhile, and nothing is done.",
		Setup{Seed: 9, Replicas: 1, Surge: 1, Domains: abc, Places: true, InPlace: plan.InPlacePreferred,
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}}}},
	{"update-fails-reverted", "No machine comes up of the new spec: the first is put back and the others stay, until a person changes the " +
		"spec back.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, InPlace: plan.InPlacePreferred, Bad: map[int]Fate{2: {At: settling}},
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 30 * time.Minute, Kind: Change, N: 1}}}},
	{"update-second-version", "Another spec is wanted while the first machine is updated: that is finished and recorded, and all are " +
		"updated to the new one.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, InPlace: plan.InPlaceOnly,
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 10*time.Minute + 30*time.Second, Kind: Change, N: 3}}}},
	{"update-machine-dies", "A machine dies while it is updated: the update is given up, and the health check has the machine replaced.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always, InPlace: plan.InPlacePreferred,
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 10*time.Minute + 20*time.Second, Kind: Kill, N: 2}}}},
	{"update-falls-back", "What cannot be changed in place is replaced, one machine after the other.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, InPlace: plan.InPlacePreferred, Fixed: map[int]bool{2: true},
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}}}},
	{"update-elsewhere", "Somebody else updates the machines: they are waited for, and none is replaced.",
		Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, InPlace: plan.InPlaceExternal,
			Script: []Event{{At: 10 * time.Minute, Kind: Change, N: 2}, {At: 12 * time.Minute, Kind: Elsewhere, N: 2},
				{At: 14 * time.Minute, Kind: Elsewhere, N: 1}, {At: 16 * time.Minute, Kind: Elsewhere, N: 3}}}},
	{"group-deleted", "The group is deleted; it waits for the workers.",
		Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true, Workers: true, Script: []Event{{At: 5 * time.Minute, Kind: DeleteGroup},
			{At: 301 * time.Second, Kind: DeleteMachine, N: 3}}}},
}

// restarts are those of the controller, every second.
func restarts(from, to time.Duration) []Event {
	var out []Event
	for at := from; at < to; at += time.Second {
		out = append(out, Event{At: at, Kind: Restart})
	}
	return out
}

// TestStories compares a few whole lives with how they were written down.
func TestStories(t *testing.T) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			story := &Story{}
			_, err := Live(s.setup, story)
			got := fmt.Sprintf("%s\n\n%s", s.about, story)
			if err != nil {
				t.Errorf("%v\n%s", err, got)
			}
			golden := filepath.Join("testdata", s.name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestSameSetupSameLife: nothing but the Setup decides how a world goes.
func TestSameSetupSameLife(t *testing.T) {
	for seed := range int64(200) {
		var first, second Story
		Live(Random(seed), &first)
		Live(Random(seed), &second)
		if first.String() != second.String() {
			t.Fatalf("seed %d:\n%s\nand then\n%s", seed, &first, &second)
		}
	}
}
