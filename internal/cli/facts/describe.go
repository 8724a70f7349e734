package facts

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// Seen is everything that was read of one cluster.
type Seen struct {
	Objects *Objects
	// View is what the cluster itself says.
	View workload.View
	// Sandboxes are the host's machines by name; nil: the machines are not this host's.
	Sandboxes map[string]sandbox.Status
	// Observed are the facts for the next decision; nil: they were not read.
	Observed *plan.Observed
	// EtcdObserved are the same for the next decision about each etcd cluster, by its name.
	EtcdObserved map[string]*plan.Observed
}

// Describe says how the cluster is.
func Describe(s Seen) report.Cluster {
	c := s.Objects.Cluster
	out := report.Cluster{
		Namespace: c.Namespace,
		Name:      c.Name,
		Phase:     c.Status.Phase,
		Paused:    ptr.Deref(c.Spec.Paused, false),
		Deleting:  !c.DeletionTimestamp.IsZero(),
	}
	if c.Spec.ControlPlaneEndpoint.IsValid() {
		out.Endpoint = c.Spec.ControlPlaneEndpoint.String()
	}
	if s.initialized() && !s.View.Reachable {
		out.Problem = "the API server of the cluster does not answer"
		if s.View.Why != "" {
			out.Problem += ": " + s.View.Why
		}
	}
	out.ControlPlane = s.controlPlane()
	if s.Observed != nil {
		out.Etcd = report.NewEtcd(s.Observed.Etcd)
	}
	for _, e := range s.Objects.EtcdClusters {
		out.EtcdClusters = append(out.EtcdClusters, s.etcdCluster(e))
	}
	out.Workers = s.workers()
	return out
}

// etcdCluster is an etcd cluster on machines of its own, with its quorum.
func (s Seen) etcdCluster(e *Group) report.EtcdCluster {
	out := report.EtcdCluster{
		Name:     e.Key.Name,
		Version:  e.Version,
		Replicas: e.Replicas,
		Current:  e.ObservedGeneration == e.Generation,
		Next:     e.Next,
		Recovery: aged(e.Recovery),

		Conditions: conditionsOf(e),
	}
	if observed := s.EtcdObserved[e.Key.Name]; observed != nil {
		out.Etcd = report.NewEtcd(observed.Etcd)
	}
	for i := range s.Objects.Machines {
		if m := &s.Objects.Machines[i]; machine.EtcdCluster(m) == e.Key.Name {
			out.Machines = append(out.Machines, s.machine(m))
		}
	}
	return out
}

func (s Seen) initialized() bool {
	return s.Objects.ControlPlane != nil && s.Objects.ControlPlane.Initialized
}

func (s Seen) controlPlane() report.ControlPlane {
	cp := s.Objects.ControlPlane
	if cp == nil {
		return report.ControlPlane{}
	}
	out := report.ControlPlane{
		Name:      cp.Key.Name,
		Version:   cp.Version,
		Replicas:  cp.Replicas,
		Available: meta.IsStatusConditionTrue(cp.Conditions, clusterv1.AvailableCondition),
		UpToDate:  meta.IsStatusConditionTrue(cp.Conditions, clusterv1.MachinesUpToDateCondition),
		Current:   cp.ObservedGeneration == cp.Generation,
	}
	if _, elsewhere := cp.Labels[clusterv1.WatchLabel]; !elsewhere { // the manager that runs beside may write no plan, or no more
		out.Next = cp.Next
	}
	out.CertificateExpiry = s.certificateExpiry()
	out.Recovery, out.Conditions = aged(cp.Recovery), conditionsOf(cp)
	for i := range s.Objects.Machines {
		if m := &s.Objects.Machines[i]; machine.IsControlPlane(m) {
			out.Machines = append(out.Machines, s.machine(m))
		}
	}
	return out
}

// conditionsOf are the conditions of a group's status.
func conditionsOf(g *Group) []report.Condition {
	var out []report.Condition
	for _, c := range g.Conditions {
		out = append(out, report.Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		})
	}
	return out
}

// aged returns a recovery with the age of its backup.
func aged(r report.Recovery) report.Recovery {
	if !r.Taken.IsZero() {
		r.Age = time.Since(r.Taken)
	}
	return r
}

// expirySoon is how long before its end a certificate is worth a warning.
const expirySoon = 30 * 24 * time.Hour

// certificateExpiry is what the control plane's status tells of its certificates.
func (s Seen) certificateExpiry() report.CertificateExpiry {
	out := s.Objects.ControlPlane.CertificateExpiry
	if !out.Date.IsZero() && s.Observed != nil {
		out.Past = !s.Observed.Now.Before(out.Date)
		out.Soon = !s.Observed.Now.Before(out.Date.Add(-expirySoon))
	}
	return out
}

// workers are those of each MachineDeployment, then the machines of each etcd cluster that is not known here, and last the machines of
// none.
func (s Seen) workers() []report.Workers {
	var out []report.Workers
	taken := map[string]bool{}
	for i := range s.Objects.Deployments {
		d := &s.Objects.Deployments[i]
		w := report.Workers{
			Name:     d.Name,
			Version:  d.Spec.Template.Spec.Version,
			Replicas: int(ptr.Deref(d.Spec.Replicas, 1)),
			Current:  d.Status.ObservedGeneration == d.Generation,
		}
		for j := range s.Objects.Machines {
			m := &s.Objects.Machines[j]
			if m.Labels[clusterv1.MachineDeploymentNameLabel] == d.Name {
				taken[m.Name] = true
				w.Machines = append(w.Machines, s.machine(m))
			}
		}
		out = append(out, w)
	}
	return append(out, s.otherMachines(taken)...)
}

// otherMachines are those of each etcd cluster that is not known here, and last those of none, but for the control plane's and those that
// are taken.
func (s Seen) otherMachines(taken map[string]bool) []report.Workers {
	rest := map[string]*report.Workers{}
	for j := range s.Objects.Machines {
		m := &s.Objects.Machines[j]
		of := machine.EtcdCluster(m)
		if machine.IsControlPlane(m) || taken[m.Name] || s.Objects.knowsEtcd(of) {
			continue
		}
		if rest[of] == nil {
			rest[of] = &report.Workers{EtcdCluster: of, Current: true}
		}
		rest[of].Machines = append(rest[of].Machines, s.machine(m))
		rest[of].Replicas++
	}
	var out []report.Workers
	// Those of no etcd cluster have the empty name, which sorts first.
	for _, of := range slices.Backward(slices.Sorted(maps.Keys(rest))) {
		out = append(out, *rest[of])
	}
	return out
}

// knowsEtcd reports whether there is an EtcdCluster of that name.
func (o *Objects) knowsEtcd(name string) bool {
	return slices.ContainsFunc(o.EtcdClusters, func(e *Group) bool { return e.Key.Name == name })
}

func (s Seen) machine(m *clusterv1.Machine) report.Machine {
	out := report.Machine{
		Name:     m.Name,
		Domain:   m.Spec.FailureDomain,
		Version:  m.Spec.Version,
		Address:  machine.InternalIP(m),
		Created:  m.CreationTimestamp.Time,
		Since:    m.CreationTimestamp.Time,
		Deleting: !m.DeletionTimestamp.IsZero(),
	}
	if out.Deleting {
		out.Since = m.DeletionTimestamp.Time
	}
	f := report.Facts{Deleting: out.Deleting, Leaving: message(m.Status.Conditions, clusterv1.MachineDeletingCondition)}
	f.Data = m.Spec.Bootstrap.DataSecretName != nil
	if why := message(m.Status.Conditions, clusterv1.MachineBootstrapConfigReadyCondition); !strings.Contains(why,
		"dataSecretCreated is false") {
		f.DataWhy = why // else it only says the same in the contract's words
	}
	s.addSandbox(&f, m)
	if why := machine.Failure(m, nil, m.Status.NodeRef.IsDefined()); why != "" {
		f.Failure = why // the provider tells causes apart
	}
	if out.Address == "" {
		if box, found := s.Sandboxes[m.Name]; found {
			out.Address = box.Addresses()[0].String()
		}
	}
	s.addNode(&f, &out, m)
	out.Components = f.Components
	out.Waiting, out.Failed = report.Waiting(f)
	if out.Waiting == "" {
		out.Waiting = s.incomplete(m)
	}
	return out
}

// incomplete says what a machine lacks in the eyes of the rules; empty: nothing, or they were not asked.
func (s Seen) incomplete(of *clusterv1.Machine) string {
	observed := s.Observed
	if e := machine.EtcdCluster(of); e != "" {
		observed = s.EtcdObserved[e]
	}
	if observed == nil {
		return ""
	}
	for _, m := range plan.Assess(*observed).Machines {
		if m.Name == of.Name && !m.Complete() {
			return m.Why
		}
	}
	return ""
}

// addSandbox adds what the host knows of the machine.
func (s Seen) addSandbox(f *report.Facts, m *clusterv1.Machine) {
	box, found := s.Sandboxes[m.Name]
	if s.Sandboxes == nil {
		// How far a machine elsewhere is between its infrastructure and its Node is not known.
		f.Infrastructure, f.Running, f.Bootstrap = meta.IsStatusConditionTrue(m.Status.Conditions,
			clusterv1.MachineInfrastructureReadyCondition), true, true
	}
	if !found {
		f.InfrastructureWhy = message(m.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
		return
	}
	b := box.Bootstrap
	// What once ran is not made again: whether it runs now is told apart.
	f.Infrastructure = box.Ready || b.Phase != ""
	f.InfrastructureWhy = box.Problem
	f.Running, f.RunningWhy = running(box)
	f.Bootstrap = b.Phase == sandbox.BootstrapSucceeded
	f.BootstrapWhy, _, _ = strings.Cut(b.Command, " && ") // the rest of the line only notes that it was done
	if b.Phase == sandbox.BootstrapFailed {
		f.Failure = failure(b)
	}
}

// running reports whether a machine runs and can be reached; else, why not.
func running(box sandbox.Status) (bool, string) {
	switch {
	case box.State == sandbox.Running && box.Partitioned:
		return false, "its link is cut; `quorate machine heal` mends it"
	case box.State == sandbox.Running:
		return true, ""
	case box.State == sandbox.Stopped:
		return false, "stopped; `quorate machine start` starts it"
	case box.State == sandbox.Paused:
		return false, "paused; `quorate machine resume` resumes it"
	default:
		return false, strings.ToLower(string(box.State))
	}
}

// failure is the command that failed and the last line that it printed.
func failure(b sandbox.Bootstrap) string {
	if b.Unsupported != "" {
		return "the bootstrap data has " + b.Unsupported + ", which local machines cannot carry out"
	}
	lines := strings.Split(strings.TrimSpace(b.Output), "\n")
	command, _, _ := strings.Cut(b.Command, " && ")
	parts := []string{"bootstrap", command, lines[len(lines)-1]}
	return strings.Join(nonEmpty(parts), ": ")
}

func nonEmpty(parts []string) []string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

// addNode adds what the cluster itself says; where it does not answer, what the Machine last said.
func (s Seen) addNode(f *report.Facts, out *report.Machine, m *clusterv1.Machine) {
	if machine.IsEtcd(m) {
		// It runs no kubelet, and has no Node.
		f.Node, f.NodeReady = true, true
		return
	}
	node := s.node(m)
	if node == nil {
		out.Node = m.Status.NodeRef.Name
		f.Node = out.Node != "" && !s.View.Reachable
		f.NodeWhy = "the cluster does not answer"
		return
	}
	out.Node, f.Node = node.Name, true
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			f.NodeReady, f.NodeWhy = c.Status == corev1.ConditionTrue, c.Message
		}
	}
	out.NodeReady = f.NodeReady
	if machine.IsControlPlane(m) && s.Objects.ControlPlane != nil {
		f.Components = s.Objects.ControlPlane.components(node.Name, s.View.Pods)
		machine.Reported(f.Components, m, node.Name, s.View.Pods, time.Now())
	}
}

// node finds the machine's Node; nil: none is known.
func (s Seen) node(m *clusterv1.Machine) *corev1.Node {
	if !s.View.Reachable {
		return nil
	}
	return machine.Nodes([]*clusterv1.Machine{m}, s.View.Nodes)[m.Name]
}

// message is what a condition says while it is not as it should be: not true, or, of Deleting, true.
func message(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if deleting := kind == clusterv1.MachineDeletingCondition; c == nil || deleting != (c.Status == metav1.ConditionTrue) {
		return ""
	}
	if c.Message == "" {
		return c.Reason
	}
	return c.Message
}
