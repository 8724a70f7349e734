package workerupgrade

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment/mdutil"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/core/workerplan"
	"github.com/quorate/quorate/internal/upgrade/updates"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// scope is one MachineDeployment with all that belongs to it.
type scope struct {
	deployment *clusterv1.MachineDeployment
	cluster    *clusterv1.Cluster
	sets       []clusterv1.MachineSet
	machines   []*clusterv1.Machine
	// upgrades are the MachineDeploymentUpgrades, current the one of what is wanted now; nil: there is none.
	upgrades []upgradev1.MachineDeploymentUpgrade
	current  *upgradev1.MachineDeploymentUpgrade
	// nodes are the NodeUpgrades of the machines that decide something, by the Machine's name.
	nodes map[string]*upgradev1.NodeUpgrade
}

// policy is what the MachineDeployment's annotation says; an unknown word is an error that names what is valid.
func (s *scope) policy() (plan.InPlace, error) {
	switch p := s.deployment.Annotations[upgradev1.PolicyAnnotation]; p {
	case "", "Never":
		return plan.InPlaceNever, nil
	case string(plan.InPlacePreferred), string(plan.InPlaceOnly), string(plan.InPlaceExternal):
		return plan.InPlace(p), nil
	default:
		return "", fmt.Errorf("invalid annotation %s of MachineDeployment %s %q: must be Never, Preferred, Only or External",
			upgradev1.PolicyAnnotation, s.deployment.Name, p)
	}
}

// drain is how the MachineDeployment's annotations want nodes to be drained.
func (s *scope) drain() (upgradev1.DrainSpec, error) {
	drain, err := updates.AnnotatedDrain(s.deployment.Annotations)
	if err != nil {
		return drain, fmt.Errorf("reading how nodes of MachineDeployment %s are drained: %w", s.deployment.Name, err)
	}
	return drain, nil
}

// read reads all that belongs to a MachineDeployment.
func (c *Controller) read(ctx context.Context, s *scope) error {
	md := s.deployment
	var err error
	if s.cluster, err = util.GetClusterByName(ctx, c.Client, md.Namespace, md.Spec.ClusterName); err != nil {
		return fmt.Errorf("reading the Cluster of MachineDeployment %s: %w", md.Name, err)
	}
	of := []client.ListOption{client.InNamespace(md.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: md.Spec.ClusterName}}
	var sets clusterv1.MachineSetList
	var machines clusterv1.MachineList
	var upgrades upgradev1.MachineDeploymentUpgradeList
	var nodes upgradev1.NodeUpgradeList
	for _, list := range []client.ObjectList{&sets, &machines, &upgrades, &nodes} {
		if err := c.Client.List(ctx, list, of...); err != nil {
			return fmt.Errorf("listing what belongs to MachineDeployment %s: %w", md.Name, err)
		}
	}
	s.sets = slices.DeleteFunc(sets.Items, func(ms clusterv1.MachineSet) bool { return !metav1.IsControlledBy(&ms, md) })
	slices.SortFunc(s.sets, func(a, b clusterv1.MachineSet) int { return strings.Compare(a.Name, b.Name) })
	for i := range machines.Items {
		if m := &machines.Items[i]; s.setOf(m) != nil {
			s.machines = append(s.machines, m)
		}
	}
	slices.SortFunc(s.machines, machine.Compare)
	// One of a MachineDeployment of the same name that is gone goes too: until then the name is taken.
	s.upgrades = slices.DeleteFunc(upgrades.Items, func(u upgradev1.MachineDeploymentUpgrade) bool { return !metav1.IsControlledBy(&u, md) })
	if i := slices.IndexFunc(s.upgrades, func(u upgradev1.MachineDeploymentUpgrade) bool { return u.Name == s.upgradeName() }); i >= 0 {
		s.current = &s.upgrades[i]
	}
	s.nodes = s.openUpgrades(nodes.Items)
	return nil
}

// openUpgrades are the NodeUpgrades that are to be recorded or have not ended, by the names of their Machines; of several of one Machine,
// the newest.
func (s *scope) openUpgrades(nodes []upgradev1.NodeUpgrade) map[string]*upgradev1.NodeUpgrade {
	open := map[string]*upgradev1.NodeUpgrade{}
	slices.SortFunc(nodes, func(a, b upgradev1.NodeUpgrade) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range nodes {
		u := &nodes[i]
		recorded := updates.IsRecorded(u) && !s.isUnsaid(u)
		if !recorded && u.DeletionTimestamp.IsZero() && !isOfMachine(u) {
			open[u.Spec.Machine.Name] = u
		}
	}
	return open
}

// isUnsaid reports whether a Machine does not say what was recorded in it, although that is what is wanted and what its node runs. Cluster
// API's MachineSet controller writes all of a Machine, its version too, as its cache shows it: what was recorded a moment before is lost.
func (s *scope) isUnsaid(u *upgradev1.NodeUpgrade) bool {
	m, wanted := s.machine(u.Spec.Machine.Name), u.Spec.KubernetesVersion
	return m != nil && m.Spec.Version != wanted && wanted == s.deployment.Spec.Template.Spec.Version &&
		m.Status.NodeInfo != nil && version.IsBuildOf(m.Status.NodeInfo.KubeletVersion, wanted) && upgradepod.StateOf(u) == upgradepod.Complete
}

// isOfMachine reports whether a NodeUpgrade belongs to its Machine: Quorate's Runtime Extension made it for Cluster API's controllers,
// which follow it themselves and say in the Machine beforehand what is wanted.
func isOfMachine(u *upgradev1.NodeUpgrade) bool {
	owner := metav1.GetControllerOf(u)
	return owner != nil && owner.Kind == "Machine"
}

// setOf is the MachineSet that controls a Machine; nil: none of this MachineDeployment's does.
func (s *scope) setOf(m *clusterv1.Machine) *clusterv1.MachineSet {
	for i := range s.sets {
		if metav1.IsControlledBy(m, &s.sets[i]) {
			return &s.sets[i]
		}
	}
	return nil
}

// observe makes facts of what was read.
func (c *Controller) observe(ctx context.Context, s *scope) (workerplan.Observed, error) {
	md := s.deployment
	policy, err := s.policy()
	if err != nil {
		return workerplan.Observed{}, err
	}
	drain, err := s.drain()
	if err != nil {
		return workerplan.Observed{}, err
	}
	o := workerplan.Observed{
		Policy: policy, Held: s.held(), Version: md.Spec.Template.Spec.Version,
		OnDelete:       md.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType,
		MaxUnavailable: s.maxUnavailable(),
	}
	if policy.Ours() {
		if o.ControlPlane, err = c.controlPlaneFirst(ctx, s); err != nil {
			return o, err
		}
	}
	used := map[string]bool{}
	for _, m := range s.machines {
		ms := s.setOf(m)
		used[ms.Name] = true
		o.Machines = append(o.Machines, s.factsOf(m, ms, drain))
	}
	for i := range s.sets {
		if ms := &s.sets[i]; used[ms.Name] {
			o.Sets = append(o.Sets, workerplan.Set{Name: ms.Name, Version: ms.Spec.Template.Spec.Version, Differs: differs(ms, md)})
		}
	}
	return o, c.addUpgrader(ctx, s, &o)
}

// addUpgrader adds that no image can upgrade nodes to the wanted version, before a machine is touched.
func (c *Controller) addUpgrader(ctx context.Context, s *scope, o *workerplan.Observed) error {
	if c.Upgraders == nil || !o.Policy.Ours() || o.Held != "" || o.ControlPlane != "" || len(o.Upgradable()) == 0 {
		return nil
	}
	image, err := c.Upgraders.Of(ctx, s.deployment.Namespace, o.Version)
	if err == nil && image == "" {
		o.NoUpgrader = c.Upgraders.Missing(s.deployment.Namespace, o.Version)
	}
	return err
}

// held says who holds the upgrade; empty: nothing does.
func (s *scope) held() string {
	switch {
	case ptr.Deref(s.cluster.Spec.Paused, false):
		return "the cluster is paused"
	case annotations.HasPaused(s.deployment):
		return "the MachineDeployment is paused"
	case s.current != nil && annotations.HasPaused(s.current):
		return "the upgrade is paused"
	}
	return ""
}

// factsOf are the facts of one machine, whose node is to be drained so.
func (s *scope) factsOf(m *clusterv1.Machine, ms *clusterv1.MachineSet, drain upgradev1.DrainSpec) workerplan.Machine {
	facts := workerplan.Machine{
		Name: m.Name, Set: ms.Name, Created: m.CreationTimestamp.Time, Version: m.Spec.Version, Deleting: !m.DeletionTimestamp.IsZero(),
	}
	if !conditions.IsTrue(m, clusterv1.MachineNodeReadyCondition) {
		facts.Unavailable = cmp.Or(conditions.GetMessage(m, clusterv1.MachineNodeReadyCondition), "its node is not ready")
	}
	wanted := steps.Wanted{Node: machine.NodeName(m), Type: steps.Worker, KubernetesVersion: s.deployment.Spec.Template.Spec.Version}
	kubelet, runtime := m.Spec.Version, ""
	if said := m.Status.NodeInfo; said != nil {
		kubelet, runtime = cmp.Or(said.KubeletVersion, kubelet), said.ContainerRuntimeVersion
	}
	if _, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]; updating {
		facts.Version, facts.Unavailable = kubelet, "Cluster API updates it in place" // its Machine says what is wanted already
	}
	if _, err := steps.List(steps.Node{KubeletVersion: kubelet, Runtime: runtime}, wanted); err != nil {
		facts.Unfit = err.Error()
	}
	if u := s.nodes[m.Name]; u != nil {
		facts.Obsolete = u.Spec.KubernetesVersion != s.deployment.Spec.Template.Spec.Version || updates.IsDrainedOtherwise(u, drain)
		facts.Message = conditions.GetMessage(u, upgradev1.Progressing)
		facts.Update = map[upgradepod.State]workerplan.Update{
			upgradepod.Waiting: workerplan.Underway, upgradepod.Active: workerplan.Underway, upgradepod.Complete: workerplan.Done,
			upgradepod.Failed: workerplan.Failed,
		}[upgradepod.StateOf(u)]
	}
	return facts
}

// differs says in what a MachineSet's template is not the wanted one, its version aside; empty: in nothing.
func differs(ms *clusterv1.MachineSet, md *clusterv1.MachineDeployment) string {
	current := ms.Spec.Template.DeepCopy()
	current.Spec.Version = md.Spec.Template.Spec.Version
	_, result := mdutil.MachineTemplateUpToDate(current, &md.Spec.Template)
	return strings.Join(result.LogMessages, "; ")
}

// maxUnavailable is how many machines may be away at once: what the upgrade was made with, before it is made what the annotation says.
func (s *scope) maxUnavailable() int {
	if s.current != nil {
		return int(ptr.Deref(s.current.Spec.MaxUnavailable, 1))
	}
	return maxUnavailable(s.deployment)
}

// maxUnavailable is what the MachineDeployment's annotation says; 1 where it says nothing that is a number.
func maxUnavailable(md *clusterv1.MachineDeployment) int {
	n := 0
	if _, err := fmt.Sscanf(md.Annotations[upgradev1.MaxUnavailableAnnotation], "%d", &n); err != nil || n < 1 {
		return 1
	}
	return n
}

// controlPlaneFirst says why the control plane goes first; empty: it has the version that the workers are to get, and rests.
func (c *Controller) controlPlaneFirst(ctx context.Context, s *scope) (string, error) {
	ref := s.cluster.Spec.ControlPlaneRef
	if !ref.IsDefined() {
		return "", nil
	}
	found, err := machine.ControlPlaneRef.Find(ctx, c.Client, ref, s.cluster.Namespace)
	if refused := machine.Refused(err); refused != nil {
		return "spec.controlPlaneRef of Cluster " + s.cluster.Name + ": " + refused.Error(), nil
	}
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("%s %s does not exist", ref.Kind, ref.Name), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return behind(found, s.deployment.Spec.Template.Spec.Version), nil
}

// behind says why workers wait for a control plane, by Cluster API's contract for its fields and conditions.
func behind(controlPlane *unstructured.Unstructured, wanted string) string {
	name := controlPlane.GetKind() + " " + controlPlane.GetName()
	spec, versioned, _ := unstructured.NestedString(controlPlane.Object, "spec", "version")
	said, known, _ := unstructured.NestedString(controlPlane.Object, "status", "version")
	switch {
	case versioned && isOlder(spec, wanted):
		return fmt.Sprintf("%s has %s in spec.version, and goes first", name, spec)
	case versioned && !known: // as when it is new, or was moved
		return name + " does not say yet which version it runs, and goes first"
	case isOlder(said, wanted):
		return fmt.Sprintf("%s has %s in status.version, and goes first", name, said)
	}
	if isRollingOut(controlPlane) {
		return name + " is rolling out, and goes first"
	}
	return ""
}

// isOlder reports whether a version is older than another. Of what is no version nothing is said.
func isOlder(said, than string) bool {
	a, errA := version.Parse(said)
	b, errB := version.Parse(than)
	return errA == nil && errB == nil && version.Compare(a, b) < 0
}

// isRollingOut reports whether a control plane's condition says that it replaces machines.
func isRollingOut(controlPlane *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(controlPlane.Object, "status", "conditions")
	return slices.ContainsFunc(list, func(one any) bool {
		condition, _ := one.(map[string]any)
		return condition["type"] == clusterv1.RollingOutCondition && condition["status"] == string(metav1.ConditionTrue)
	})
}
