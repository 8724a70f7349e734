package act

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// memberTime is how long a change of etcd's members may take before it is left
// to the next turn.
const memberTime = 8 * time.Second

// Do carries out one step. Each may be repeated without harm.
func (t *Writer) Do(ctx context.Context, step plan.Step) error {
	switch step.Verb {
	case plan.Create:
		return creation{t}.create(ctx, step)
	case plan.Delete:
		return t.remove(ctx, step)
	case plan.StartBootstrap:
		return t.startBootstrap(ctx, step.Machine)
	case plan.Adopt:
		return t.adopt(ctx, step.Machine)
	case plan.ReleaseHook:
		return t.release(ctx, step.Machine)
	case plan.MoveLeader, plan.PromoteMember, plan.AddPlaceholder, plan.RemoveMember:
		return t.changeMembers(ctx, step)
	case plan.EnableDowngrade, plan.CancelDowngrade, plan.Compact, plan.Defragment, plan.Disarm:
		return maintainEtcd(ctx, t, step)
	case plan.UpdateInPlace, plan.RecordUpdate, plan.DropUpdate:
		return updating{t}.do(ctx, step)
	case plan.DropChoice:
		digest := step.Choice
		return t.Annotate(ctx, map[string]string{controlplanev1.DecisionPrefix + digest: "", controlplanev1.DecidedByPrefix + digest: ""})
	case plan.RequestBackup:
		return t.requireBackup(ctx)
	case plan.BeginRecovery, plan.GiveUp, plan.EndRecovery, plan.BeginHibernation, plan.Hibernate, plan.Wake, plan.EndHibernation:
		return recovery{t}.do(ctx, step)
	case plan.Finish:
		return t.finish(ctx)
	case plan.Nothing, plan.Wait:
		return nil
	}
	if step.Verb != plan.Write {
		return fmt.Errorf("the step %s is not known", step)
	}
	return t.write(ctx, step)
}

// write carries out a chore: those of the kubeconfig and of pods are the same for all kinds.
func (t *Writer) write(ctx context.Context, step plan.Step) error {
	if step.Chore == observe.ChoreKubeconfig {
		return t.WriteKubeconfig(ctx)
	}
	if step.Chore == observe.ChoreEtcdPods {
		var err error
		observe.Aside(ctx, func() { err = t.Files().DropPods(ctx, t.Cluster, observe.FormerEtcdPods(t.View)) })
		return err
	}
	chores := t.performer.Steps().Chores
	if chores == nil {
		return fmt.Errorf("the chore %s is not known", step.Chore)
	}
	return chores.Perform(ctx, t, step)
}

// remove deletes a Machine. Its hook holds it until its member is gone.
func (t *Writer) remove(ctx context.Context, step plan.Step) error {
	name := step.Machine
	target := t.Machine(name)
	if target == nil {
		return fmt.Errorf("deleting Machine %s: it is not one of %s", name, t.Object.GetName())
	}
	if err := (updating{t}).confirmReplaced(ctx, target, step); err != nil {
		return err
	}
	if err := t.noteReplacement(ctx, step); err != nil {
		return err
	}
	if err := t.noteRepair(ctx, step); err != nil {
		return err
	}
	if err := t.stillOurs(ctx, target.Machine); err != nil {
		return err
	}
	err := t.Delete(ctx, target, false)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Machine %s: %w", name, err)
	}
	t.Memory.Writes.Expect(observe.Write{Machine: name, UID: target.UID, Deleted: true})
	t.Changed = append(t.Changed, name)
	return nil
}

// stillOurs makes sure that a Machine of a group that goes was not released meanwhile. A cache may show a control plane
// that is deleted without its dependents as one that the garbage collector is done with, and these as its own.
func (t *Writer) stillOurs(ctx context.Context, m *clusterv1.Machine) error {
	if !t.Facts.Group.Deleting {
		return nil
	}
	live := &clusterv1.Machine{}
	err := t.APIReader.Get(ctx, client.ObjectKeyFromObject(m), live)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking whose Machine %s is: %w", m.Name, err)
	}
	if err == nil && !metav1.IsControlledBy(live, t.Object) {
		return machineConflict(m.Name, "it is not the control plane's any more")
	}
	return nil
}

// machineConflict ends a step that rests on what is not so any more of a Machine.
func machineConflict(name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machines"}, name, errors.New(why))
}

// release takes the hook off a Machine that is being deleted.
func (t *Writer) release(ctx context.Context, name string) error {
	target := t.Machine(name)
	if target == nil {
		return fmt.Errorf("releasing Machine %s: it is not one of %s", name, t.Object.GetName())
	}
	after := target.DeepCopy()
	delete(after.Annotations, machine.Hook)
	err := t.Merge(ctx, target.Machine, after)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("releasing Machine %s: %w", name, err)
	}
	t.Memory.Writes.Expect(observe.Write{Machine: name, UID: target.UID, Released: true})
	t.Changed = append(t.Changed, name)
	return nil
}

// changeMembers moves the leadership or removes a member. What etcd said before
// is no longer believed then, whatever came of it.
func (t *Writer) changeMembers(ctx context.Context, step plan.Step) error {
	if step.Verb == plan.AddPlaceholder {
		return t.addPlaceholder(ctx)
	}
	id, err := etcd.ParseID(step.Member)
	if err != nil {
		return err
	}
	quorum, err := t.Quorums.Of(ctx, t.Cluster)
	if err != nil {
		return err
	}
	t.Memory.Surveys.Drop()
	if step.Verb == plan.RemoveMember {
		if err := t.noteRemoval(ctx, step); err != nil {
			return err
		}
	}
	observe.Aside(ctx, func() { err = change(ctx, quorum, step, t.allTargets(), id) })
	switch {
	case err != nil:
		return err
	case step.Verb == plan.RemoveMember:
		t.Memory.Left = step.Machine
	case step.Verb == plan.MoveLeader:
		t.Memory.Space.LeaderMoved(time.Now())
	}
	return nil
}

// addPlaceholder adds a placeholder, so that etcd refuses every machine that joins as a learner. Nothing else is recorded: the list of
// members tells.
func (t *Writer) addPlaceholder(ctx context.Context) error {
	return t.order(ctx, func(ctx context.Context, quorum observe.Quorum) error {
		return quorum.AddPlaceholder(ctx, t.allTargets())
	})
}

// order carries out a change of etcd after which the last survey is no longer believed.
func (t *Writer) order(ctx context.Context, do func(context.Context, observe.Quorum) error) error {
	quorum, err := t.Quorums.Of(ctx, t.Cluster)
	if err != nil {
		return err
	}
	t.Memory.Surveys.Drop()
	observe.Aside(ctx, func() {
		short, cancel := context.WithTimeout(ctx, memberTime)
		defer cancel()
		err = do(short, quorum)
	})
	return err
}

// change carries a step out that changes etcd's members.
func change(ctx context.Context, quorum observe.Quorum, step plan.Step, targets []etcd.Target, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	switch step.Verb {
	case plan.MoveLeader:
		if err := quorum.MoveLeader(ctx, targets, id); err != nil {
			return fmt.Errorf("moving the leadership of etcd to member %s: %w", step.Member, err)
		}
	case plan.PromoteMember:
		return quorum.Promote(ctx, targets, id)
	default:
		if err := quorum.RemoveMember(ctx, targets, id); err != nil {
			return fmt.Errorf("removing member %s from etcd: %w", step.Member, err)
		}
	}
	return nil
}

// allTargets are all members that can be asked.
func (t *Writer) allTargets() []etcd.Target {
	to := t.Dial()
	targets := t.Targets(to)
	return append(targets, t.Unregistered(t.Survey, to, targets)...)
}

// changeVersion makes etcd lower its version, or ends that.
func (t *Writer) changeVersion(ctx context.Context, step plan.Step) error {
	return t.order(ctx, func(ctx context.Context, quorum observe.Quorum) error {
		if step.Verb == plan.CancelDowngrade {
			return quorum.CancelDowngrade(ctx, t.allTargets())
		}
		return quorum.EnableDowngrade(ctx, t.allTargets(), step.Version)
	})
}

// maintainEtcd carries out a step about etcd's version or its space.
func maintainEtcd(ctx context.Context, t *Writer, step plan.Step) error {
	if step.Verb == plan.EnableDowngrade || step.Verb == plan.CancelDowngrade {
		return t.changeVersion(ctx, step)
	}
	return relieveSpace(ctx, t, step)
}

// relieveSpace carries out a step about the space that etcd's data take.
func relieveSpace(ctx context.Context, t *Writer, step plan.Step) error {
	quorum, err := t.Quorums.Data(ctx, t.Cluster)
	if err != nil {
		return err
	}
	t.Memory.Surveys.Drop()
	targets, space := t.allTargets(), &t.Memory.Space
	switch step.Verb {
	case plan.Compact:
		observe.Aside(ctx, func() { err = quorum.Compact(ctx, targets, step.Revision) })
		if err == nil {
			space.Compacted(step.Revision, time.Now())
		}
	case plan.Defragment:
		id, unread := etcd.ParseID(step.Member)
		if unread != nil {
			return unread
		}
		space.Defragmented(id, time.Now()) // one that fails, or takes longer than anybody waits, is not repeated at once either
		observe.Aside(ctx, func() { err = quorum.Defragment(ctx, targets, id) })
	default:
		observe.Aside(ctx, func() { err = quorum.Disarm(ctx, targets) })
		if err == nil {
			space.Disarmed(time.Now())
		}
	}
	return err
}

// finish lets the group go, once the API server itself knows of no machine of it any more. What it owns follows it.
func (t *Writer) finish(ctx context.Context) error {
	if err := t.leaveNone(ctx); err != nil {
		return err
	}
	after := t.Object.DeepCopyObject().(observe.Object)
	controllerutil.RemoveFinalizer(after, t.Type.Finalizer)
	err := t.Change(ctx, t.Object, after)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the finalizer of %s: %w", t.Title(), err)
	}
	return nil
}

// leaveNone makes sure that none of the group's machines is left, by the API server's own word: else it is a conflict. One that has lost
// its labels, by which alone it is known, is left to the garbage collector, and our hook must not hold it for ever.
func (t *Writer) leaveNone(ctx context.Context) error {
	all := &clusterv1.MachineList{}
	if err := t.APIReader.List(ctx, all, client.InNamespace(t.Object.GetNamespace())); err != nil {
		return fmt.Errorf("looking for machines of %s that are left: %w", t.Title(), err)
	}
	for i := range all.Items {
		m := &all.Items[i]
		if !metav1.IsControlledBy(m, t.Object) {
			continue
		}
		if m.Labels[clusterv1.ClusterNameLabel] == t.Cluster.Name {
			return machineConflict(m.Name, "it is still there")
		}
		if !machine.HasHook(m) {
			continue
		}
		after := m.DeepCopy()
		delete(after.Annotations, machine.Hook)
		if err := t.Merge(ctx, m, after); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing Machine %s, which has no labels: %w", m.Name, err)
		}
	}
	return nil
}

// noteRemoval notes on the Machine which of its members is about to be removed. It is done first:
// a process that dies after the removal would leave no trace of it. One that goes does so whatever Cluster API writes on it meanwhile,
// again and again; of one that stays, a change may be that it has come up.
func (t *Writer) noteRemoval(ctx context.Context, step plan.Step) error {
	before := t.Machine(step.Machine)
	if before == nil || before.Annotations[controlplanev1.MemberRemovedAnnotation] == step.Member {
		return nil
	}
	after := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, controlplanev1.MemberRemovedAnnotation, step.Member)
	write := t.Merge
	if before.DeletionTimestamp.IsZero() {
		write = t.Change
	}
	if err := write(ctx, before.Machine, after); err != nil {
		return fmt.Errorf("noting the removal of member %s on Machine %s: %w", step.Member, before.Name, err)
	}
	t.Replace(after)
	t.Memory.Writes.ExpectMachine(after)
	return nil
}
