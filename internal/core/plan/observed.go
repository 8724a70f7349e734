package plan

import "time"

// Observed is everything that a decision may depend on. It is plain data:
// sorted, without clients, and written as JSON it is a complete bug report.
type Observed struct {
	// Now is when the facts were read. Decisions know no other clock.
	Now time.Time `json:"now"`
	// Group is the object that wants the machines.
	Group Group `json:"group"`
	// Want is what the user asked for, and Policy how the group's kind and its spec want it to be done.
	Want   Want   `json:"want"`
	Policy Policy `json:"policy"`
	// Cluster is what the machines need around them.
	Cluster Cluster `json:"cluster"`
	// Machines are those of the group, the oldest first, then by name.
	Machines []Machine `json:"machines,omitempty"`
	// Uncontrolled are the cluster's control plane machines that are not the group's, sorted by name.
	Uncontrolled []UncontrolledMachine `json:"uncontrolled,omitempty"`
	// Etcd is the quorum that the machines hold.
	Etcd Etcd `json:"etcd"`
	// Workers are the names of the cluster's other machines, sorted. Deletion waits for them.
	Workers []string `json:"workers,omitempty"`
	// Recovery is the requested recovery of etcd by a seed; the zero value: there is none.
	Recovery Recovery `json:"recovery,omitzero"`
	// Power is whether the group's machines are to run, and how far its hibernation is.
	Power Power `json:"power,omitzero"`
	// Choices are what a person decided, and is not done yet, sorted by their digest.
	Choices []Choice `json:"choices,omitempty"`
	// Remains are what the group's etcd can be recovered from. They are known only while it has no quorum, or no machine is left.
	Remains Remains `json:"remains,omitzero"`
}

// Recovery is a recovery of the group's etcd: a snapshot, the seed, is restored on one new machine, and all other machines are given up.
type Recovery struct {
	// Name is that of its object.
	Name string `json:"name,omitempty"`
	// Seed names the verified backup that is to be restored; empty: there is none yet.
	Seed string `json:"seed,omitempty"`
	// Approved is when a person approved this seed and these machines; zero: not approved.
	Approved time.Time `json:"approved,omitzero"`
	// GiveUp are the names of the machines that the person gives up, and Off of those that are off for good. Sorted.
	GiveUp []string `json:"giveUp,omitempty"`
	Off    []string `json:"off,omitempty"`
	// Begun: machines may be gone already.
	Begun bool `json:"begun,omitempty"`
	// Trouble is what keeps the seed back, for people; empty: nothing is known.
	Trouble string `json:"trouble,omitempty"`
}

// Power is whether the group's machines are to run, and how far its hibernation is. A hibernated group has no machine: it wakes from a
// backup.
type Power struct {
	// Hibernate: the user wants that no machine runs.
	Hibernate bool `json:"hibernate,omitempty"`
	// Refused says why the group cannot be hibernated; empty: it can, for all that is known.
	Refused string `json:"refused,omitempty"`
	// Requested is since when the group is on its way into hibernation; zero: it is not.
	Requested time.Time `json:"requested,omitzero"`
	// Running are the names of what keeps workers, and still wants some, sorted.
	Running []string `json:"running,omitempty"`
	// Backup is the verified backup from which the group wakes, Taken when it was taken, and Since when that was noted. From then on machines
	// go, or are gone. Empty: none was let go.
	Backup string    `json:"backup,omitempty"`
	Taken  time.Time `json:"taken,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Woken: the group serves from that backup again, and its workers are not back yet.
	Woken bool `json:"woken,omitempty"`
}

// Group is the object that wants the machines.
type Group struct {
	Name string `json:"name"`
	// Deleting: the group itself is to go, and all its machines with it.
	Deleting bool `json:"deleting,omitempty"`
	// Orphaning: it goes without its machines (--cascade=orphan), from which the garbage
	// collector takes the owner before it lets the group go.
	Orphaning bool `json:"orphaning,omitempty"`
	// Paused: a person holds the cluster or the group.
	Paused bool `json:"paused,omitempty"`
	// UpdatesPaused: a person holds updates in place between two machines; all else goes on.
	UpdatesPaused bool `json:"updatesPaused,omitempty"`
	// NoUpgrader says which image is missing to update machines in place, and how to set it. Empty: none is missing. All else goes on.
	NoUpgrader string `json:"noUpgrader,omitempty"`
	// Unapproved is the revision of the spec that a person must approve, and has not, before machines are replaced or changed in place; empty:
	// nothing needs an approval. What is missing or broken needs none.
	Unapproved string `json:"unapproved,omitempty"`
	// Window is whether machines may begin to be replaced or changed in place because of the spec now. What is missing or broken waits for no
	// window.
	Window Window `json:"window,omitzero"`
	// Replacements are the machines that the rollout replaced, or that were changed in place, in the last day or longer ago, each once, sorted
	// by their time. They are noted only where Policy.MaxReplacements limits them.
	Replacements []Replacement `json:"replacements,omitempty"`
	// ReplacementsUnreadable says why these cannot be read: what is written, and what is accepted. Empty: they can be.
	ReplacementsUnreadable string `json:"replacementsUnreadable,omitempty"`
	// Backup is what is known of the backups of the group's etcd, where Policy.MaxBackupAge asks for one before a change.
	Backup Backup `json:"backup,omitzero"`
	// Inactive: the next step is told, and not taken, until a person activates the group.
	Inactive bool `json:"inactive,omitempty"`
	// Initialized: a first machine once answered as API server. It never turns back.
	Initialized bool `json:"initialized,omitempty"`
	// New: it is proven that no machine of the group ever initialised a cluster. Neither
	// Initialized nor New: that is not known, as after a move, a restored backup or an
	// adoption, and nothing is taken away before the cluster was seen.
	New bool `json:"new,omitempty"`
	// LastMachine is the highest number that was ever put into a machine's name.
	LastMachine int `json:"lastMachine,omitempty"`
	// Repairing: a machine was given up because it broke, and is not replaced yet.
	Repairing bool `json:"repairing,omitempty"`
	// PartialCreate is the name of a machine whose creation was begun and not finished: its
	// infrastructure or bootstrap object is there, its Machine is not. Empty: none.
	PartialCreate string `json:"partialCreate,omitempty"`
}

// Backup is what is known of the backups of a group's etcd. All else of backups decides nothing.
type Backup struct {
	// Name is the newest verified backup of this very cluster, and Taken when it was taken, as its manifest says; empty: none is known.
	Name  string    `json:"name,omitempty"`
	Taken time.Time `json:"taken,omitzero"`
	// Required is since when the group needs a verified backup that was taken then or later; zero: it has not needed any.
	Required time.Time `json:"required,omitzero"`
	// Last is since when the group is being deleted and needs a last backup first, taken then or later; zero: it needs none.
	Last time.Time `json:"last,omitzero"`
	// Trouble is what came of the last attempt, for people: why the store cannot be used, or the backup not be taken or verified. Empty:
	// nothing is known to be wrong.
	Trouble string `json:"trouble,omitempty"`
}

// Replacement is a machine that is about to be replaced, or changed in place, or was.
type Replacement struct {
	Machine string `json:"machine"`
	// At is when that was begun, or tried last.
	At time.Time `json:"at"`
}

// UncontrolledMachine is a machine that counts as one of the cluster's control plane, and that
// the group does not control.
type UncontrolledMachine struct {
	Name string `json:"name"`
	// Against says why it cannot be adopted; empty: nothing contradicts it.
	Against string `json:"against,omitempty"`
}

// Want is what the user asked for.
type Want struct {
	Replicas int `json:"replicas"`
	// Domains are the failure domains for control planes, sorted. Empty: none are known.
	Domains []string `json:"domains,omitempty"`
	// NameFormat makes a machine's name from its number, with one %s for the number.
	NameFormat string `json:"nameFormat"`
	// DomainSeed decides between failure domains that are otherwise equal, so that not
	// all clusters begin in the same one: the cluster's name.
	DomainSeed string `json:"domainSeed,omitempty"`
	// EtcdVersion is the version of etcd that machines are made with now, such as v3.5.35; empty: it is not ours to change.
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Refused says why what the user asks for cannot or must not be carried out now. The
	// zero value: it can.
	Refused Refusal `json:"refused,omitzero"`
}

// Policy is how machines of one kind of groups join, are replaced and go. That their number must be odd follows from Etcd.
type Policy struct {
	// MaxParallel limits how many machines join at once; 0: no limit of the user's.
	MaxParallel int `json:"maxParallel,omitempty"`
	// Eager: machines are made while the first initialises the cluster, and held back until they may join.
	Eager bool `json:"eager,omitempty"`
	// Learners: what is wanted joins etcd as learner; kubeadm does from v1.29 on.
	Learners bool `json:"learners,omitempty"`
	// EtcdCall is how long kubeadm on a machine tries to reach etcd, or to have its learner promoted, before it gives up. Defaults to 2 min.
	EtcdCall time.Duration `json:"etcdCall,omitempty"`
	// MemberAdd is how long after its creation, or its Node's registration, kubeadm on a machine may still add a member: at least 10 min.
	// Defaults to 30 min.
	MemberAdd time.Duration `json:"memberAdd,omitempty"`
	// Surge is how many machines more than Want.Replicas a rollout may have: 1 or 0.
	Surge int `json:"surge"`
	// Overlap: with Surge, a rollout does not wait for the infrastructure of a machine that has left.
	Overlap bool `json:"overlap,omitempty"`
	// MaxReplacements is how many machines at most a rollout replaces, or changes in place, within 24 hours; 0: no limit. Broken machines are
	// replaced, and replicas scaled, all the same.
	MaxReplacements int `json:"maxReplacements,omitempty"`
	// MaxBackupAge is how old the newest verified backup may be before a machine that needs one is replaced or changed in place; 0: no machine
	// needs one. Broken machines are replaced, and replicas scaled, all the same.
	MaxBackupAge time.Duration `json:"maxBackupAge,omitempty"`
	// BackupBeforeSingle: the only machine needs one before it is changed in place.
	BackupBeforeSingle bool `json:"backupBeforeSingle,omitempty"`
	// ShrinkHealthy: a machine that is not outdated is taken away only while all that came up are healthy, but for those that a
	// person chose. Without it, a broken one goes first.
	ShrinkHealthy bool `json:"shrinkHealthy,omitempty"`
	// Repair limits how often the same machine is replaced.
	Repair RepairLimits `json:"repair,omitzero"`
	// EtcdOnly: machines run a member of etcd and nothing else. There is no API server to be reached or kept, and a learner
	// votes only when Quorate promotes it; elsewhere kubeadm does.
	EtcdOnly bool `json:"etcdOnly,omitempty"`
	// InPlace says which outdated machines are changed in place instead of being replaced.
	InPlace InPlace `json:"inPlace,omitempty"`
	// Defragment is when members of etcd are defragmented although no alarm is active.
	Defragment Defragmentation `json:"defragment,omitzero"`
}

// InPlace says which outdated machines are changed in place instead of being replaced.
type InPlace string

// The values of InPlace.
const (
	// InPlaceNever: all outdated machines are replaced.
	InPlaceNever InPlace = ""
	// InPlacePreferred: those are replaced that cannot be changed in place.
	InPlacePreferred InPlace = "Preferred"
	// InPlaceOnly: no machine is ever replaced, outdated or broken, but when a person deletes it.
	InPlaceOnly InPlace = "Only"
	// InPlaceExternal: another controller changes them, and the rules wait for it. Broken machines are replaced.
	InPlaceExternal InPlace = "External"
)

// Ours reports whether Quorate itself changes machines in place.
func (p InPlace) Ours() bool { return p == InPlacePreferred || p == InPlaceOnly }

// Refusal is why nothing is begun that the user asks for: the spec cannot be carried out, or
// somebody else goes first. What was begun is finished, and what runs is protected.
type Refusal struct {
	// Reason is one CamelCase word; empty: nothing is refused.
	Reason string `json:"reason,omitempty"`
	// Message says the same to a person, with the field, its value and what is valid.
	Message string `json:"message,omitempty"`
	// Replaceable: machines can be made all the same, as those are that are there, so that a
	// broken one is replaced.
	Replaceable bool `json:"replaceable,omitempty"`
}

// isRefused: something that the spec asks for is not begun.
func (w Want) isRefused() bool { return w.Refused.Reason != "" }

// RepairLimits say how often a machine is replaced whose replacements break as well.
type RepairLimits struct {
	// Most is how often at most; negative: as often as it takes.
	Most int `json:"most"`
	// Period is the least time between two times.
	Period time.Duration `json:"period,omitempty"`
	// Healthy is how long a replacement must have been well for its failure to be a new one.
	Healthy time.Duration `json:"healthy,omitempty"`
}

// Cluster is what the machines need around them before any may be made.
type Cluster struct {
	// Infrastructure: the infrastructure of the cluster is provisioned.
	Infrastructure bool `json:"infrastructure"`
	// Endpoint is host:port of the API server; empty until it is known.
	Endpoint string `json:"endpoint,omitempty"`
	// Template says what is wrong with the machine template; empty: it is there.
	Template string `json:"template,omitempty"`
	// Chores are what the group keeps beside machines and that is not as it should be, or expires, in the order in which it
	// is to be done.
	Chores []Chore `json:"chores,omitempty"`
	// Reachable: the cluster's API server answers and the facts from it are complete.
	Reachable bool `json:"reachable"`
	// Unreachable says why it does not; empty when Reachable.
	Unreachable string `json:"unreachable,omitempty"`
	// FailingSince is since when no attempt to reach the API server has found it ready, and SilentSince since when nothing at all has answered
	// at the endpoint: a refusal or an error is an answer. Both are counted again when the manager starts, or has no kubeconfig to ask with.
	// Zero: it is ready, something answers, or the manager did not ask.
	FailingSince time.Time `json:"failingSince,omitzero"`
	SilentSince  time.Time `json:"silentSince,omitzero"`
	// Names are those that Nodes of the cluster have, formed as Want.NameFormat says, and that no machine of the group has, sorted. Where
	// there are many, they are those with the highest numbers. A new machine gets none of them.
	Names []string `json:"names,omitempty"`
	// Initializing says what a reachable cluster still lacks to be initialized; empty: nothing, or it is not known.
	Initializing string `json:"initializing,omitempty"`
}

// Health is what is known of a component. The zero value is Unknown: what is
// not known is never taken for healthy.
type Health string

// The values of Health.
const (
	Unknown   Health = ""
	Healthy   Health = "Healthy"
	Unhealthy Health = "Unhealthy"
)

// Machine is one machine of the group, as last seen.
type Machine struct {
	Name    string    `json:"name"`
	Domain  string    `json:"domain,omitempty"`
	Created time.Time `json:"created"`
	// Host is the name that the machine has in the cluster, which is its member's as well: that of its Node, or, where machines
	// have none, of its member. Empty until it is up.
	Host string `json:"host,omitempty"`
	// UpSince is when it came up: when its Node was registered.
	UpSince time.Time `json:"upSince,omitzero"`
	// Ready is what it says of itself: its Node's condition Ready. Growth does not wait for it.
	Ready bool `json:"ready,omitempty"`
	// Components are the static pods that the machine should run, sorted by name.
	Components []Component `json:"components,omitempty"`
	// Failed is what ended the machine's bootstrap, in the provider's words; empty: nothing did.
	Failed string `json:"failed,omitempty"`
	// CannotJoin says why nothing on the machine will add a member to etcd any more, or never
	// began to: its member was removed, its etcd runs or ran, it has no bootstrap data.
	// Empty: it may, for all that is known.
	CannotJoin string `json:"cannotJoin,omitempty"`
	// Gone: its infrastructure says that nothing is left of it on its host. Nothing runs there, or ever will, and CannotJoin says so.
	Gone bool `json:"gone,omitempty"`
	// Off: it is being deleted, and a person declared it off for good in a recovery that has begun: its infrastructure may never go.
	// CannotJoin says so.
	Off bool `json:"off,omitempty"`
	// Seeded: it was made by the seed of the group's recovery.
	Seeded bool `json:"seeded,omitempty"`
	// JoinsAsVoter: what runs on it adds its member as a voter, whatever the policy says of what is wanted now.
	JoinsAsVoter bool `json:"joinsAsVoter,omitempty"`
	// Held: it was made ahead, and its bootstrap is held back until a step starts it. It neither initialises nor joins before.
	Held bool `json:"held,omitempty"`
	// Started is when the bootstrap of a machine was started that was made ahead; zero: it was not.
	Started time.Time `json:"started,omitzero"`
	// Updating says what another controller is changing inside the machine, and the rules wait for it; empty: nothing.
	Updating string `json:"updating,omitempty"`
	// Outdated says in what the machine differs from what is wanted; empty: in nothing. Another takes its place, or it is
	// changed in place, as Policy.InPlace says.
	Outdated string `json:"outdated,omitempty"`
	// NeedsReplacement names those fields, of what is Outdated, that cannot be changed in place, for people; empty: all can be.
	NeedsReplacement string `json:"needsReplacement,omitempty"`
	// NeedsBackup says which difference, of what is Outdated, needs a backup first, for people; empty: none does.
	NeedsBackup string `json:"needsBackup,omitempty"`
	// Unanswered says why it is not known whether what is Outdated can be changed in place: who would change it has not said so. Until then
	// the machine is neither changed nor replaced for it; empty: it is known.
	Unanswered string `json:"unanswered,omitempty"`
	// Update is the machine's update in place; the zero value: there is none, or it is recorded.
	Update Update `json:"update,omitzero"`
	// Gate names a readiness gate of the user's that is not passed; empty: none.
	Gate string `json:"gate,omitempty"`
	// Marked says why a health check, or a person, wants it replaced; empty: it is not marked.
	Marked string `json:"marked,omitempty"`
	// MarkedByPerson: a person marked it, by an annotation, and not, or not only, a health check.
	MarkedByPerson bool `json:"markedByPerson,omitempty"`
	// DeletePreferred: a person marked it as the one to go when one must.
	DeletePreferred bool `json:"deletePreferred,omitempty"`
	// Replaced is when the machine that this one took the place of was given up, and
	// Retries how many before that one in short order; zero: it replaces none.
	Replaced time.Time `json:"replaced,omitzero"`
	Retries  int       `json:"retries,omitempty"`
	// Deleting: the Machine is being deleted.
	Deleting bool `json:"deleting,omitempty"`
	// Hook: our pre-terminate hook is on the Machine, so that it cannot go before its member has.
	Hook bool `json:"hook,omitempty"`
	// HookDue: all other work of the deletion is done, and it waits for our hook.
	HookDue bool `json:"hookDue,omitempty"`
}

// isUp: it is known to the cluster, by its Node or its member.
func (m Machine) isUp() bool { return m.Host != "" }

// canJoin: it may still add a member to etcd by itself, for all that is known.
func (m Machine) canJoin() bool { return m.CannotJoin == "" && !m.isHeld() }

// lostMember: it is there for a member of etcd alone, and that is gone. The member is the only sign of such a machine, and it
// does not show whether the machine was ever up.
func (m Machine) lostMember(p Policy) bool {
	return p.EtcdOnly && !m.isUp() && m.CannotJoin != ""
}

// isReleased: it leaves, and nothing holds it any more; its host goes at any moment.
func (m Machine) isReleased() bool { return m.Deleting && !m.Hook }

// isHeld: it was made ahead and does nothing until its bootstrap is started.
func (m Machine) isHeld() bool { return m.Held && !m.isUp() }

// isOutdated: only another machine can be what is wanted.
func (m Machine) isOutdated() bool { return m.Outdated != "" }

// needsReplacement: something of what is outdated cannot be changed in place.
func (m Machine) needsReplacement() bool { return m.NeedsReplacement != "" }

// isUnanswered: it is not known whether what is outdated can be changed in place.
func (m Machine) isUnanswered() bool { return m.Unanswered != "" }

// isMarked: a health check, or a person, wants it replaced.
func (m Machine) isMarked() bool { return m.Marked != "" }

// Update is how far the update of a machine in place is, which Quorate began. Somebody carries it out on the node, and gives up in
// time: no update is under way for ever, even where the node is dead.
type Update struct {
	State UpdateState `json:"state,omitempty"`
	// Message says the same to a person: the step that is under way or failed, why, and what to do.
	Message string `json:"message,omitempty"`
	// Unfinished: its beginning was cut off, and it is not carried out before it is begun in full.
	Unfinished bool `json:"unfinished,omitempty"`
	// Obsolete: it is for another spec than the one that is wanted now, or somebody else is to update the machine now.
	Obsolete bool `json:"obsolete,omitempty"`
	// Changed: it failed after the node was changed, and the node was not put back. While the objects say otherwise, only another
	// update or another machine makes that good.
	Changed bool `json:"changed,omitempty"`
}

// UpdateState is how far an update in place is.
type UpdateState string

// The values of UpdateState; the zero value: there is no update.
const (
	// UpdateUnderway: the node may change at any moment, so that its member and its API server count as down.
	UpdateUnderway UpdateState = "Underway"
	// UpdateDone: the node runs what the update was made for, and the objects do not say so yet.
	UpdateDone UpdateState = "Done"
	// UpdateFailed: it ended before that. The node is as it was, unless it is Changed.
	UpdateFailed UpdateState = "Failed"
)

// Component is one static pod of a machine.
type Component struct {
	// Name is kube-apiserver, kube-controller-manager, kube-scheduler or etcd.
	Name   string `json:"name"`
	Health Health `json:"health,omitempty"`
	// Why is what is wrong, when it is not healthy.
	Why string `json:"why,omitempty"`
}

// Etcd is the quorum that the machines hold.
type Etcd struct {
	// Owner keeps the members that run on the group's machines.
	Owner EtcdOwner `json:"owner,omitempty"`
	// Known: the list of members was read. Without it nothing that touches members may be done.
	Known bool `json:"known"`
	// Why says why the list is not known, in which members disagree, or which alarm is active. Empty: nothing is wrong.
	Why string `json:"why,omitempty"`
	// Agreed: every member that answered has the same list.
	Agreed bool `json:"agreed"`
	// StrayAlarms are active alarms of members that are not in the list, as sentences. Nothing is decided by them.
	StrayAlarms []string `json:"strayAlarms,omitempty"`
	// Members are those of the list, sorted by ID.
	Members []Member `json:"members,omitempty"`
	// MaxLearners is how many learners etcd takes at once, as its members are told to; 0: they are told nothing, and take one.
	MaxLearners int `json:"maxLearners,omitempty"`
	// Doubted says why a new member could get wrong data although no member is known that has them: most members do not have the same data, or
	// some had not when they were compared last, and are compared again. Empty: nothing speaks against it.
	Doubted string `json:"doubted,omitempty"`
	// Downgrade is the version to which a downgrade lowers etcd's data, such as 3.5.0, so that no member can join; empty: to none.
	Downgrade string `json:"downgrade,omitempty"`
	// Requests are what a person asked to be done about the members.
	Requests Requests `json:"requests,omitzero"`
	// Disarmed is when Quorate last ended an alarm, and LeaderMoved when it last moved the leader; zero: not known.
	Disarmed    time.Time `json:"disarmed,omitzero"`
	LeaderMoved time.Time `json:"leaderMoved,omitzero"`
	// CompactTo is a revision that etcd had a minute ago or before, Compacted the one up to which it was compacted last, and CompactedAt when.
	// Known while a member raises NOSPACE; zero: not known.
	CompactTo   int64     `json:"compactTo,omitempty"`
	Compacted   int64     `json:"compacted,omitempty"`
	CompactedAt time.Time `json:"compactedAt,omitzero"`
}

// EtcdOwner says who keeps the members of etcd that run on a group's machines.
type EtcdOwner string

// The values of EtcdOwner.
const (
	// EtcdElsewhere: no members run on these machines.
	EtcdElsewhere EtcdOwner = ""
	// EtcdOurs: Quorate asks, adds and removes them.
	EtcdOurs EtcdOwner = "Ours"
	// EtcdOperator: an operator in the cluster does. More than half of the machines must stay complete: a majority of the
	// members is not known to anybody else here.
	EtcdOperator EtcdOwner = "Operator"
)

// Ours reports whether members run on the group's machines that are Quorate's to keep.
func (e Etcd) Ours() bool { return e.Owner == EtcdOurs }

// Operated reports whether members run on the group's machines that an operator keeps.
func (e Etcd) Operated() bool { return e.Owner == EtcdOperator }

// Member is one member of the etcd cluster.
type Member struct {
	// ID is etcd's, in hexadecimal.
	ID string `json:"id"`
	// Name is the Node's name; empty until the member has started once.
	Name string `json:"name,omitempty"`
	// Machine is the one it runs or will run on; empty when none of the group's is known for it.
	Machine string `json:"machine,omitempty"`
	Learner bool   `json:"learner,omitempty"`
	// Placeholder: Quorate added this learner, and nothing ever starts it. It takes a learner slot, so that no machine can join as a learner.
	Placeholder bool `json:"placeholder,omitempty"`
	Leader      bool `json:"leader,omitempty"`
	// Health is what the member answered for itself, and Why what keeps it from being Healthy, in etcd's own words.
	Health Health `json:"health,omitempty"`
	Why    string `json:"why,omitempty"`
	// InSync: a learner has so much of the log that etcd lets it vote.
	InSync bool `json:"inSync,omitempty"`
	// Version is that of its etcd, such as 3.6.16, and Storage that of its data, such as 3.6.0; empty: not known. 3.5 does not tell Storage.
	Version string `json:"version,omitempty"`
	Storage string `json:"storage,omitempty"`
	// Differs: its data are others than those of most members, which are the same.
	Differs bool `json:"differs,omitempty"`
	// Alarms are the active ones: NOSPACE, CORRUPT. Sorted.
	Alarms []string `json:"alarms,omitempty"`
	// Size is how many bytes its data take on its disk, InUse how many of them they need, and Quota how many they may take before etcd raises
	// NOSPACE. Known while a member raises that, or a defragmentation is wanted; 0: not known.
	Size  int64 `json:"size,omitempty"`
	InUse int64 `json:"inUse,omitempty"`
	Quota int64 `json:"quota,omitempty"`
	// Defragmented is when it was last defragmented; zero: not known.
	Defragmented time.Time `json:"defragmented,omitzero"`
	// Since is when it was first seen as it is now: in this list, learner or voter, with or without a name, with this health.
	Since time.Time `json:"since,omitzero"`
}
