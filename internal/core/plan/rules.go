package plan

import "fmt"

// rules, the most urgent first. What was begun is finished before anything is
// begun, and nothing is begun on facts that are missing or on a quorum that is lost.
var rules = []rule{
	{
		name: "hold",
		says: "A person who pauses the cluster or the group stops everything. An inactive group reports its next step, and does not take it.",
		gives: []Reason{
			{"Paused", Wait, "the cluster or the group is paused"},
			{"Inactive", Wait, "the group is inactive, and reports what it would do"},
		},
		decide: hold,
	},
	{
		name: "delete group",
		says: "A group that is being deleted waits for the workers, keeping its quorum in order meanwhile; then all its machines go " +
			"at once, and it follows.",
		gives: []Reason{
			{"Orphaning", Wait, "it is deleted without its machines (--cascade=orphan), and the garbage collector takes it off them first"},
			{"WorkersRemain", Wait, "other machines of the cluster still need the control plane"},
			{"MachineDeleting", MoveLeader, "while workers remain, as in finish removals"},
			{"MachineDeleting", RemoveMember, "while workers remain, as in finish removals"},
			{"MachineDeleting", AddPlaceholder, "while workers remain, as in finish removals"},
			{"MachineDeleting", ReleaseHook, "while workers remain, as in finish removals"},
			{LastBackupRequired, Wait, "spec.backup.lastBackup is Required, and no verified backup was taken since the deletion"},
			{"GroupDeleting", Delete, "the group is being deleted, and this machine with it"},
			{"GroupDeleting", ReleaseHook, "no machine needs the member any more"},
			{"GroupDeleting", Wait, "its machines are going"},
			{"GroupGone", Finish, "its machines are gone"},
		},
		decide: deleteGroup,
	},
	{
		name: "recover",
		says: "Once a person has approved a recovery by a seed, within the last 15 minutes, and etcd has no quorum, nothing else is " +
			"done. A missing kubeconfig is written all the same: without one Quorate does not see whether an API server answers. Every " +
			"machine that the person gave up is deleted together with its infrastructure. When none of them can answer any more, nor any API " +
			"server, one new machine restores the seed and initialises the cluster. The recovery ends when that machine serves; the " +
			"rules below then add the others. A machine that cannot be deleted holds the seed back until a person declares it off. If " +
			"such a machine was not off and joins the cluster of the seed, its member is removed.",
		gives: []Reason{
			{"Recovering", BeginRecovery, "the recovery is approved, and etcd has no quorum"},
			{"Recovering", GiveUp, "it is one of the machines that were given up"},
			{"Recovering", Create, "no other machine can answer any more"},
			{"Recovering", MoveLeader, "a leader hands over before it leaves"},
			{"Recovering", RemoveMember, "its machine was given up, and joined the cluster of the seed all the same"},
			{"Recovered", EndRecovery, "the new machine serves from the seed"},
			{ChoreReason, Write, "the kubeconfig is missing or expires within 30 days, or the snapshot lacks permissions to ask etcd"},
			{"RecoveryUnapproved", Wait, "it was changed after it began, and a person must approve it again"},
			{"RecoveryNotGivenUp", Wait, "a machine, or a voter without one, is there that the person did not give up"},
			{"RecoveryFencing", Wait, "a machine that was given up may still answer: its infrastructure is not gone; or something answers at the " +
				"endpoint, or did a moment ago"},
			{"RecoveryRefused", Wait, "the spec cannot be carried out: no machine can be made as it says"},
			{"RecoverySeeding", Wait, "the new machine restores the seed and initialises the cluster"},
			{"RecoveryFailed", Wait, "the new machine could not restore the seed, or not initialise the cluster; or its etcd lost its quorum again"},
			{"InfrastructureNotReady", Wait, "the cluster's infrastructure is not provisioned"},
			{"NoEndpoint", Wait, "the endpoint of the API server is not known"},
			{"TemplateInvalid", Wait, "machines cannot be made from the template"},
			{ChoreReason, Wait, "no machine can join without it: an authority, or what only a person can mend"},
		},
		decide: recoverBySeed,
	},
	{
		name: "hibernate",
		says: "Once the backup of a hibernation is noted, nothing else is done: all machines go, the last one included, as in a recovery. They " +
			"go also if the user wants the group to run again by then: what was written since the backup would be lost in one of two ways. " +
			"Then the group rests without a machine. When it is to run again, a recovery from that backup is requested. What the spec says " +
			"approves it. If the user changes the spec back before the first machine goes, the workers get their numbers back at once.",
		gives: []Reason{
			{"Hibernating", GiveUp, "the backup is noted, from which the group wakes"},
			{"Hibernating", Wait, "the infrastructure of a machine is not gone"},
			{"Hibernated", Wait, "no machine is left, and none is wanted"},
			{"Waking", Wake, "the group is to run again"},
			{"Waking", Wait, "the recovery from the backup is prepared"},
			{"HibernationCancelled", EndHibernation, "the group is to run again, and no machine was let go"},
		},
		decide: hibernate,
	},
	{
		name: "adopt",
		says: "Control plane machines of the cluster without a controller become the group's, one after the other. If something " +
			"contradicts the adoption of one of them none is adopted: adopting only some machines of a control plane is unsafe. The rule " +
			"needs no quorum and no facts. It changes nothing that runs, and only with all machines is it known to which a member belongs, " +
			"and what is missing. All rules that begin something come after it.",
		gives: []Reason{
			{"Adopting", Adopt, "it has the labels of the cluster's control plane, and no owner"},
		},
		decide: adopt,
	},
	{
		name: "bootstrap secrets",
		says: "What machines are made with, such as certificate authorities, is made once, before the first of them, and never again. " +
			"What clients need at once, such as the kubeconfig, is made as soon as it can be, and again before it expires.",
		gives: []Reason{
			{ChoreReason, Write, "nothing was initialised with others, or it is missing, or valid for less than 30 days"},
		},
		decide: bootstrapSecrets,
	},
	{
		name: "record update",
		says: "What an update in place has made of a machine is recorded in the machine's objects before anything else is decided about " +
			"it: until then it looks as if it were outdated. An update that failed and is not wanted any more is forgotten, unless it has " +
			"left the node changed and nothing else will make that good. The rule needs no quorum and no facts: nothing that runs is " +
			"changed.",
		gives: []Reason{
			{"Updated", RecordUpdate, "its update has ended well"},
			{"UpdateObsolete", DropUpdate, "its update failed, and something else is wanted now, or the machine is to be replaced"},
		},
		decide: recordUpdate,
	},
	{
		name: "stop without quorum",
		says: "Without a majority of healthy voters nothing is touched: what is left may be the only copy of the data, and a person " +
			"must decide. The message names the sources for a recovery: the member with the newest data of those that answer, and the " +
			"newest verified backup. It says how far each is behind the last revision that was seen.",
		gives: []Reason{
			{"UpdatingInPlace", Wait, "too few voters are healthy, one of them on a machine that is updated in place"},
			{"QuorumUnproven", Wait, "too few voters are healthy, some of them for a moment only"},
			{"QuorumLost", Wait, "too few voters are healthy"},
		},
		decide: stopWithoutQuorum,
	},
	{
		name: "finish removals",
		says: "Of the machines being deleted, the dead before the living: hand the leadership over, remove the member, release the " +
			"hook. The rule skips a machine that the quorum cannot spare yet, or that runs the only healthy API server. It skips one that " +
			"may still join with a voter that would be missed, if etcd's learner slot cannot be taken. A skipped machine blocks no other. " +
			"Before a machine goes that hangs in its bootstrap and may still join as a learner, a placeholder takes the slot: a learner " +
			"that nothing starts, so that no other member can join. A voter that may live stays while another machine is updated in place. " +
			"A released machine counts as gone from then on; its member, if it has one nevertheless, is removed at once.",
		gives: []Reason{
			{"MachineDeleting", MoveLeader, "a leader hands over before it leaves"},
			{"MachineDeleting", RemoveMember, "its machine is being deleted"},
			{"MachineDeleting", AddPlaceholder, "it may still join, and its voter would be missed"},
			{"MachineDeleting", ReleaseHook, "no member is left on the machine"},
		},
		decide: finishRemovals,
	},
	{
		name: "free learner slot",
		says: "A placeholder is removed when no machine that goes is kept out by it any more: each is gone, or has had its time to " +
			"join. It stays while the cluster has control plane machines that the group does not control: one of them may be kept out by " +
			"it. While it is in the list no member can join. One that was left behind is known by its peer URL.",
		gives: []Reason{
			{"PlaceholderUnneeded", RemoveMember, "no machine that goes may still join with a voter that would be missed"},
		},
		decide: freeLearnerSlot,
	},
	{
		name: "unadoptable machines",
		says: "While the cluster has control plane machines that cannot be adopted, these are left alone, and nothing is begun beside " +
			"them: no adoption, no growth, no rollout, no repair, no scaling. What is being deleted still goes in good order.",
		gives: []Reason{
			{"CannotAdopt", Wait, "something contradicts the adoption of a machine; a person must decide"},
		},
		decide: unadoptable,
	},
	{
		name: "follow update",
		says: "While a machine is updated in place nothing is begun that takes from the quorum or adds to it. The machine's member and " +
			"API server count as down, and it comes back or is rolled back in time. An update that was only partly started is completed, " +
			"unless the machine is being deleted. What is being deleted has gone on above. A machine that is updated and marked is " +
			"replaced as any other: it may be dead. It comes before the facts, because an update may be why these are missing.",
		gives: []Reason{
			{"UpdatingInPlace", UpdateInPlace, "the beginning of an update was cut off, and is made whole"},
			{"UpdatingInPlace", Wait, "a machine is updated in place"},
			{"UpdateFailed", Wait, "an update failed, and the API server does not answer"},
		},
		decide: followUpdate,
	},
	{
		name: "stop without facts",
		says: "While facts are missing or contradict one another, nothing is done that depends on them.",
		gives: []Reason{
			{"ClusterUnseen", Wait, "it is not known whether the machines hold a cluster, and it was not seen yet: after an adoption, a move, a " +
				"restored backup"},
			{"NoMachineLeft", Wait, "all machines of an initialised group are gone. Stacked etcd: its data is lost. External etcd: no API server " +
				"is left to join"},
			{"Unreachable", Wait, "the API server does not answer, or not completely"},
			{ChoreReason, Write, "it may be what keeps etcd out of reach: permissions in the cluster"},
			{"EtcdUnknown", Wait, "the list of etcd's members could not be read"},
			{"EtcdDisagrees", Wait, "etcd's members do not have the same list of members"},
			{"NoLeader", Wait, "etcd has no leader that all know of"},
		},
		decide: stopWithoutFacts,
	},
	{
		name: "relieve space",
		says: "While a member of etcd raises the alarm NOSPACE, etcd takes no write that adds data, and no machine can join. The alarm is " +
			"ended without a person. A member whose data take nine tenths of its quota, and do not need a fifth of that, is defragmented. " +
			"It does not answer meanwhile: one at a time, the leader last, which hands over before, and only while the quorum stands " +
			"without it; a single member always. Where that is not enough etcd is compacted to a revision that it had a minute ago, and " +
			"all full members are defragmented once more. When none is full any more, the alarm is ended. If the data in use fill the " +
			"quota, a person must delete some, or raise the quota.",
		gives: []Reason{
			{"NoSpace", MoveLeader, "a leader hands over before it is defragmented"},
			{"NoSpace", Defragment, "its data take more space than they need"},
			{"NoSpace", Compact, "the data need the space: what was overwritten is dropped"},
			{"SpaceRelieved", Disarm, "all members have space again"},
		},
		decide: relieveSpace,
	},
	{
		name: "carry out requests",
		says: "What a person asked for with `quorate etcd` and that may be needed while something is wrong. The leader is moved, once, to a " +
			"member that is well, on a machine that stays. While a member raises NOSPACE, members are defragmented although the quorum needs " +
			"each, if all voters are healthy, and the alarm is ended, once, although members have no space. A request counts for an hour.",
		gives: []Reason{
			{"Requested", MoveLeader, "a person asked for it, or the leader is to be defragmented"},
			{"Requested", Defragment, "a person asked for it, and its data take more space than they need"},
			{"Requested", Disarm, "a person asked for it"},
		},
		decide: carryOutRequests,
	},
	{
		name: "cancel downgrade",
		says: "This rule is for machines that run a member of etcd and nothing else. A downgrade of etcd ends when the first member of " +
			"the older version is in the list, and before that when another version is wanted. While a downgrade is enabled etcd accepts " +
			"no member that starts.",
		gives: []Reason{
			{"DowngradeUnwanted", CancelDowngrade, "another version is wanted now"},
			{"MemberWaits", CancelDowngrade, "a member of the older version keeps etcd where it is, and can start when the downgrade has ended"},
		},
		decide: cancelDowngrade,
	},
	{
		name: "promote",
		says: "This rule is for machines that run a member of etcd and nothing else. A learner that has caught up becomes a voter, if " +
			"it answers, and its machine stays, or is to be replaced and cannot go yet. Only Quorate promotes it, so that the rule comes " +
			"before learners are given up: the controller may have been down when it was time to promote it.",
		gives: []Reason{
			{"LearnerInSync", PromoteMember, "it has so much of the log that etcd allows it to vote"},
		},
		decide: promote,
	},
	{
		name: "drop decisions",
		says: "What a person decided with `quorate decide` counts for the facts that the person was shown, and for no others. It is " +
			"removed when it is done, and when the facts have changed: then the person looks and decides again. The rules see nothing of " +
			"a machine for which they wait no longer (forget-machine), but that its name is taken, until its Machine is gone.",
		gives: []Reason{
			{"DecisionDone", DropChoice, "it is done"},
			{"DecisionStale", DropChoice, "the facts are not those that the person was shown"},
		},
		decide: dropChoices,
	},
	{
		name: "remove strays",
		says: "Members whose machine is gone, and learners that do not start or are not promoted in time, leave the quorum: etcd takes " +
			"one learner at a time, and others wait for their turn. A voter that answers is left to a person, also where no machine is " +
			"known for it: one may have lost its labels. It goes once a person has decided so (remove-voter), if the others can spare it. " +
			"It counts as gone where another may go, and until a person has decided nothing joins, is rolled out or scaled down. A learner " +
			"that can only be that of a released machine blocks nothing.",
		gives: []Reason{
			{"StrayMember", MoveLeader, "a leader hands over before it leaves"},
			{"StrayMember", RemoveMember, "it has no machine, and does not answer, or a person decided that it goes"},
			{"StuckMember", RemoveMember, "it did not start, or was not promoted, in time"},
		},
		decide: removeStrays,
	},
	{
		name: "prepare hibernation",
		says: "With spec.powerState Hibernated nothing is begun any more: no repair, no rollout, no growth. The workers are scaled to 0, and " +
			"when the last of their machines is gone a backup is requested. Once there is a verified backup that was taken after that, it is " +
			"noted, and the machines go. What was begun ends before, and a quorum is needed.",
		gives: []Reason{
			{"HibernationRefused", Wait, "the group cannot wake again, or its workers cannot be scaled"},
			{"Hibernating", BeginHibernation, "the group is to hibernate, or workers are wanted again"},
			{"Hibernating", Wait, "workers are going, or a backup is taken"},
			{"Hibernating", RequestBackup, "the workers are gone"},
			{"Hibernating", Hibernate, "there is a verified backup that was taken since the workers are gone"},
		},
		decide: prepareHibernation,
	},
	{
		name: "remediate",
		says: "A machine that a health check or a person has marked is deleted and replaced, if the others keep the quorum meanwhile. " +
			"First come those whose voter is dead or missing, then those that a person marked by the annotation, then the most broken. One " +
			"whose replacements break as well is replaced only as often as the limits allow. It waits for no machine that is being deleted and " +
			"stays because no other API server is healthy. With the in-place policy Only no machine is replaced before a person deletes it.",
		gives: []Reason{
			{"Remediating", MoveLeader, "a leader hands over before it leaves"},
			{"Remediating", Delete, "it is marked, and the others can live without it"},
		},
		decide: remediate,
	},
	{
		name: "refuse",
		says: "While the spec cannot be carried out, or another controller must go first, nothing is begun that the spec asks for: no " +
			"first machine, no growth, no rollout, no scaling. Rules above have finished what was begun. Members are kept in order, and a " +
			"machine that was given up is replaced where machines can be made at all.",
		gives: []Reason{
			{"InvalidMachineNaming", Wait, "spec.machineNaming makes no names"},
			{"InvalidReplicas", Wait, "spec.replicas is less than one"},
			{"EtcdManagementInvalid", Wait, "the spec contradicts itself on where etcd runs and who keeps it"},
			{"InvalidVersion", Wait, "spec.version is none"},
			{"InvalidVersionChange", Wait, "spec.version is too far from that of a machine, or the kind cannot change it"},
			{"CertificatesInvalid", Wait, "a certificate or key that was given, in a secret or as a file, cannot be used"},
			{"GivenCertificatesMissing", Wait, "etcd is external, and a secret that only the user can give is missing"},
			{"TopologyPending", Wait, "the cluster's topology goes first"},
			{"EtcdNotReady", Wait, "etcd runs on other machines, and its controller reports that it is not ready, or none of its endpoints " +
				"is healthy"},
			{"NodeWithoutMachine", Wait, "etcd runs on other machines, and a control plane node that reports belongs to no Machine"},
			{"EtcdRollingOut", Wait, "etcd runs on machines of its own, and these are being replaced: of two rollouts that are asked for at once " +
				"etcd's goes first"},
			{"EndpointsNotFollowed", Wait, "a machine of the control plane knows one member of etcd only, and that is to go: the control plane " +
				"replaces its machine first"},
			{"EtcdNotHealthy", Wait, "an operator keeps etcd, and says that it is not healthy, or nothing"},
			{"AnotherEtcdCluster", Wait, "another EtcdCluster keeps the etcd of the Cluster, which can have only one"},
			{"ReferenceRefused", Wait, "a Machine or the Cluster refers to a kind that the field may not name, or that the manager may not read"},
		},
		decide: refuse,
	},
	{
		name: "discard failed",
		says: "A machine that never came up and is outdated is deleted, if another can be made: a corrected or reverted spec does not " +
			"wait for what was broken before. An outdated machine that came up, and in its first five minutes is not healthy, or that " +
			"failed and is broken, is deleted too, when enough others are fit. If it has a voter, or a Node where etcd is elsewhere, it " +
			"may have served: then it counts as a replacement of the rollout, and waits for the same approval and limit. With the in-place " +
			"policies Only and External it stays.",
		gives: []Reason{
			{"Outdated", MoveLeader, "a leader hands over before it leaves"},
			{"Outdated", Delete, "it would be outdated when it comes up"},
		},
		decide: discardFailed,
	},
	{
		name: "enable downgrade",
		says: "Before the first member of an older minor version of etcd joins, etcd lowers the version of its data. The rule waits " +
			"until all members answer, none joins or leaves, no outdated or leaving machine may still add a learner, and a machine could " +
			"be made. etcd starts no member during a downgrade. If the first member of the older version is lost, it begins again.",
		gives: []Reason{
			{"Downgrading", EnableDowngrade, "the members keep data that the older version cannot read"},
		},
		decide: enableDowngrade,
	},
	{
		name: "grow",
		says: "Machines that are missing are created: the first initialises the cluster, the others join it at once; with joins.eager they are " +
			"made beside the first and held back until then. They come in the failure domains with the fewest. Growth waits until all that is " +
			"there is healthy; machines that are joining do not count as unhealthy. The replacement of a machine that was given up waits for the " +
			"members only, and for machines that never came up.",
		gives: []Reason{
			{"EvenReplicas", Wait, "etcd on the machines wants an odd number of them"},
			{"InfrastructureNotReady", Wait, "the cluster's infrastructure is not provisioned"},
			{"NoEndpoint", Wait, "the endpoint of the API server is not known"},
			{"TemplateInvalid", Wait, "machines cannot be made from the template"},
			{ChoreReason, Wait, "no machine can join without it: an authority, or what only a person can mend"},
			{"Initializing", Create, "the first machine initialises the cluster"},
			{"Initializing", Wait, "the first machine has not initialised the cluster"},
			{"InitFailed", Wait, "the first machine failed to initialise the cluster"},
			{"ScalingUp", Create, "fewer machines than wanted"},
			{"ScalingUp", StartBootstrap, "a machine that was made ahead may join"},
			{"ScalingDown", Delete, "more machines were made ahead than are wanted"},
			{"MachineDeleting", Wait, "a machine must go before it is replaced"},
			{"MembersUnmatched", Wait, "etcd has a member that belongs to no machine"},
			{"MemberUnhealthy", Wait, "etcd may take no new member while a voter is not healthy"},
			{"EtcdAlarm", Wait, "a member of etcd has an active alarm"},
			{"EtcdDataDiffers", Wait, "the data of a member differ from those of most, or may, and a new one copies those of the leader"},
			{"EtcdDataDiffers", MoveLeader, "a leader whose data differ hands over before another member copies them"},
			{"MachineBroken", Wait, "a machine failed, is late or is not healthy"},
			{"Downgrading", Wait, "etcd has not lowered its data yet to the version that a new member would have"},
			{"NothingToJoin", Wait, "no machine is complete, so that none can join it"},
			{ChoreReason, Write, "machines need it as they join"},
			{"Joining", Wait, "as many machines join as may at once"},
		},
		decide: grow,
	},
	{
		name: SettleRule,
		says: "Whatever is under way ends before something else begins. With the policy overlap a rollout with surge does not wait for the " +
			"infrastructure of one machine that has left.",
		gives: []Reason{
			{"MachineDeleting", Wait, "a machine is being deleted"},
			{"Joining", Wait, "a machine is joining"},
			{"MachineUpdating", Wait, "somebody else changes a machine in place"},
			{"MemberJoining", Wait, "a learner is about to vote, or a member about to be found stray"},
		},
		decide: settle,
	},
	{
		name: "end hibernation",
		says: "When a group has woken, and as many machines as wanted are there, the workers get the numbers back that they had.",
		gives: []Reason{
			{"Woken", EndHibernation, "the group serves again from the backup of its hibernation"},
		},
		decide: endHibernation,
	},
	{
		name: "update in place",
		says: "With the policies Preferred and Only, outdated machines that can be changed in place are updated one after the other, " +
			"the oldest first, the leader's last, which hands over before. One begins only when everything is healthy: every machine is " +
			"complete and ready with its gates passed, every member votes, nothing is under way, and the quorum stands without this one's " +
			"voter. A single machine only has to answer. It comes before the rollout, which replaces what is left, and after repair and " +
			"growth: an update is easier in a group that is whole. After a failure no other begins. Machines that run nothing but etcd, or " +
			"whose etcd an operator keeps, are never changed in place.",
		gives: []Reason{
			{ChoreReason, Wait, "an authority is missing, or what only a person can mend"},
			{"MembersUnmatched", Wait, "etcd has a member that belongs to no machine"},
			{"EtcdAlarm", Wait, "a member of etcd has an active alarm"},
			{"MemberUnhealthy", Wait, "a voter is not healthy"},
			{"UpdateStopped", Wait, "a machine is not as healthy as all must be"},
			{"CannotSpare", Wait, "the quorum needs the machine's voter"},
			{ChoreReason, Write, "what machines read is brought up to date first"},
			{"UpdatingInPlace", MoveLeader, "a leader hands over before its machine is updated"},
			{"UpdatingInPlace", UpdateInPlace, "it is outdated, and can be changed in place"},
		},
		decide: updateInPlace,
	},
	{
		name: "roll out",
		says: "Outdated machines are replaced one by one; with the policy Preferred only those that cannot be changed in place. The one " +
			"that carries least is first, as in scale down, and the leader's is last. With surge one more than wanted is created, and " +
			"scale down deletes an outdated one. Without surge one is deleted first, and grow adds another. A broken one is deleted even " +
			"before all others are fit, as in scale down. A new one counts when it is complete, its readiness gates are passed and, where " +
			"those that it replaces are ready, its Node is: until then the rollout waits.",
		gives: []Reason{
			{"EvenReplicas", Wait, "etcd on the machines wants an odd number of them"},
			{ChoreReason, Write, "machines need it as they join"},
			{"RollingOut", Create, "one more than wanted, to replace an outdated one"},
			{"RollingOut", MoveLeader, "a leader hands over before it leaves"},
			{"RollingOut", Delete, "it is outdated, and no more than wanted may be there"},
			{"InfrastructureNotReady", Wait, "the cluster's infrastructure is not provisioned"},
			{"NoEndpoint", Wait, "the endpoint of the API server is not known"},
			{"TemplateInvalid", Wait, "machines cannot be made from the template"},
			{ChoreReason, Wait, "no machine can join without it: an authority, or what only a person can mend"},
			{"RolloutStopped", Wait, "a machine that is up to date is not fit"},
			{"CannotSpare", Wait, "the quorum, or the API, needs the machine"},
			{"MemberUnhealthy", Wait, "etcd may take no new member while a voter is not healthy"},
			{"EtcdAlarm", Wait, "a member of etcd has an active alarm"},
			{"EtcdDataDiffers", Wait, "the data of a member differ from those of most, or may, and a new one copies those of the leader"},
			{"EtcdDataDiffers", MoveLeader, "a leader whose data differ hands over before another member copies them"},
			{"MembersUnmatched", Wait, "etcd has a member that belongs to no machine"},
			{"MachineBroken", Wait, "a machine failed, is late or is not healthy"},
			{"Downgrading", Wait, "etcd has not lowered its data yet to the version that a new member would have"},
		},
		decide: rollOut,
	},
	{
		name: "scale down",
		says: "If there are more machines than wanted one is deleted. The order is: an outdated one that a person chose, one that a " +
			"person chose, an outdated broken one, an outdated one, a broken one, any. Of those it is the one that carries least (its " +
			"voter, its API server, its Node, its gates), in the failure domain with the most, the oldest. A leader hands over before its " +
			"machine goes. The last complete machine never goes. An outdated one goes when as many as wanted are fit without it, and a " +
			"broken one before that. A broken one stays only if what replaces others is not fit itself, and its member is well or has been " +
			"silent for less than five minutes: it may be whole again in a moment. While a member of etcd raises an alarm, no machine goes " +
			"whose voter may answer, unless that voter's data is corrupt: the API server refuses the writes of a drain. If the kind wants " +
			"it so, one that is not outdated goes only while all that came up are healthy, except for those that a person chose.",
		gives: []Reason{
			{"RolloutStopped", Wait, "too few would be left that are fit"},
			{"EvenReplicas", Wait, "etcd on the machines wants an odd number of them"},
			{"ScalingDown", MoveLeader, "a leader hands over before it leaves"},
			{"ScalingDown", Delete, "more machines than wanted"},
			{"MachineUnknown", Wait, "what is not known to be broken is not deleted for it"},
			{"MachineBroken", Wait, "the kind wants all machines healthy before one goes"},
			{"EtcdAlarm", Wait, "a member raises an alarm, and the machine's voter may answer"},
			{"CannotSpare", Wait, "the quorum, or the API, needs the machine"},
			{"MembersUnmatched", Wait, "a voter that answers belongs to no machine, and a person decides about it"},
		},
		decide: scaleDown,
	},
	{
		name: "maintain",
		says: "What serves the cluster and can wait is renewed last, so that it blocks nothing. While a member of etcd raises an alarm, " +
			"nothing is written in the cluster.",
		gives: []Reason{
			{ChoreReason, Write, "it is valid for less than 180 days, or not as wanted, and all machines are up to date"},
		},
		decide: maintain,
	},
	{
		name: "tend etcd",
		says: "A member whose data take more space than they need is defragmented: as spec.etcdMaintenance.defragment says, or once, because " +
			"a person asked for it. It does not answer meanwhile: one at a time, 30 s between two, the leader last, which hands over before, " +
			"only when all else is done, no alarm is active and all machines are healthy and ready. Without a request it also needs a voter " +
			"to spare and an open window. A single member is defragmented where the spec says so.",
		gives: []Reason{
			{"Fragmented", MoveLeader, "a leader hands over before it is defragmented"},
			{"Fragmented", Defragment, "its data take more space than they need"},
			{"Requested", MoveLeader, "a leader hands over before it is defragmented"},
			{"Requested", Defragment, "a person asked for it, and its data take more space than they need"},
		},
		decide: tendEtcd,
	},
	{
		name: "ask for a backup",
		says: "This rule is for a change of machines that spec.backup.before names, while no verified backup of this cluster is as " +
			"young as maxAgeBefore. Then update in place and roll out pass, and the rule requests a backup as soon as nothing else keeps " +
			"the next step back. It requests one backup, which is taken beside the turns. The rule comes before the waits that only a " +
			"person ends: the machine that is to be replaced may be the broken one. The repair of what is missing or broken, and the " +
			"removal of what is more than wanted, never wait for a store.",
		gives: []Reason{
			{BackupRequired, RequestBackup, "a machine is to be replaced or changed in place, and a backup must be taken first"},
		},
		decide: requestBackup,
	},
	{
		name: "wait for repair",
		says: "This rule names what is broken and not for these rules to mend, for a person or a health check. It names a marked " +
			"machine that cannot go, and an update in place that failed, cannot be made, or is for another program to make. It names a " +
			"rollout that goes on when a window opens, when the limit of replacements in a day allows it, or when a backup is verified. " +
			"These waits come last, so that they block nothing.",
		gives: []Reason{
			{"UpdateFailed", Wait, "the update of a machine failed; the message says in which step, and what to do"},
			{"ApprovalRequired", Wait, "machines are to be replaced or changed in place, and a person must approve that first"},
			{OutsideWindow, Wait, "machines are to be replaced or changed in place, and no window of spec.approval is open, or it is frozen"},
			{"UpdatesPaused", Wait, "machines are to be changed in place, and a person holds that between two of them"},
			{"NoUpgraderImage", Wait, "machines are to be changed in place, and no upgrader image is set for the version"},
			{"CannotUpdateInPlace", Wait, "the policy is Only, and what is outdated cannot be changed in place"},
			{"UpdaterUnanswered", Wait,
				"the updater of machines in place has not reported whether it can update them, and nothing is replaced before"},
			{"UpdatedElsewhere", Wait, "the policy is External, and machines are outdated"},
			{"MachineBroken", Wait, "a machine failed, is late or is not healthy"},
			{"EtcdAlarm", Wait, "a member of etcd has an active alarm"},
			{"MembersUnmatched", Wait, "etcd has a member that belongs to no machine"},
			{"CannotReplace", Wait, "a machine is marked to be replaced, and the others cannot live without it, or it broke too often"},
			{ChoreReason, Wait, "only a person can do it"},
			{ReplacementLimit, Wait, "machines are to be replaced or changed in place, and as many as may be in 24 hours were"},
			{BackupRequired, Wait, "machines are to be replaced or changed in place, and a backup is being taken for that, or cannot be"},
			{"ReplacementsUnreadable", Wait, "machines are to be replaced or changed in place, as many as the user allows in 24 hours, and what " +
				"is noted of those that were cannot be read"},
		},
		decide: waitForRepair,
	},
	{
		name: "steady",
		says: "All is as wanted.",
		gives: []Reason{
			{"AsWanted", Nothing, "as many machines as wanted are complete"},
		},
		decide: steady,
	},
}

func steady(s *state) opinion {
	text := fmt.Sprintf("%d of %s complete", len(s.with(complete)), count(len(s.machines), "machine"))
	if s.Etcd.Ours() {
		text += "; " + s.strength()
	}
	return do(Step{Verb: Nothing}, "AsWanted", "%s", text)
}
