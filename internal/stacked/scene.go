package stacked

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/drift"
	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/workload"
)

// controlPlaneLabel is on the Node of every control plane that kubeadm made.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// scene is what one turn saw: the facts for the decision, and the objects they
// were read from, for the report and the step. It holds no client.
type scene struct {
	kcp     *controlplanev1.KubeadmControlPlane
	cluster *clusterv1.Cluster
	// machines are those of the control plane, the oldest first.
	machines []*observedMachine
	// strangers are the cluster's control plane machines that are not ours, by name.
	strangers []*clusterv1.Machine
	// view is what was seen of the workload cluster.
	view workload.View
	// survey is what etcd's members said, left a machine whose member was removed.
	survey etcd.Survey
	left   string
	// lacking are what the cluster's certificates lack, in sentences; empty: nothing.
	lacking []string
	// retry is how long to wait before etcd's members, none of whom answered, are asked again; 0: they answered.
	retry time.Duration
	// began is when this process first looked at the control plane.
	began time.Time
	// observed are the facts for the decision.
	observed plan.Observed
}

// observedMachine is one machine of the control plane, as one turn saw it.
type observedMachine struct {
	*clusterv1.Machine
	// config and infrastructure are the other objects that it consists of; nil: not known. read: they were looked for.
	read           bool
	config         *bootstrapv1.KubeadmConfig
	infrastructure *unstructured.Unstructured
	// facts are what a decision may know of it: the entry of observed.Machines.
	facts *plan.Machine
	// drift is in what it differs from what is wanted; nil: that was not looked at.
	drift *drift.Drift
	// withdrawn: it is being deleted without bootstrap data, and its KubeadmConfig is proven to be gone.
	withdrawn bool
	// node is its Node; nil: none is known.
	node *corev1.Node
	// certificateEnd is when the certificate of its API server expires; zero: not known.
	certificateEnd time.Time
}

// parts are the objects that the machine consists of.
func (m *observedMachine) parts() drift.Machine {
	return drift.Machine{Machine: m.Machine, Config: m.config, Infrastructure: m.infrastructure}
}

// objects are the Machines themselves, in their order.
func (s *scene) objects() []*clusterv1.Machine {
	objects := make([]*clusterv1.Machine, len(s.machines))
	for i, m := range s.machines {
		objects[i] = m.Machine
	}
	return objects
}

// refuse notes why nothing is begun that the spec asks for. Of several reasons the first
// is told; where one of them keeps machines from being made, none is made.
func (s *scene) refuse(why plan.Refusal) {
	refused := &s.observed.Want.Refused
	if refused.Reason == "" || refused.Replaceable && !why.Replaceable {
		*refused = why
	}
}

// replace puts a Machine that was written into the place of the one that was read.
func (s *scene) replace(written *clusterv1.Machine) {
	if m := s.machine(written.Name); m != nil {
		m.Machine = written
	}
}

// addWorkload adds what is known from the workload cluster: Nodes and static pods.
func (s *scene) addWorkload(view workload.View) {
	s.view = view
	nodes := machine.Nodes(s.objects(), view.Nodes)
	s.observed.Cluster.Reachable = view.Reachable
	if !view.Reachable {
		s.observed.Cluster.Unreachable = cmp.Or(view.Why, "not connected yet")
	}
	for _, m := range s.machines {
		m.node = nodes[m.facts.Name]
		*m.facts = machineFacts(m.Machine, m.node, view, s.observed.Etcd.Managed)
		m.facts.Failed = machine.Failure(m.Machine, m.infrastructure, m.facts.Node != "")
		m.facts.CannotJoin = s.cannotJoin(m)
	}
	s.addWants(s.observed.Now)
}

// machineFacts returns what a decision may know of a machine.
func machineFacts(m *clusterv1.Machine, node *corev1.Node, view workload.View, stacked bool) plan.Machine {
	facts := plan.Machine{
		Name:     m.Name,
		Domain:   m.Spec.FailureDomain,
		Created:  m.CreationTimestamp.Time,
		Node:     machine.NodeName(m),
		Deleting: !m.DeletionTimestamp.IsZero(),
		Hook:     machine.HasHook(m),
		HookDue:  machine.HookDue(m),
		Updating: machine.Updating(m),
	}
	if node == nil {
		facts.Components = unknownComponents(stacked, "the machine has no Node")
		return facts
	}
	facts.Node = node.Name
	facts.NodeSince = node.CreationTimestamp.Time
	ready := nodeReady(node)
	facts.NodeReady = ready == corev1.ConditionTrue && view.Reachable
	switch {
	case !view.Reachable:
		facts.Components = unknownComponents(stacked, "the API server is not reachable")
	case ready == corev1.ConditionUnknown:
		// The kubelet is silent: what its pods last said may be long over.
		facts.Components = unknownComponents(stacked, "Node "+node.Name+" does not report")
	default:
		facts.Components = machine.Components(node.Name, view.Pods, stacked)
	}
	return facts
}

// unknownComponents are the components of a machine of which nothing can be known.
func unknownComponents(stacked bool, why string) []plan.Component {
	components := machine.Components("", nil, stacked)
	for i := range components {
		components[i].Health, components[i].Why = plan.Unknown, why
	}
	return components
}

// nodeReady returns the Node's own Ready condition; empty before it was ever set.
func nodeReady(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// addEtcd adds what etcd's members said, and since when each is as it is.
func (s *scene) addEtcd(survey etcd.Survey, since *group.MemberTimes, now time.Time) {
	s.survey = survey
	facts := &s.observed.Etcd
	facts.Known, facts.Agreed, facts.Why = survey.Known, survey.Agreed, survey.Why
	matched := s.match(survey.Members)
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
			Learner: m.Learner,
			Leader:  m.Leader,
			Health:  m.Health,
			Why:     m.Why,
			Alarms:  m.Alarms,
		})
	}
	slices.SortFunc(facts.Members, func(a, b plan.Member) int { return cmp.Compare(a.ID, b.ID) })
	if survey.Known {
		since.Stamp(facts.Members, now)
	}
	for _, m := range s.machines {
		m.facts.CannotJoin = s.cannotJoin(m)
	}
}

// newestFact returns when the newest of the facts that decisions wait for became
// true, as far as that is on record. Kubernetes records most times in full seconds.
func (s *scene) newestFact() time.Time {
	times := []time.Time{s.kcp.CreationTimestamp.Time}
	for _, m := range s.machines {
		times = append(times, m.facts.NodeSince, m.CreationTimestamp.Time)
		if gone := m.DeletionTimestamp; gone != nil {
			times = append(times, gone.Time)
		}
		for _, c := range m.Status.Conditions {
			if c.Type == clusterv1.MachineDeletingCondition {
				times = append(times, c.LastTransitionTime.Time)
			}
		}
		if m.node != nil {
			for _, c := range m.node.Status.Conditions {
				if c.Type == corev1.NodeReady {
					times = append(times, c.LastTransitionTime.Time)
				}
			}
		}
	}
	for _, pod := range s.view.Pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady {
				times = append(times, c.LastTransitionTime.Time)
			}
		}
	}
	for _, m := range s.observed.Etcd.Members {
		times = append(times, m.Since)
	}
	if s.cluster != nil {
		for _, c := range s.cluster.Status.Conditions {
			if c.Type == clusterv1.ClusterInfrastructureReadyCondition {
				times = append(times, c.LastTransitionTime.Time)
			}
		}
	}
	return slices.MaxFunc(times, func(a, b time.Time) int { return a.Compare(b) })
}
