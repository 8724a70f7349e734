package extension

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/program/plaintext"
	"github.com/quorate/quorate/internal/upgrade/extension/inplace"
	"github.com/quorate/quorate/internal/upgrade/updates"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kubeadmconfigs,verbs=get
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades,verbs=list;watch;create;delete

// retrySeconds is after how long Cluster API asks again how far an update is. A node takes 15 to 30 s.
const retrySeconds = 2

// longestAnswer is how many bytes the message of an answer has at most: Cluster API copies it to a condition of the Machine.
const longestAnswer = 4096

// UpdateMachine has a node become what its Machine says, and answers how far that is. It is asked again and again until it answers without
// a time to retry; a failure is requested again too, so that it goes on when a person has retried the NodeUpgrade.
func (e *Extension) UpdateMachine(
	ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, response *runtimehooksv1.UpdateMachineResponse,
) {
	key := client.ObjectKeyFromObject(&request.Desired.Machine)
	decision, err := e.update(ctx, key, request.Desired.Machine.Spec.Version)
	if err != nil || decision.Verb == inplace.Failed {
		if err == nil {
			err = fmt.Errorf("updating Machine %s in place: %s", key, decision.Message)
		}
		ctrl.LoggerFrom(ctx).Error(err, "Update in place failed")
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
		response.SetMessage(plaintext.Quote(err.Error(), longestAnswer))
		return
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.SetMessage(plaintext.Quote(decision.Message, longestAnswer))
	if decision.Verb != inplace.Done {
		response.SetRetryAfterSeconds(retrySeconds)
	}
}

// update decides the next step of a machine's update and does it.
func (e *Extension) update(ctx context.Context, key client.ObjectKey, requested string) (inplace.Decision, error) {
	s, err := e.observe(ctx, key)
	if err != nil {
		return inplace.Decision{}, err
	}
	s.facts.Requested = requested
	decision := inplace.Next(s.facts)
	switch decision.Verb {
	case inplace.Make:
		err = e.make(ctx, s.machine, decision)
	case inplace.Remove:
		err = e.remove(ctx, s, decision.Upgrade)
	}
	return decision, err
}

// scope is what was read about one machine.
type scope struct {
	machine  *clusterv1.Machine // nil: there is none
	upgrades map[string]*upgradev1.NodeUpgrade
	facts    inplace.Facts
}

// observe reads all that decides. What the node is to become is read from the API server itself: the Machine and its KubeadmConfig are
// written one after the other, and a state between the two is not wanted.
func (e *Extension) observe(ctx context.Context, key client.ObjectKey) (*scope, error) {
	s := &scope{machine: &clusterv1.Machine{}, upgrades: map[string]*upgradev1.NodeUpgrade{}}
	err := e.APIReader.Get(ctx, key, s.machine)
	if apierrors.IsNotFound(err) {
		return &scope{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	self := machineOf(s.machine)
	configuration, marked, err := e.configuration(ctx, s.machine)
	if err != nil {
		return nil, err
	}
	self.Updating = self.Updating && pending(s.machine) && marked
	s.facts.Machine = &self
	s.facts.Wanted = inplace.UpgradeName(self.Name, self.Version, configuration)
	if s.facts.Others, err = e.others(ctx, s.machine); err != nil {
		return nil, err
	}
	return s, e.listUpgrades(ctx, s)
}

// machineOf is what of a Machine counts.
func machineOf(m *clusterv1.Machine) inplace.Machine {
	_, marked := m.Annotations[clusterv1.UpdateInProgressAnnotation]
	return inplace.Machine{
		Name: m.Name, Version: m.Spec.Version, ControlPlane: util.IsControlPlaneMachine(m),
		Updating: marked || pending(m), Deleting: !m.DeletionTimestamp.IsZero(),
	}
}

// pending reports whether Cluster API waits for the machine's update.
func pending(m *clusterv1.Machine) bool {
	hooks := strings.Split(m.Annotations[runtimev1.PendingHooksAnnotation], ",")
	return slices.Contains(hooks, "UpdateMachine")
}

// configuration returns the clusterConfiguration of a control plane machine, and whether its bootstrap object is marked for the update,
// which is when it says what is wanted. A worker's is not asked for: nothing of it is changed in place.
func (e *Extension) configuration(ctx context.Context, m *clusterv1.Machine) (bootstrapv1.ClusterConfiguration, bool, error) {
	ref := m.Spec.Bootstrap.ConfigRef
	if !util.IsControlPlaneMachine(m) || ref.Kind != "KubeadmConfig" {
		return bootstrapv1.ClusterConfiguration{}, true, nil
	}
	config := &bootstrapv1.KubeadmConfig{}
	if err := e.APIReader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, config); err != nil {
		return bootstrapv1.ClusterConfiguration{}, false, fmt.Errorf("reading KubeadmConfig %s: %w", ref.Name, err)
	}
	_, marked := config.Annotations[clusterv1.UpdateInProgressAnnotation]
	return config.Spec.ClusterConfiguration, marked, nil
}

// others returns the other control plane machines of the machine's cluster.
func (e *Extension) others(ctx context.Context, m *clusterv1.Machine) ([]inplace.Machine, error) {
	var all clusterv1.MachineList
	err := e.Client.List(ctx, &all, client.InNamespace(m.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: m.Spec.ClusterName}, client.HasLabels{clusterv1.MachineControlPlaneLabel})
	if err != nil {
		return nil, fmt.Errorf("listing the control plane machines of Cluster %s: %w", m.Spec.ClusterName, err)
	}
	var others []inplace.Machine
	for i := range all.Items {
		if all.Items[i].Name != m.Name {
			others = append(others, machineOf(&all.Items[i]))
		}
	}
	return others, nil
}

// listUpgrades reads the NodeUpgrades of the machine.
func (e *Extension) listUpgrades(ctx context.Context, s *scope) error {
	var all upgradev1.NodeUpgradeList
	if err := e.Client.List(ctx, &all, client.InNamespace(s.machine.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: s.machine.Spec.ClusterName}); err != nil {
		return fmt.Errorf("listing the NodeUpgrades of Cluster %s: %w", s.machine.Spec.ClusterName, err)
	}
	for i := range all.Items {
		u := &all.Items[i]
		if u.Spec.Machine.Name != s.machine.Name {
			continue
		}
		s.upgrades[u.Name] = u
		s.facts.Upgrades = append(s.facts.Upgrades, upgradeOf(u, s.machine))
	}
	slices.SortFunc(s.facts.Upgrades, func(a, b inplace.Upgrade) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// upgradeOf is what of a NodeUpgrade counts.
func upgradeOf(u *upgradev1.NodeUpgrade, m *clusterv1.Machine) inplace.Upgrade {
	state := upgradepod.StateOf(u)
	return inplace.Upgrade{
		Name: u.Name, Ours: metav1.IsControlledBy(u, m), Recorded: updates.IsRecorded(u), Deleting: !u.DeletionTimestamp.IsZero(),
		Begun: state != upgradepod.Waiting, Completed: state == upgradepod.Complete, Failed: state == upgradepod.Failed,
		Message: progressOf(u, state),
	}
}

// progressOf says how far an upgrade is; empty: it has not begun.
func progressOf(u *upgradev1.NodeUpgrade, state upgradepod.State) string {
	progress := conditions.Get(u, upgradev1.Progressing)
	if progress == nil {
		return ""
	}
	text := progress.Reason
	if step := stepOf(u); step != "" && state == upgradepod.Active {
		text += ", " + step
	}
	if progress.Message != "" {
		text += ": " + progress.Message
	}
	return text
}

// stepOf says at which step an upgrade is; empty: at none.
func stepOf(u *upgradev1.NodeUpgrade) string {
	for i, step := range u.Status.Steps {
		if !conditions.IsTrue(u, step) {
			return fmt.Sprintf("step %s (%d of %d)", step, i+1, len(u.Status.Steps))
		}
	}
	return ""
}

// make makes the NodeUpgrade. Its name says what it is for, so that one that exists already is the same.
func (e *Extension) make(ctx context.Context, m *clusterv1.Machine, d inplace.Decision) error {
	drain, err := updates.AnnotatedDrain(m.Annotations)
	if err != nil {
		return fmt.Errorf("reading how the node of Machine %s is drained: %w", m.Name, err)
	}
	u := &upgradev1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: d.Upgrade, Labels: map[string]string{clusterv1.ClusterNameLabel: m.Spec.ClusterName},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: m.UID, Controller: ptr.To(true),
			}},
		},
		Spec: upgradev1.NodeUpgradeSpec{
			Machine: upgradev1.MachineReference{Name: m.Name}, KubernetesVersion: m.Spec.Version, NodeType: upgradev1.Worker,
			Drain: drain,
		},
	}
	if util.IsControlPlaneMachine(m) {
		u.Spec.NodeType, u.Spec.FirstNodeToBeUpgraded = upgradev1.ControlPlane, ptr.To(d.First)
	}
	if filter, watched := m.Labels[clusterv1.WatchLabel]; watched {
		u.Labels[clusterv1.WatchLabel] = filter
	}
	if err := e.Client.Create(ctx, u); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making NodeUpgrade %s: %w", u.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Update in place begins", "machine", m.Name, "version", m.Spec.Version, "node upgrade", d.Upgrade)
	return nil
}

// remove deletes an obsolete NodeUpgrade, and only the one that was looked at.
func (e *Extension) remove(ctx context.Context, s *scope, name string) error {
	u := s.upgrades[name]
	err := e.Client.Delete(ctx, u, client.Preconditions{UID: &u.UID, ResourceVersion: &u.ResourceVersion})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it has changed since: the next call sees it
	}
	if err != nil {
		return fmt.Errorf("removing NodeUpgrade %s: %w", name, err)
	}
	return nil
}
