package rows

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// The rows' notation: what is wanted | machines | members, as in
//
//	3/abc max=1 | 1a 2b 3c~30s | 1^ 2 3lu@10s
//
// Wanted is replicas/domains, then words:
//
//	new (not initialised), paused, held (updates in place are), inactive, deleting, orphaning,
//	slots=N (learners that etcd takes at once), boot=DURATION (how long machines may take to join), external (etcd), etcdonly (machines run
//	etcd and nothing else), etcd=5 (the same, with etcd 3.5), lowers=5 (a downgrade to 3.5 is enabled), operated (an operator keeps etcd on
//	the machines), serial (no learners), eager (machines are made ahead), call=DURATION (kubeadm's limit for etcd), max=N, last=N,
//	begun=NAME, workers=A,B, api+ (it answers all the same), failing=AGO (since when it has not served; failing-: it is not known),
//	silent=AGO (since when nothing has answered), compact=N (a revision of a minute ago), compacted=N@AGO (that of the last
//	compaction), tidy=45 (members with that percentage free, and 50 MiB, are defragmented) tidy1 (a single one too),
//	wishes=defragment@AGO,disarm@AGO,2@AGO (what a person asked for, and how long ago; a number is the machine to lead),
//	did=AGO,AGO (when an alarm was ended, and the leader moved), stray=NOSPACE (the alarm of a member that is gone),
//	infra- init- endpoint- template- api- etcd- split- (each is missing),
//	certs-=ca,sa, adopt=A,B (machines without an owner) alien=A,B (they have one), unseen (whether it was ever initialised is not known),
//	refused=REASON (the spec cannot be carried out) unmakeable=REASON (nor can machines be made), repairing (a machine was given up),
//	recovery=1,2 (a seed is to be restored, and these machines are given up), then seedless, unagreed (nobody approved it), approved=DURATION
//	(ago), begun+ (it has begun), off=1,2 (machines that are off for good);
//	hibernate (no machine is to run), refuses (it cannot), requested=AGO (since when it is on the way), running=A,B (what keeps workers),
//	asleep=AGO (since when machines go; the backup is a minute older), requested- (when it was requested is lost),
//	woken (from that backup), backup- (the newest backup's name is lost), trouble (the seed is not found);
//	decided=9 (a person decided that voter 9 leaves), decided-=9 (for other facts), decided!=X (what nobody knows),
//	forgotten=3 (that no rule waits for the infrastructure of machine 3), forgotten-=3 (of another of that name);
//	remains=s1,b,f,103 (what can be recovered from: parseRemains);
//	seed=NAME (of the failure domains), shrink=healthy (only while all are healthy), kubeconfig=none|DAYS, surge=0, kubeadm- addons- (are
//	behind), most=N and period=DURATION (limits of repair), limit=N (replacements in a day), replaced=2@3h,3@1h (those that were, and how
//	long ago), unreadable (who was), closed=DURATION (changes may begin then),
//	gate=AGE (how old a backup may be), backup=AGE (of the newest verified one), asked=AGE (how long ago one
//	was asked for), down (the store is), final=AGE (since when a last one is needed),
//	single (the only machine needs a backup before an update in place), inplace=Preferred|Only|External.
//
// A machine is its number (cp-N) or a name and a slash, its domain, and marks:
//
//	~30s no Node, created 30 s ago   +10s its Node registered 10 s ago
//	x a component is not healthy, X two   ? one is not known     - none are known
//	o is outdated   M is marked   Y the same, by a person   C was chosen   N its Node is not ready   G a gate is not passed
//	=30m it replaced another 30 min ago   #2 which was the third in a row
//	A its API server is not healthy, A? is not known   P the provider says that something failed   J it cannot add a
//	member any more   E it joins as a voter   U somebody changes it in place
//	H it was made ahead and is held back   B30s its bootstrap was started 30 s ago, after that
//	D what is outdated needs a backup first
//	R what is outdated cannot be changed in place   Q whether it can be nobody has said   Ww its update in place is under way, Wb is begun in
//	part, Wd is done, Wf failed, S is for another spec, T has left the node changed V nothing is left of it on its host   F its bootstrap
//	failed O a person declared it off Z it was made by the seed ! being deleted, !! its hook is due, !- its hook is gone L it stays, and its
//	hook was lost
//
// A member is the number of its machine, and marks:
//
//	^ leads, l learner, u not
//	started (no name), p a placeholder, x not healthy, ? not known, * its machine is not known,
//	i a learner has caught up, A raises the alarm NOSPACE, K CORRUPT, z has other data than most, >1 it is on machine 1 all the same,
//	@15s it has been so for 15 s (@0s: it is not known since when), v6 its etcd is 3.6, d5 its data are of 3.5, %95/30 its data take
//	95 MiB of 100, and use 30 (%95/30/3m: it was defragmented 3 min ago).

var (
	now       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	machineIs = regexp.MustCompile(`^(\d+|[a-z0-9][a-z0-9-]*/)([a-d]?)((?:[~+=B]\d+[smh]|#\d|[xX?FPJUAoMYCNGHRSTLQVEDZO-]|W[wbdf]|!!|!-|!)*)$`)
	memberIs  = regexp.MustCompile(`^(\d+)((?:@\d+[smh]|>\d|[vd]\d|%\d+/\d+(?:/\d+[smh])?|[\^lixup?*AKz])*)$`)
	mark      = regexp.MustCompile(`[~+@=B]\d+[smh]|[>#vd]\d|%\d+/\d+(?:/\d+[smh])?|W[wbdf]|!!|!-|A\?|.`)
)

// State reads a state.
func State(line string) (plan.Observed, error) {
	o := plan.Observed{
		Now:    now,
		Group:  plan.Group{Name: "cp", Initialized: true},
		Want:   plan.Want{NameFormat: "cp-%s"},
		Policy: plan.Policy{Learners: true, Surge: 1, Repair: plan.RepairLimits{Most: -1, Healthy: time.Hour}},
		Cluster: plan.Cluster{
			Infrastructure: true, Endpoint: "10.0.0.1:6443", Reachable: true,
		},
		Etcd: plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true},
	}
	parts := strings.Split(line, "|")
	if len(parts) != 3 {
		return o, fmt.Errorf("%d parts, not 3", len(parts))
	}
	for i, word := range strings.Fields(parts[0]) {
		if err := parseWanted(&o, i, word); err != nil {
			return o, err
		}
	}
	slices.SortStableFunc(o.Cluster.Chores, func(a, b plan.Chore) int { return slices.Index(inOrder, a.Name) - slices.Index(inOrder, b.Name) })
	for _, word := range strings.Fields(parts[1]) {
		m, err := parseMachine(word, o)
		if err != nil {
			return o, err
		}
		o.Machines = append(o.Machines, m)
	}
	for _, word := range strings.Fields(parts[2]) {
		e, err := parseMember(word, o.Machines)
		if err != nil {
			return o, err
		}
		o.Etcd.Members = append(o.Etcd.Members, e)
	}
	for i := range o.Choices {
		if c := &o.Choices[i]; c.Digest == "" {
			c.Digest = plan.ChoiceDigest(o, c.Kind, c.Target)
		}
	}
	return o, nil
}

func parseWanted(o *plan.Observed, i int, word string) error {
	key, value, _ := strings.Cut(word, "=")
	number, _ := strconv.Atoi(value)
	if i == 0 {
		replicas, domains, _ := strings.Cut(word, "/")
		o.Want.Replicas, _ = strconv.Atoi(replicas)
		if domains != "" {
			o.Want.Domains = strings.Split(domains, "")
		}
		return nil
	}
	for _, words := range []map[string]func(){
		wordsOfGroup(o, value, number), wordsOfPower(o, value), wordsOfPolicy(o, value, number), wordsOfCluster(o, value, number),
	} {
		if set := words[key]; set != nil {
			set()
			return nil
		}
	}
	return fmt.Errorf("unknown word %q", word)
}

// wordsOfGroup are those of the group itself and of its recovery.
func wordsOfGroup(o *plan.Observed, value string, number int) map[string]func() {
	return map[string]func(){
		"new": func() {
			o.Group.Initialized, o.Group.New, o.Cluster.Reachable, o.Etcd.Known = false, true, false, false
		},
		"unseen": func() {
			o.Group.Initialized, o.Cluster.Reachable, o.Etcd.Known = false, false, false
		},
		"paused":     func() { o.Group.Paused = true },
		"held":       func() { o.Group.UpdatesPaused = true },
		"imageless":  func() { o.Group.NoUpgrader = "no upgrader image for v1.36.3: set it" },
		"unapproved": func() { o.Group.Unapproved = "r2" },
		"closed":     func() { o.Group.Window = parseClosed(value) },
		"replaced":   func() { o.Group.Replacements = parseReplaced(value) },
		"unreadable": func() { o.Group.ReplacementsUnreadable = `the annotation quorate-replacements is "x"` },
		"backup":     func() { o.Group.Backup.Name, o.Group.Backup.Taken = "b1", ago(value) },
		"asked":      func() { o.Group.Backup.Required = ago(value) },
		"final":      func() { o.Group.Backup.Last = ago(value) },
		"down":       func() { o.Group.Backup.Trouble = "the store does not answer: connection refused" },
		"inactive":   func() { o.Group.Inactive = true },
		"deleting":   func() { o.Group.Deleting = true },
		"orphaning":  func() { o.Group.Orphaning = true },
		"last":       func() { o.Group.LastMachine = number },
		"begun":      func() { o.Group.PartialCreate = value },
		"repairing":  func() { o.Group.Repairing = true },
		"recovery": func() {
			o.Recovery = plan.Recovery{Name: "r", Seed: "b1", Approved: now.Add(-time.Minute), GiveUp: numbered(value)}
		},
		"seedless": func() { o.Recovery.Seed = "" },
		"unagreed": func() { o.Recovery.Approved = time.Time{} },
		"approved": func() { ago, _ := time.ParseDuration(value); o.Recovery.Approved = now.Add(-ago) },
		"begun+":   func() { o.Recovery.Begun = true },
		"off":      func() { o.Recovery.Off = numbered(value) },
		"trouble":  func() { o.Recovery.Trouble = "the store does not answer: connection refused" },
	}
}

// wordsOfPower are those of its hibernation.
func wordsOfPower(o *plan.Observed, value string) map[string]func() {
	return map[string]func(){
		"hibernate": func() { o.Power.Hibernate = true },
		"refuses":   func() { o.Power.Refused = "spec.powerState is Hibernated, and spec.backup is missing" },
		"requested": func() { o.Power.Requested = ago(value) },
		"running":   func() { o.Power.Running = strings.Split(value, ",") },
		"asleep": func() {
			p := &o.Power
			p.Backup, p.Since, p.Taken = "b1", ago(value), ago(value).Add(-time.Minute)
			if p.Requested.IsZero() {
				p.Requested = p.Taken.Add(-time.Minute)
			}
		},
		"requested-": func() { o.Power.Requested = time.Time{} },
		"backup-":    func() { o.Group.Backup.Name = "" },
		"woken":      func() { o.Power.Woken = true },
	}
}

// wordsOfPolicy are those of what the user wants, and how.
func wordsOfPolicy(o *plan.Observed, value string, number int) map[string]func() {
	return map[string]func(){
		"limit":    func() { o.Policy.MaxReplacements = number },
		"tidy":     func() { o.Policy.Defragment = plan.Defragmentation{FreePercent: number, MinSize: 50 << 20} },
		"tidy1":    func() { o.Policy.Defragment.Single = true },
		"gate":     func() { o.Policy.MaxBackupAge, _ = time.ParseDuration(value) },
		"single":   func() { o.Policy.BackupBeforeSingle = true },
		"etcdonly": func() { o.Policy.EtcdOnly, o.Cluster.Endpoint = true, "" },
		"etcd":     func() { o.Want.EtcdVersion, o.Policy.EtcdOnly, o.Cluster.Endpoint = "v3."+value+".35", true, "" },
		"eager":    func() { o.Policy.Eager = true },
		"overlap":  func() { o.Policy.Overlap = true },
		"serial":   func() { o.Policy.Learners = false },
		"boot":     func() { o.Policy.MemberAdd, _ = time.ParseDuration(value) },
		"call":     func() { o.Policy.EtcdCall, _ = time.ParseDuration(value) },
		"max":      func() { o.Policy.MaxParallel = number },
		"format":   func() { o.Want.NameFormat = value },
		"seed":     func() { o.Want.DomainSeed = value },
		"refused": func() {
			o.Want.Refused = plan.Refusal{Reason: value, Message: "spec.version is v1.38.0: must be v1.37", Replaceable: true}
		},
		"unmakeable": func() {
			o.Want.Refused = plan.Refusal{Reason: value, Message: "spec.machineNaming.template makes the same name twice"}
		},
		"inplace": func() { o.Policy.InPlace = plan.InPlace(value) },
		"surge":   func() { o.Policy.Surge = number },
		"shrink":  func() { o.Policy.ShrinkHealthy = value == "healthy" },
		"most":    func() { o.Policy.Repair.Most = number },
		"period":  func() { o.Policy.Repair.Period, _ = time.ParseDuration(value) },
	}
}

// wordsOfCluster are those of the cluster, its etcd and what is beside the machines.
func wordsOfCluster(o *plan.Observed, value string, number int) map[string]func() {
	return map[string]func(){
		"operated":  func() { o.Etcd = plan.Etcd{Owner: plan.EtcdOperator} },
		"lowers":    func() { o.Etcd.Downgrade = "3." + value + ".0" },
		"external":  func() { o.Etcd = plan.Etcd{} },
		"compact":   func() { o.Etcd.CompactTo = int64(number) },
		"compacted": func() { o.Etcd.Compacted, o.Etcd.CompactedAt = parseCompacted(value) },
		"wishes":    func() { o.Etcd.Requests = parseRequests(value) },
		"did":       func() { o.Etcd.Disarmed, o.Etcd.LeaderMoved = parseDone(value) },
		"stray":     func() { o.Etcd.StrayAlarms = []string{"the alarm " + value + " of member 7 is still active"} },
		"slots":     func() { o.Etcd.MaxLearners = number },
		"nodes":     func() { o.Cluster.Names = strings.Split(value, ",") },
		"workers":   func() { o.Workers = strings.Split(value, ",") },
		"api+":      func() { o.Cluster.Reachable = true },
		"adopt":     func() { o.Uncontrolled = append(o.Uncontrolled, strangers(value, "")...) },
		"alien": func() {
			o.Uncontrolled = append(o.Uncontrolled, strangers(value, "it is controlled by Other other")...)
		},
		"infra-":    func() { o.Cluster.Infrastructure = false },
		"endpoint-": func() { o.Cluster.Endpoint = "" },
		"init-":     func() { o.Cluster.Initializing = "kubeadm init has not written the ConfigMap cluster-info yet" },
		"template-": func() { o.Cluster.Template = "LocalMachineTemplate demo does not exist" },
		"certs-":    func() { o.Cluster.Chores = append(o.Cluster.Chores, certificates(value)) },
		"certs!":    func() { o.Cluster.Chores = append(o.Cluster.Chores, certificatesInvalid) },
		"api-": func() {
			o.Cluster.Reachable, o.Cluster.Unreachable = false, "connection refused"
			o.Cluster.FailingSince, o.Cluster.SilentSince = ago("1h"), ago("1h")
		},
		"failing":  func() { o.Cluster.FailingSince = ago(value) },
		"silent":   func() { o.Cluster.SilentSince = ago(value) },
		"failing-": func() { o.Cluster.FailingSince = time.Time{} },
		"api!": func() {
			o.Cluster.Reachable, o.Cluster.Unreachable = false, "not ready: etcd"
			o.Cluster.FailingSince, o.Cluster.SilentSince = ago("1h"), time.Time{}
		},
		"doubted":      func() { o.Etcd.Doubted = "most members of etcd do not have the same data" },
		"etcd-":        func() { o.Etcd.Known, o.Etcd.Why = false, "deadline exceeded" },
		"split-":       func() { o.Etcd.Agreed, o.Etcd.Why = false, "e1 lists 3, e2 lists 2" },
		"kubeadm-":     func() { o.Cluster.Chores = append(o.Cluster.Chores, kubeadmOutdated) },
		"kubeadm!":     func() { o.Cluster.Chores = append(o.Cluster.Chores, kubeadmUnusable) },
		"permissions-": func() { o.Cluster.Chores = append(o.Cluster.Chores, permissions) },
		"etcdpods-":    func() { o.Cluster.Chores = append(o.Cluster.Chores, etcdPodsStale) },
		"addons!":      func() { o.Cluster.Chores = append(o.Cluster.Chores, addonsRefused) },
		"addons-":      func() { o.Cluster.Chores = append(o.Cluster.Chores, addonsOutdated) },
		"kubeconfig":   func() { o.Cluster.Chores = append(o.Cluster.Chores, parseKubeconfig(value)) },
		"decided":      func() { o.Choices = append(o.Choices, plan.Choice{Kind: plan.RemoveVoter, Target: "e" + value}) },
		"decided-": func() {
			o.Choices = append(o.Choices, plan.Choice{Kind: plan.RemoveVoter, Target: "e" + value, Digest: "0ther"})
		},
		"forgotten": func() {
			o.Choices = append(o.Choices, plan.Choice{Kind: plan.ForgetMachine, Target: "cp-" + value})
		},
		"forgotten-": func() {
			o.Choices = append(o.Choices, plan.Choice{Kind: plan.ForgetMachine, Target: "cp-" + value, Digest: "0ther"})
		},
		"decided!": func() { o.Choices = append(o.Choices, plan.Choice{Kind: "reboot", Target: value, Digest: "b00t"}) },
		"remains":  func() { o.Remains = parseRemains(value) },
	}
}

// ago is a moment before now.
func ago(text string) time.Time {
	before, _ := time.ParseDuration(text)
	return now.Add(-before)
}

// parseRemains reads what can be recovered from, separated by commas. The words are: s1 a survivor of revision 100 on machine 1, s1/2 the
// newest of 2, b a backup of revision 90. With f members are reached through the API server alone, and 103 is the highest revision that was
// seen.
func parseRemains(text string) plan.Remains {
	r := plan.Remains{Recoverable: true}
	for word := range strings.SplitSeq(text, ",") {
		rest := strings.TrimLeft(word, "sbf")
		switch {
		case strings.HasPrefix(word, "s"):
			on, of, _ := strings.Cut(rest, "/")
			r.Survivors, _ = strconv.Atoi(of)
			r.Survivor = plan.Survivor{Machine: "cp-" + on, Term: 4, Entry: 120, Revision: 100}
		case word == "b":
			r.Backup = plan.StoredBackup{Name: "b1", Taken: now.Add(-time.Hour), Revision: 90}
		case word == "f":
			r.ForwardOnly = true
		case rest != "":
			r.SeenRevision, _ = strconv.Atoi(rest)
			r.Seen = now.Add(-time.Minute)
		}
	}
	return r
}

// numbered are the names of machines: 1,2.
func numbered(value string) []string {
	var names []string
	for n := range strings.SplitSeq(value, ",") {
		names = append(names, "cp-"+n)
	}
	return names
}

func strangers(names, against string) []plan.UncontrolledMachine {
	var list []plan.UncontrolledMachine
	for _, name := range strings.Split(names, ",") {
		list = append(list, plan.UncontrolledMachine{Name: name, Against: against})
	}
	return list
}

// inOrder are the chores in the order in which they are done.
var inOrder = []string{"Certificates", "Kubeconfig", "EtcdPods", "Permissions", "KubeadmConfig", "Addons"}

// The chores of the notation, as the kinds with kubeadm have them.
var (
	certificatesInvalid = plan.Chore{Name: "Certificates", Reason: "CertificatesInvalid",
		Message: "secret default/demo-ca: tls.crt expired at 2026-07-28T00:00:00Z", Due: plan.DueJoin, Blocked: true}
	etcdPodsStale = plan.Chore{Name: "EtcdPods", Reason: "EtcdPodsStale",
		Message: "machines that join would ask members of the etcd before the recovery, of which the snapshot has pods: etcd-cp-1",
		Due:     plan.DueJoin, Inside: true}
	permissions = plan.Chore{Name: "Permissions", Reason: "PermissionsMissing",
		Message: "kubeadm's certificates rely on it: ClusterRoleBinding kubeadm:cluster-admins is missing", Due: plan.DueJoin, Inside: true}
	kubeadmOutdated = plan.Chore{Name: "KubeadmConfig", Reason: "KubeadmOutdated",
		Message: "machines read kubeadm's own configuration as they join: kubernetesVersion v1.35.4, v1.36.3 wanted",
		Due:     plan.DueJoin, Inside: true, FromSpec: true}
	kubeadmUnusable = plan.Chore{Name: "KubeadmConfig", Reason: "KubeadmUnusable",
		Message: "ConfigMap kubeadm-config has no ClusterConfiguration", Due: plan.DueJoin, Inside: true, FromSpec: true, Blocked: true}
	addonsOutdated = plan.Chore{Name: "Addons", Reason: "AddonsOutdated",
		Message: "kube-proxy v1.35.4, v1.36.3 wanted", Due: plan.DueRest, Inside: true, FromSpec: true}
	addonsRefused = plan.Chore{Name: "Addons", Reason: "AddonsRefused",
		Message: "coredns stays v1.13.1, v1.11.1 is wanted: it is older", Due: plan.DueRest, Inside: true, FromSpec: true, Blocked: true}
)

// updates are those in place that a machine may have.
var updates = map[string]plan.Update{
	"Ww": {State: plan.UpdateUnderway, Message: "step swap"},
	"Wb": {State: plan.UpdateUnderway, Message: "its infrastructure is not marked", Unfinished: true},
	"Wd": {State: plan.UpdateDone, Message: "v1.36.3"},
	"Wf": {State: plan.UpdateFailed, Message: "step swap: kube-apiserver did not become ready; the node was put back"},
}

func certificates(purposes string) plan.Chore {
	return plan.Chore{Name: "Certificates", Reason: "CertificatesMissing", Due: plan.DueFirst,
		Message: "no certificate authority for " + strings.ReplaceAll(purposes, ",", ", ")}
}

func parseKubeconfig(value string) plan.Chore {
	c := plan.Chore{Name: "Kubeconfig", Reason: "KubeconfigMissing", Message: "no kubeconfig for 10.0.0.1:6443 yet", Due: plan.DueNow}
	if value == "none" {
		return c
	}
	days, _ := strconv.Atoi(value)
	c.Reason, c.Message, c.Expires = "KubeconfigExpiring", "the kubeconfig", now.Add(time.Duration(days)*24*time.Hour)
	return c
}

func parseMachine(word string, o plan.Observed) (plan.Machine, error) {
	parts := machineIs.FindStringSubmatch(word)
	if parts == nil {
		return plan.Machine{}, fmt.Errorf("%q is no machine", word)
	}
	m := plan.Machine{Name: strings.TrimSuffix(parts[1], "/"), Domain: parts[2], Created: now.Add(-2 * time.Hour), Ready: true, Hook: true}
	if n, err := strconv.Atoi(m.Name); err == nil {
		m.Name = "cp-" + m.Name
		m.Created = m.Created.Add(time.Duration(n) * time.Minute)
	}
	m.Host, m.UpSince = m.Name, m.Created.Add(30*time.Second)
	for _, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if !o.Policy.EtcdOnly {
			m.Components = append(m.Components, plan.Component{Name: c, Health: plan.Healthy})
		}
	}
	if o.Etcd.Ours() {
		m.Components = slices.Insert(m.Components, 0, plan.Component{Name: "etcd", Health: plan.Healthy})
	}
	for _, k := range mark.FindAllString(parts[3], -1) {
		ago, _ := time.ParseDuration(k[1:])
		if !markHealth(&m, k, ago) && !markWanted(&m, k, ago) {
			markLife(&m, k, ago)
		}
	}
	return m, nil
}

// markHealth sets what a mark says of a machine's Node and components. It reports whether it knows the mark.
func markHealth(m *plan.Machine, k string, ago time.Duration) bool {
	switch k[0] {
	case '~':
		m.Host, m.UpSince, m.Components, m.Ready = "", time.Time{}, nil, false
		m.Created = now.Add(-ago)
	case '+':
		m.UpSince, m.Created = now.Add(-ago), now.Add(-ago-time.Minute)
	case 'x':
		spoil(m, 1, plan.Unhealthy, "CrashLoopBackOff")
	case 'X':
		spoil(m, 2, plan.Unhealthy, "")
	case '?':
		spoil(m, 1, plan.Unknown, "")
	case '-':
		m.Components = nil
	case 'N':
		m.Ready = false
	case 'A':
		for i := range m.Components {
			if m.Components[i].Name == "kube-apiserver" {
				m.Components[i].Health = plan.Unhealthy
				if k == "A?" {
					m.Components[i].Health = plan.Unknown
				}
			}
		}
	default:
		return false
	}
	return true
}

// spoil changes the health of the last of a machine's components, as far as it has any.
func spoil(m *plan.Machine, n int, health plan.Health, why string) {
	for i := max(0, len(m.Components)-n); i < len(m.Components); i++ {
		m.Components[i].Health, m.Components[i].Why = health, why
	}
}

// markWanted sets what a mark says of what is wanted of a machine. It reports whether it knows the mark.
func markWanted(m *plan.Machine, k string, ago time.Duration) bool {
	switch k[0] {
	case 'o':
		m.Outdated = "version v1.35.4, v1.36.3 wanted"
	case 'M':
		m.Marked = "Node does not report"
	case 'Y':
		m.Marked, m.MarkedByPerson = "a person asks for it", true
	case 'C':
		m.DeletePreferred = true
	case 'G':
		m.Gate = "StorageReady"
	case '=':
		m.Replaced = now.Add(-ago)
	case '#':
		m.Retries, _ = strconv.Atoi(k[1:])
	case 'U':
		m.Updating = "kubelet v1.36.3"
	case 'D':
		m.NeedsBackup = "Kubernetes v1.35.4 -> v1.36.3"
	case 'R':
		m.NeedsReplacement = "infrastructure template"
	case 'Q':
		m.Unanswered = "Runtime Extension metal does not answer"
	default:
		return false
	}
	return true
}

// markLife sets what a mark says of a machine's beginning, its updates and its end.
func markLife(m *plan.Machine, k string, ago time.Duration) {
	switch k[0] {
	case 'F':
		m.Failed, m.CannotJoin = "kubeadm join: exit status 1", "kubeadm gave up"
	case 'P':
		m.Failed = "the provider is out of order"
	case 'J':
		m.CannotJoin = "its etcd member was removed"
	case 'V':
		m.Gone, m.CannotJoin = true, "nothing is left of it on its host"
	case 'O':
		m.Off, m.CannotJoin = true, "a person declared it off for a recovery"
	case 'Z':
		m.Seeded = true
	case 'E':
		m.JoinsAsVoter = true
	case 'H':
		m.Held = true
	case 'B':
		m.Started = now.Add(-ago)
	case 'W':
		m.Update = updates[k]
	case 'L':
		m.Hook = false
	case 'S':
		m.Update.Obsolete = true
	case 'T':
		m.Update.Changed = true
	case '!':
		m.Deleting, m.Hook, m.HookDue = true, k != "!-", k == "!!"
	}
}

func parseMember(word string, machines []plan.Machine) (plan.Member, error) {
	parts := memberIs.FindStringSubmatch(word)
	if parts == nil {
		return plan.Member{}, fmt.Errorf("%q is no member", word)
	}
	e := plan.Member{ID: "e" + parts[1], Name: "cp-" + parts[1], Health: plan.Healthy, Since: now.Add(-time.Hour)}
	if slices.ContainsFunc(machines, func(m plan.Machine) bool { return m.Name == e.Name }) {
		e.Machine = e.Name
	}
	for _, k := range mark.FindAllString(parts[2], -1) {
		if !markRole(&e, k) {
			markEtcd(&e, k)
		}
	}
	return e, nil
}

// markRole sets what a mark says of a member's part in the quorum and of its machine. It reports whether it knows the mark.
func markRole(e *plan.Member, k string) bool {
	switch k[0] {
	case '^':
		e.Leader = true
	case 'l':
		e.Learner = true
	case 'u':
		e.Name, e.Health = "", plan.Unhealthy
	case 'p':
		e.Name, e.Machine, e.Health, e.Learner, e.Placeholder = "", "", plan.Unknown, true, true
	case '>':
		e.Machine = "cp-" + k[1:]
	case '*':
		e.Machine = ""
	case 'i':
		e.InSync = true
	default:
		return false
	}
	return true
}

// markEtcd sets what a mark says of a member's health and data.
func markEtcd(e *plan.Member, k string) {
	switch k[0] {
	case 'x':
		e.Health = plan.Unhealthy
	case '?':
		e.Health = plan.Unknown
	case 'A':
		e.Alarms = []string{"NOSPACE"}
	case 'K':
		e.Alarms = []string{"CORRUPT"}
	case 'z':
		e.Differs = true
	case 'v':
		e.Version = "3." + k[1:] + ".16"
	case '%':
		_, _ = fmt.Sscanf(k, "%%%d/%d", &e.Size, &e.InUse)
		e.Size, e.InUse, e.Quota = e.Size<<20, e.InUse<<20, 100<<20
		if parts := strings.Split(k, "/"); len(parts) > 2 {
			e.Defragmented = ago(parts[2])
		}
	case 'd':
		e.Storage = "3." + k[1:] + ".0"
	case '@':
		ago, _ := time.ParseDuration(k[1:])
		e.Since = now.Add(-ago)
		if k == "@0s" {
			e.Since = time.Time{}
		}
	}
}
