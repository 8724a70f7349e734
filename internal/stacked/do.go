package stacked

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/certs"
	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
)

// memberTime is how long a change of etcd's members may take before it is left
// to the next turn.
const memberTime = 8 * time.Second

// do carries out one step. Each may be repeated without harm.
func (r *Reconciler) do(ctx context.Context, s *scene, m *memory, step plan.Step) error {
	switch step.Verb {
	case plan.Create:
		return r.create(ctx, s, m, step)
	case plan.Delete:
		return r.remove(ctx, s, m, step)
	case plan.Adopt:
		return r.adopt(ctx, s, m, step.Machine)
	case plan.ReleaseHook:
		return r.release(ctx, s, m, step.Machine)
	case plan.MoveLeader, plan.RemoveMember:
		return r.changeMembers(ctx, s, m, step)
	case plan.Generate:
		m.slow = slowFacts{}
		if err := certs.Generate(ctx, r.Client, s.Cluster, &s.kcp.Spec.KubeadmConfigSpec.ClusterConfiguration, controllerRef(s.kcp)); err != nil {
			return fmt.Errorf("generating the certificate authorities of cluster %s: %w", s.Cluster.Name, err)
		}
		return nil
	case plan.WriteKubeconfig:
		m.slow = slowFacts{}
		if err := certs.WriteKubeconfig(ctx, r.Client, s.Cluster, controllerRef(s.kcp)); err != nil {
			return fmt.Errorf("writing the kubeconfig of cluster %s: %w", s.Cluster.Name, err)
		}
		return nil
	case plan.WriteKubeadm:
		m.files = filesBehind{}
		return r.Kubeadm.WriteConfig(ctx, s.buildable(), s.Cluster)
	case plan.WritePermissions:
		m.files, m.surveys.At = filesBehind{}, time.Time{} // members that were out of reach may answer now
		return r.Kubeadm.WritePermissions(ctx, s.buildable(), s.Cluster)
	case plan.UpdateAddons:
		m.files = filesBehind{}
		return r.Kubeadm.UpdateAddons(ctx, s.buildable(), s.Cluster)
	case plan.Finish:
		return r.finish(ctx, s)
	case plan.Nothing, plan.Wait:
		return nil
	}
	return fmt.Errorf("the step %s is not known", step)
}

// remove deletes a Machine. Its hook holds it until its member is gone.
func (r *Reconciler) remove(ctx context.Context, s *scene, m *memory, step plan.Step) error {
	name := step.Machine
	target := s.Machine(name)
	if target == nil {
		return fmt.Errorf("deleting Machine %s: it is not one of %s", name, s.kcp.Name)
	}
	if step.Repair {
		if err := r.noteRepair(ctx, s, m, step); err != nil {
			return err
		}
	}
	if s.Facts.Group.Deleting {
		if err := r.stillOurs(ctx, s.kcp, target.Machine); err != nil {
			return err
		}
	}
	err := r.Client.Delete(ctx, target.DeepCopy(), client.Preconditions{UID: &target.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Machine %s: %w", name, err)
	}
	m.writes.Expect(group.Write{Machine: name, UID: target.UID, Deleted: true})
	return nil
}

// stillOurs makes sure that a Machine was not left to nobody meanwhile: a cache may show a control plane
// that is deleted without its dependents as one that the garbage collector is done with, and these as its own.
func (r *Reconciler) stillOurs(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) error {
	live := &clusterv1.Machine{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(m), live)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking whose Machine %s is: %w", m.Name, err)
	}
	if err == nil && !metav1.IsControlledBy(live, kcp) {
		resource := schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machines"}
		return apierrors.NewConflict(resource, m.Name, errors.New("it is not the control plane's any more"))
	}
	return nil
}

// release takes the hook off a Machine that is being deleted.
func (r *Reconciler) release(ctx context.Context, s *scene, m *memory, name string) error {
	target := s.Machine(name)
	if target == nil {
		return fmt.Errorf("releasing Machine %s: it is not one of %s", name, s.kcp.Name)
	}
	after := target.DeepCopy()
	delete(after.Annotations, machine.Hook)
	err := r.Client.Patch(ctx, after, client.MergeFrom(target.Machine))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("releasing Machine %s: %w", name, err)
	}
	m.writes.Expect(group.Write{Machine: name, UID: target.UID, Released: true})
	return nil
}

// changeMembers moves the leadership or removes a member. What etcd said before
// is no longer believed then, whatever came of it.
func (r *Reconciler) changeMembers(ctx context.Context, s *scene, m *memory, step plan.Step) error {
	id, err := etcd.ParseID(step.Member)
	if err != nil {
		return err
	}
	quorum, err := r.Quorums.Of(ctx, s.Cluster)
	if err != nil {
		return err
	}
	m.surveys.Drop()
	if step.Verb == plan.RemoveMember {
		if err := r.noteRemoval(ctx, s, m, step); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	to := r.dial(s.Cluster)
	targets := s.Targets(to)
	targets = append(targets, s.Unregistered(s.Survey, to, targets)...)
	if step.Verb == plan.MoveLeader {
		if err := quorum.MoveLeader(ctx, targets, id); err != nil {
			return fmt.Errorf("moving the leadership of etcd to member %s: %w", step.Member, err)
		}
		return nil
	}
	if err := quorum.RemoveMember(ctx, targets, id); err != nil {
		return fmt.Errorf("removing member %s from etcd: %w", step.Member, err)
	}
	m.left = step.Machine
	return nil
}

// finish lets the control plane go. What it owns follows it.
func (r *Reconciler) finish(ctx context.Context, s *scene) error {
	after := s.kcp.DeepCopy()
	controllerutil.RemoveFinalizer(after, upstream.KubeadmControlPlaneFinalizer)
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(s.kcp, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the finalizer of KubeadmControlPlane %s: %w", s.kcp.Name, err)
	}
	r.forget(client.ObjectKeyFromObject(s.kcp))
	return nil
}

// dial returns the way to a cluster's etcd.
func (r *Reconciler) dial(cluster *clusterv1.Cluster) group.Dial {
	key := client.ObjectKeyFromObject(cluster)
	return func(node, ip string) etcd.Target {
		return etcd.Target{Name: node, Dial: r.Workload.Dial(key, node, ip, etcdPort)}
	}
}
