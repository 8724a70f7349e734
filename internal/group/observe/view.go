package observe

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/inplace"
)

// View is what one turn saw of a group: the facts for the decision, and the objects they
// were read from, for the report and the step. It holds no client.
type View struct {
	// Type is that of the group's kind. Object is the group's own, as it was written last; Spec is what it says.
	Type   Type
	Object Object
	Spec   Spec
	// Memory is what is kept of the group between turns.
	Memory  *Memory
	Cluster *clusterv1.Cluster
	// Nodeless: the machines have no Nodes.
	Nodeless bool
	// Machines are those of the group, the oldest first.
	Machines []*Machine
	// Others are the cluster's control plane machines that are not the group's, by name.
	Others []*clusterv1.Machine
	// Inside is what was seen of the workload cluster.
	Inside workload.View
	// Survey is what etcd's members said, Left a machine whose member was removed.
	Survey etcd.Survey
	Left   string
	// Retry is how long to wait before etcd's members, none of whom answered, are asked again; 0: they answered.
	Retry time.Duration
	// Kubeconfig is what is known of the cluster's kubeconfig.
	Kubeconfig certs.Kubeconfig
	// Lacking are what the certificates of the cluster lack, in sentences; empty: nothing.
	Lacking []string
	// Updates are the upgrades in place of the cluster's machines.
	Updates inplace.Seen
	// Hibernation is what is noted of the group's hibernation.
	Hibernation Hibernation
	// Recovery is the requested recovery by a seed; nil: there is none.
	Recovery *EtcdRecovery
	// Off has the machines that a person declared off, in recoveries that are under way or ended, and when: none of them may join.
	Off map[string]metav1.Time
	// Facts are what a decision may depend on, and Assessed what the rules make of them: it is there once the facts are complete.
	Facts    plan.Observed
	Assessed plan.Assessment
}

// Machine is one machine of a group, as one turn saw it.
type Machine struct {
	*clusterv1.Machine
	// Bootstrap and Infrastructure are the other objects that it consists of; nil: not known. Read: they were looked for.
	Read           bool
	Bootstrap      client.Object
	Infrastructure *unstructured.Unstructured
	// Facts are what a decision may know of it: the entry of View.Facts.Machines.
	Facts *plan.Machine
	// Drift is in what it differs from what is wanted; nil: that was not looked at.
	Drift *drift.Drift
	// Withdrawn: it is being deleted without bootstrap data, and its bootstrap object is proven to be gone.
	Withdrawn bool
	// Node is its Node; nil: none is known.
	Node *corev1.Node
	// CertificateEnd is when the certificate of its API server expires; zero: not known.
	CertificateEnd time.Time
}

// NewView begins a view with a group's Machines, the oldest first. facts are what is known of the group
// itself; those of its machines are added.
func NewView(cluster *clusterv1.Cluster, ours []*clusterv1.Machine, facts plan.Observed) *View {
	o := &View{Cluster: cluster, Facts: facts}
	o.Facts.Machines = make([]plan.Machine, len(ours))
	for i, m := range ours {
		o.Facts.Machines[i].Name = m.Name
		o.Machines = append(o.Machines, &Machine{Machine: m, Facts: &o.Facts.Machines[i]})
	}
	return o
}

// Objects are the Machines themselves, in their order.
func (o *View) Objects() []*clusterv1.Machine {
	objects := make([]*clusterv1.Machine, len(o.Machines))
	for i, m := range o.Machines {
		objects[i] = m.Machine
	}
	return objects
}

// Machine returns the group's machine of that name; nil if there is none.
func (o *View) Machine(name string) *Machine {
	for _, m := range o.Machines {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Refuse notes why nothing is begun that the spec asks for. Of several reasons the first
// is told; where one of them keeps machines from being made, none is made.
func (o *View) Refuse(why plan.Refusal) {
	refused := &o.Facts.Want.Refused
	if refused.Reason == "" || refused.Replaceable && !why.Replaceable {
		*refused = why
	}
}

// Replace puts a Machine that was written into the place of the one that was read.
func (o *View) Replace(written *clusterv1.Machine) {
	if m := o.Machine(written.Name); m != nil {
		m.Machine = written
	}
}

// AddWorkload adds what is known from the workload cluster: Nodes, and the static pods that each machine should run.
func (o *View) AddWorkload(view workload.View, components []string) {
	o.Inside = view
	nodes := machine.Nodes(o.Objects(), view.Nodes)
	o.Facts.Cluster.Reachable = view.Reachable
	if !view.Reachable {
		o.Facts.Cluster.Unreachable = cmp.Or(view.Why, "not connected yet")
		o.Facts.Cluster.FailingSince, o.Facts.Cluster.SilentSince = view.FailingSince, view.SilentSince
	}
	for _, m := range o.Machines {
		m.Node = nodes[m.Facts.Name]
		*m.Facts = MachineFacts(m.Machine, m.Node, view, components)
		m.Facts.Failed = machine.Failure(m.Machine, m.Infrastructure, m.Facts.Host != "")
		at := matching{o}
		m.Facts.CannotJoin, m.Facts.Gone = at.cannotJoin(m), at.isGone(m)
		m.Facts.Seeded, m.Facts.Off = at.isSeeded(m), at.isOff(m)
	}
}

// MachineFacts returns what a decision may know of a machine.
func MachineFacts(m *clusterv1.Machine, node *corev1.Node, view workload.View, components []string) plan.Machine {
	facts := plan.Machine{
		Name:     m.Name,
		Domain:   m.Spec.FailureDomain,
		Created:  m.CreationTimestamp.Time,
		Host:     machine.NodeName(m),
		Deleting: !m.DeletionTimestamp.IsZero(),
		Hook:     machine.HasHook(m),
		HookDue:  machine.HookDue(m),
		Updating: machine.Updating(m),

		JoinsAsVoter: machine.JoinsAsVoter(m),
	}
	if node == nil {
		facts.Components = unknownComponents(components, "the machine has no Node")
		return facts
	}
	facts.Host = node.Name
	facts.UpSince = node.CreationTimestamp.Time
	ready := machine.NodeReady(node)
	facts.Ready = ready == corev1.ConditionTrue && view.Reachable
	switch {
	case !view.Reachable:
		facts.Components = unknownComponents(components, "the API server is not reachable")
	case ready == corev1.ConditionUnknown:
		// The kubelet is silent: what its pods last said may be long over.
		facts.Components = unknownComponents(components, "Node "+node.Name+" does not report")
	case len(components) == 0:
		facts.Components = []plan.Component{nodeComponent(node, facts.Ready)}
	default:
		facts.Components = machine.Components(node.Name, view.Pods, components)
	}
	return facts
}

// unknownComponents are the components of a machine of which nothing can be known.
func unknownComponents(names []string, why string) []plan.Component {
	if len(names) == 0 {
		return []plan.Component{{Name: apiServer, Why: why}}
	}
	components := machine.Components("", nil, names)
	for i := range components {
		components[i].Health, components[i].Why = plan.Unknown, why
	}
	return components
}

// apiServer is the component that is taken to run on a control plane machine of which nothing but its Node is known.
const apiServer = "kube-apiserver"

// nodeComponent takes an API server to serve where the Node is ready.
func nodeComponent(node *corev1.Node, ready bool) plan.Component {
	if ready {
		return plan.Component{Name: apiServer, Health: plan.Healthy}
	}
	return plan.Component{Name: apiServer, Health: plan.Unhealthy, Why: "Node " + node.Name + " is not ready"}
}

// AddEtcd adds what etcd's members said, and since when each is as it is.
func (o *View) AddEtcd(survey etcd.Survey, since *MemberTimes, now time.Time) {
	o.Survey = survey
	facts := &o.Facts.Etcd
	facts.MaxLearners = machine.MaxLearners(o.Inside.Pods)
	facts.Known, facts.Agreed, facts.Why, facts.Downgrade = survey.Known, survey.Agreed, survey.Why, survey.Downgrade
	facts.StrayAlarms = survey.StrayAlarms
	matched := o.Match(survey.Members)
	if matched.Contradiction != "" {
		facts.Agreed = false
		facts.Why = strings.Trim(matched.Contradiction+"; "+facts.Why, "; ")
	}
	facts.Members = make([]plan.Member, 0, len(survey.Members))
	for _, m := range survey.Members {
		facts.Members = append(facts.Members, plan.Member{
			ID:      etcd.FormatID(m.ID),
			Name:    m.Name,
			Machine: matched.Hosts[m.ID],
			Learner: m.Learner, Placeholder: m.IsPlaceholder(),
			Leader:  m.Leader,
			InSync:  m.InSync,
			Health:  m.Health,
			Why:     m.Why,
			Alarms:  m.Alarms,
			Version: m.Version,
			Storage: m.Storage,
		})
	}
	matching{o}.buryMembers()
	slices.SortFunc(facts.Members, func(a, b plan.Member) int { return cmp.Compare(a.ID, b.ID) })
	if survey.Known {
		since.Stamp(facts.Members, now)
	}
	if o.Nodeless {
		o.Facts.AddMembersAsHosts()
	}
	for _, m := range o.Machines {
		m.Facts.CannotJoin, m.Facts.Gone = matching{o}.cannotJoin(m), matching{o}.isGone(m)
	}
}

// buryMembers: a member that does not answer is dead where nothing is left of its machine.
func (o matching) buryMembers() {
	for i := range o.Facts.Etcd.Members {
		m := &o.Facts.Etcd.Members[i]
		if on := o.Machine(m.Machine); on != nil && m.Health == plan.Unknown && machine.Vanished(on.Infrastructure) {
			m.Health, m.Why = plan.Unhealthy, gone
		}
	}
}

// gone says of a machine that its infrastructure knows that it is no more.
const gone = "nothing is left of it on its host"

// NewestFact returns when the newest of the facts of a group's object that decisions wait for became
// true, as far as that is on record. Kubernetes records most times in full seconds.
func (o *View) NewestFact(of client.Object) time.Time {
	times := []time.Time{of.GetCreationTimestamp().Time}
	for _, m := range o.Machines {
		times = append(times, m.changes()...)
	}
	for _, pod := range o.Inside.Pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady {
				times = append(times, c.LastTransitionTime.Time)
			}
		}
	}
	for _, m := range o.Facts.Etcd.Members {
		times = append(times, m.Since)
	}
	if o.Cluster != nil {
		times = append(times, changeOf(o.Cluster, clusterv1.ClusterInfrastructureReadyCondition))
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// changes are the times at which a machine and its Node became what decisions wait for; zero: they have not.
func (m *Machine) changes() []time.Time {
	times := []time.Time{m.Facts.UpSince, m.CreationTimestamp.Time, changeOf(m.Machine, clusterv1.MachineDeletingCondition)}
	if gone := m.DeletionTimestamp; gone != nil {
		times = append(times, gone.Time)
	}
	if m.Node == nil {
		return times
	}
	for _, c := range m.Node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			times = append(times, c.LastTransitionTime.Time)
		}
	}
	return times
}

// changeOf is when a condition of an object changed last; zero: the object does not have it.
func changeOf(of conditions.Getter, kind string) time.Time {
	if at := conditions.GetLastTransitionTime(of, kind); at != nil {
		return at.Time
	}
	return time.Time{}
}

// cannotJoin says why nothing on a machine will add a member to etcd any more; empty: it may,
// for all that is known. kubeadm adds the member once, and writes the static pod of etcd after that.
func (o matching) cannotJoin(m *Machine) string {
	switch {
	case o.isGone(m):
		return gone
	case o.isOff(m):
		return "a person declared it off for a recovery"
	case o.ranEtcd(m.Node):
		return "its etcd was started: there is pod etcd-" + m.Node.Name
	case o.memberRemoved(m):
		return "its etcd member " + m.Annotations[controlplanev1.MemberRemovedAnnotation] + " was removed"
	case m.Withdrawn:
		return "it is being deleted, had no bootstrap data, and gets none without its KubeadmConfig"
	case machine.BootstrapEnded(m.Infrastructure):
		return "its bootstrap ended with an error, and is not tried again"
	}
	return ""
}

// ranEtcd reports whether the static pod of etcd was seen on a machine's Node; nil: none is known.
func (o matching) ranEtcd(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	pod := machine.FindPod(o.Inside.Pods, workload.EtcdPod(node.Name))
	return pod != nil && pod.Spec.NodeName == node.Name && !ofOtherNode(pod, node)
}

// ofOtherNode reports whether a static pod is left from an earlier Node of the same name.
func ofOtherNode(pod *corev1.Pod, node *corev1.Node) bool {
	for _, owner := range pod.OwnerReferences {
		if owner.Kind == "Node" && owner.UID != node.UID {
			return true
		}
	}
	return false
}

// memberRemoved reports whether the member of a machine was removed: that was noted before, and
// the members agree that it is gone. A machine that has a member all the same added it later.
func (o matching) memberRemoved(on *Machine) bool {
	id, e := on.Annotations[controlplanev1.MemberRemovedAnnotation], o.Facts.Etcd
	if _, err := etcd.ParseID(id); err != nil || !e.Known || !e.Agreed {
		return false
	}
	for _, m := range e.Members {
		if m.ID == id || m.Machine == on.Name {
			return false
		}
	}
	return true
}

// Surveys reports whether etcd's members are to be asked.
func (o *View) Surveys() bool {
	f := o.Facts
	if !f.Etcd.Ours() || f.Group.Paused || !f.Group.Initialized && (!o.Nodeless || len(o.Machines) == 0) {
		return false
	}
	// Of a group that goes as a whole, members are left alone.
	return !f.Group.Deleting || len(f.Workers) > 0
}

// Around writes all facts but etcd's and the time, and what a person asked for about etcd, to tell whether any has changed.
func (o *View) Around() string {
	f := o.Facts
	f.Now, f.Etcd = time.Time{}, plan.Etcd{Requests: requestsOf(o)}
	text, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Busy reports whether something is under way, or wrong, that only etcd or a new
// look would tell the end of.
func (o *View) Busy() bool {
	f := o.Facts
	switch {
	case f.Group.Paused:
		return false
	case !f.Group.Initialized, f.Group.Deleting:
		return len(f.Machines) > 0
	case !f.Cluster.Reachable:
		return true
	}
	return !o.Assessed.Settled
}
