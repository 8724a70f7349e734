package workerupgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/workerplan"
	"github.com/quorate/quorate/internal/upgrade/updates"
)

// do carries out one step. Each may be repeated without harm.
func (c *Controller) do(ctx context.Context, s *scope, step workerplan.Step) error {
	switch step.Verb {
	case workerplan.UpdateInPlace:
		return c.update(ctx, s, step.Machine)
	case workerplan.RecordUpdate:
		return c.record(ctx, s, step.Machine)
	case workerplan.DropUpdate:
		return c.delete(ctx, s.nodes[step.Machine])
	case workerplan.Replace:
		return c.delete(ctx, s.machine(step.Machine))
	case workerplan.FollowSet:
		return c.follow(ctx, s, step.Set)
	case workerplan.Nothing, workerplan.Wait:
		return nil
	}
	return fmt.Errorf("the step %s is not known", step.Verb)
}

// wanted identifies what a MachineDeployment wants of its machines, in a name, which is the same after a move to another management
// cluster.
func (s *scope) wanted() string {
	spec := s.deployment.Spec.Template.Spec
	sum := sha256.Sum256([]byte(fmt.Sprint(spec.Version, spec.Bootstrap.ConfigRef, spec.InfrastructureRef, spec.FailureDomain)))
	return hex.EncodeToString(sum[:4])
}

func (s *scope) upgradeName() string { return s.deployment.Name + "-" + s.wanted() }

// update begins the upgrade of a machine.
func (c *Controller) update(ctx context.Context, s *scope, name string) error {
	drain, err := s.drain()
	if err != nil {
		return err
	}
	u := &upgradev1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.deployment.Namespace, Name: name + "-" + s.wanted(), Labels: s.labels(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.current,
				upgradev1.GroupVersion.WithKind("MachineDeploymentUpgrade"))},
		},
		Spec: upgradev1.NodeUpgradeSpec{
			Machine: upgradev1.MachineReference{Name: name}, KubernetesVersion: s.deployment.Spec.Template.Spec.Version, NodeType: upgradev1.Worker,
			Drain: drain,
		},
	}
	err = c.Client.Create(ctx, u)
	switch {
	case apierrors.IsAlreadyExists(err):
		return c.makeRoom(ctx, u)
	case err != nil:
		return fmt.Errorf("creating NodeUpgrade %s: %w", u.Name, err)
	}
	return nil
}

// makeRoom deletes an upgrade that was recorded, in whose place another is to be made: since then the node became older again, as where its
// disk was put back. One that was not recorded is the wanted one. The other is made when this is gone: until then it is a conflict.
func (c *Controller) makeRoom(ctx context.Context, wanted *upgradev1.NodeUpgrade) error {
	there := &upgradev1.NodeUpgrade{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(wanted), there); err != nil {
		return fmt.Errorf("reading NodeUpgrade %s: %w", wanted.Name, err)
	}
	if named, name := there.Spec.Machine.Name, wanted.Spec.Machine.Name; named != name {
		return fmt.Errorf("creating NodeUpgrade %s: the name is taken by one whose spec.machine is %q: must be %q; delete it", there.Name, named,
			name)
	}
	if !updates.IsRecorded(there) && there.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := c.delete(ctx, there); err != nil {
		return err
	}
	return apierrors.NewConflict(schema.GroupResource{Group: upgradev1.GroupVersion.Group, Resource: "nodeupgrades"}, there.Name,
		errors.New("an earlier upgrade to the same goes first"))
}

// labels are those of all that is made for the MachineDeployment: with the cluster's name it moves with the cluster.
func (s *scope) labels() map[string]string {
	labels := map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name, clusterv1.MachineDeploymentNameLabel: s.deployment.Name,
		upgradev1.WantedLabel: s.wanted()}
	if filter, on := s.deployment.Labels[clusterv1.WatchLabel]; on {
		labels[clusterv1.WatchLabel] = filter
	}
	return labels
}

// record says in the Machine which version its node runs, and after that in the NodeUpgrade that this was said.
func (c *Controller) record(ctx context.Context, s *scope, name string) error {
	m, u := s.machine(name), s.nodes[name]
	if m == nil || u == nil {
		return fmt.Errorf("recording the upgrade of Machine %s: it or its NodeUpgrade is gone", name)
	}
	after := m.DeepCopy()
	after.Spec.Version = u.Spec.KubernetesVersion
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the version of Machine %s: %w", name, err)
	}
	noted := u.DeepCopy()
	metav1.SetMetaDataAnnotation(&noted.ObjectMeta, upgradev1.RecordedAnnotation, time.Now().UTC().Format(time.RFC3339))
	if err := c.Client.Patch(ctx, noted, client.MergeFrom(u)); err != nil {
		return fmt.Errorf("noting in NodeUpgrade %s that it is recorded: %w", u.Name, err)
	}
	return nil
}

// delete deletes an object as it was seen.
func (c *Controller) delete(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	if err := c.Client.Delete(ctx, o, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", o.GetName(), err)
	}
	return nil
}

// follow gives a MachineSet the wanted version, so that it is the current one to Cluster API.
func (c *Controller) follow(ctx context.Context, s *scope, name string) error {
	for i := range s.sets {
		ms := &s.sets[i]
		if ms.Name != name {
			continue
		}
		after := ms.DeepCopy()
		after.Spec.Template.Spec.Version = s.deployment.Spec.Template.Spec.Version
		if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(ms, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("writing the version of MachineSet %s: %w", name, err)
		}
	}
	return nil
}

// bookkeep keeps the MachineDeploymentUpgrade, its status, and the annotation for others.
func (c *Controller) bookkeep(ctx context.Context, s *scope, o workerplan.Observed, d workerplan.Decision) error {
	behind := o.Behind()
	if err := c.annotate(ctx, s, o); err != nil {
		return err
	}
	if s.current == nil && o.Policy.Ours() && len(behind) > 0 {
		if err := c.createUpgrade(ctx, s, behind); err != nil {
			return err
		}
	}
	if err := c.report(ctx, s, o, d); err != nil || d.Step.Verb != workerplan.Nothing {
		return err
	}
	return c.dropOtherUpgrades(ctx, s)
}

// dropOtherUpgrades deletes the MachineDeploymentUpgrades of what was wanted before.
func (c *Controller) dropOtherUpgrades(ctx context.Context, s *scope) error {
	for i := range s.upgrades {
		if u := &s.upgrades[i]; u.Name != s.upgradeName() {
			if err := c.delete(ctx, u); err != nil {
				return err
			}
		}
	}
	return nil
}

// annotate tells others, where they are to upgrade machines in place, that some are behind, or takes that back.
func (c *Controller) annotate(ctx context.Context, s *scope, o workerplan.Observed) error {
	needed := o.Policy == plan.InPlaceExternal && len(o.Behind()) > 0
	md, version := s.deployment, s.deployment.Spec.Template.Spec.Version
	said, on := md.Annotations[upgradev1.NeededAnnotation]
	if needed && said == version || !needed && !on {
		return nil
	}
	after := md.DeepCopy()
	delete(after.Annotations, upgradev1.NeededAnnotation)
	if needed {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, upgradev1.NeededAnnotation, version)
	}
	if err := c.Client.Patch(ctx, after, client.MergeFrom(md)); err != nil {
		return fmt.Errorf("annotating MachineDeployment %s: %w", md.Name, err)
	}
	s.deployment = after
	return nil
}

// createUpgrade makes the MachineDeploymentUpgrade of what is wanted now.
func (c *Controller) createUpgrade(ctx context.Context, s *scope, behind []workerplan.Machine) error {
	md := s.deployment
	data, err := json.Marshal(md.Spec.Template.Spec)
	if err != nil {
		return fmt.Errorf("writing the spec of MachineDeployment %s: %w", md.Name, err)
	}
	u := &upgradev1.MachineDeploymentUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: md.Namespace, Name: s.upgradeName(), Labels: s.labels(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(md, clusterv1.GroupVersion.WithKind("MachineDeployment"))},
		},
		Spec: upgradev1.MachineDeploymentUpgradeSpec{
			MachineDeployment: upgradev1.MachineReference{Name: md.Name}, KubernetesVersion: md.Spec.Template.Spec.Version,
			MachineSpecData: string(data), MaxUnavailable: ptr.To(int32(maxUnavailable(md))),
		},
	}
	for _, m := range behind {
		u.Spec.MachinesRequireUpgrade = append(u.Spec.MachinesRequireUpgrade, upgradev1.MachineReference{Name: m.Name})
	}
	if err := c.Client.Create(ctx, u); err != nil {
		return fmt.Errorf("creating MachineDeploymentUpgrade %s: %w", u.Name, err)
	}
	s.current = u
	return nil
}

// report writes the status of the upgrade, if there is one.
func (c *Controller) report(ctx context.Context, s *scope, o workerplan.Observed, d workerplan.Decision) error {
	if s.current == nil {
		return nil
	}
	after := s.current.DeepCopy()
	describe(after, o, d)
	if equality.Semantic.DeepEqual(s.current.Status, after.Status) {
		return nil
	}
	if err := c.Client.Status().Patch(ctx, after, client.MergeFrom(s.current)); err != nil {
		return fmt.Errorf("writing the status of MachineDeploymentUpgrade %s: %w", after.Name, err)
	}
	s.current = after
	return nil
}

// describe writes into the status of an upgrade how far it is.
func describe(after *upgradev1.MachineDeploymentUpgrade, o workerplan.Observed, d workerplan.Decision) {
	behind := len(o.Behind())
	ready := behind == 0 && d.Step.Verb == workerplan.Nothing
	after.Status.RequireUpgrade, after.Status.Upgraded = ptr.To(int64(behind)), ptr.To(int64(len(o.Machines)-behind))
	after.Status.Ready, after.Status.ObservedGeneration, after.Status.Failures = ptr.To(ready), after.Generation, nil
	for _, m := range o.Machines {
		if m.Update == workerplan.Failed {
			after.Status.Failures = append(after.Status.Failures, upgradev1.NodeFailure{Machine: m.Name, Message: m.Message})
		}
	}
	progressing, completed := metav1.ConditionTrue, metav1.ConditionFalse
	if ready {
		progressing, completed = metav1.ConditionFalse, metav1.ConditionTrue
	} else if d.Step.Verb == workerplan.Wait && d.Reason != "UpdatingInPlace" {
		progressing = metav1.ConditionFalse
	}
	conditions.Set(after, metav1.Condition{Type: upgradev1.Progressing, Status: progressing, Reason: d.Reason, Message: d.Message})
	conditions.Set(after, metav1.Condition{Type: upgradev1.Completed, Status: completed, Reason: d.Reason})
}
