// Package power is `quorate hibernate` and `quorate wake`: all machines of a cluster are deleted, and made again from the backup that
// hibernation took. The controllers of the management cluster do that; here the plan is shown, the field is set, and the cluster followed.
package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/recovery"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/group/observe"
)

// app is the commands of this package.
type app struct{ *command.Invocation }

// powered is what the flags of `quorate hibernate` and `quorate wake` ask for.
type powered struct {
	state    controlplanev1.PowerState
	identity string
	yes      bool
	timeout  time.Duration
}

// Commands are `quorate hibernate` and `quorate wake`, and `quorate recover` and `quorate restore`, by whose way a cluster wakes.
func Commands(i *command.Invocation) []*cobra.Command {
	return []*cobra.Command{recovery.Command(i), recovery.RestoreCommand(i), HibernateCommand(i), WakeCommand(i)}
}

// HibernateCommand is `quorate hibernate`.
func HibernateCommand(i *command.Invocation) *cobra.Command {
	a, p := &app{i}, powered{state: controlplanev1.PowerHibernated}
	cmd := a.powerCommand(&p)
	cmd.Use, cmd.Short = "hibernate [NAME]", "Delete all machines of a cluster, and keep a verified backup from which it wakes"
	cmd.Long = `Show what hibernation does to a cluster, ask, and set spec.powerState of its control plane to Hibernated. The MachineDeployments are
scaled to 0. When their machines are gone a backup of etcd is taken and verified. Then all machines of the control plane are deleted,
the last one too. What is written after the backup is lost. The objects in the management cluster stay.

The command can be ended: the hibernation goes on by itself. quorate wake makes the cluster run again.`
	cmd.Example = `  quorate hibernate demo
  quorate hibernate demo --yes   # without being asked
  quorate wake demo`
	return cmd
}

// WakeCommand is `quorate wake`.
func WakeCommand(i *command.Invocation) *cobra.Command {
	a, p := &app{i}, powered{state: controlplanev1.PowerRunning}
	cmd := a.powerCommand(&p)
	cmd.Use, cmd.Short = "wake [NAME]", "Make a hibernated cluster run again, from the backup of its hibernation"
	cmd.Long = `Show what waking does to a hibernated cluster, ask, and set spec.powerState of its control plane to Running. One machine restores the
backup that hibernation took, the control plane grows to spec.replicas, and the MachineDeployments get the numbers back that they had.
While no machine was deleted yet, the hibernation is only cancelled.

The command can be ended: the cluster wakes by itself.`
	cmd.Example = `  quorate wake demo
  quorate wake demo --identity key.txt   # where backups are encrypted`
	cmd.Flags().StringVar(&p.identity, "identity", "",
		"file with the age identity that decrypts the backup; it is kept in a secret until the cluster is awake. Defaults to that of quorate up")
	return cmd
}

// powerCommand is what the two have in common.
func (a *app) powerCommand(p *powered) *cobra.Command {
	cmd := &cobra.Command{
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.timeout <= 0 {
				return command.Usagef("invalid --timeout %q: must be greater than 0", p.timeout)
			}
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			late := fmt.Errorf("cluster %s did not get there within --timeout %s; it goes on", key.Name, p.timeout)
			return command.Within(cmd.Context(), p.timeout, late, func(ctx context.Context) error { return a.power(ctx, c, key, *p) })
		},
	}
	a.AddManagementTo(cmd)
	cmd.Flags().BoolVar(&p.yes, "yes", false, "go on without asking")
	cmd.Flags().DurationVar(&p.timeout, "timeout", time.Hour, "how long to follow the cluster")
	return cmd
}

// every is how often is asked how far the cluster is.
const every = 500 * time.Millisecond

// errNotPowered: a person was asked, and did not agree.
var errNotPowered = errors.New("nothing was changed")

// power shows what will happen, asks, sets the field and follows.
func (a *app) power(ctx context.Context, c client.Client, key client.ObjectKey, p powered) error {
	of, err := facts.ControlPlane(ctx, c, key)
	if err != nil {
		return err
	}
	if of.GetKind() != "KubeadmControlPlane" {
		return command.Usagef("%s %s cannot be hibernated: only a KubeadmControlPlane with etcd on its machines can", of.GetKind(), of.GetName())
	}
	patch := map[string]any{"spec": map[string]any{"powerState": string(p.state)}}
	change := command.Change{Object: of, Manager: "quorate-power", Patch: patch}
	if err := change.Try(ctx, c); err != nil {
		return err
	}
	plans, err := facts.Plans(ctx, c, c.Scheme(), key, []*unstructured.Unstructured{change.Object})
	if err != nil {
		return err
	}
	s := a.NewScreen()
	s.Show(report.Plans(plans, false))
	if !p.yes && !a.Agrees("Do this?") {
		return errNotPowered
	}
	kcp := &controlplanev1.KubeadmControlPlane{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(of), kcp); err != nil {
		return fmt.Errorf("reading KubeadmControlPlane %s: %w", of.GetName(), err)
	}
	if p.state == controlplanev1.PowerRunning && observe.HibernationOf(kcp).IsAsleep() {
		if err := a.giveIdentity(ctx, c, kcp, key.Name, p.identity); err != nil {
			return err
		}
	}
	if err := change.Write(ctx, c); err != nil {
		return err
	}
	return a.followPower(ctx, c, client.ObjectKeyFromObject(kcp), p.state)
}

// giveIdentity makes the secret with the identity that decrypts the backup, where there is one.
func (a *app) giveIdentity(ctx context.Context, c client.Client, kcp *controlplanev1.KubeadmControlPlane, cluster, file string) error {
	if file = cmp.Or(file, recovery.OwnIdentity(a.Invocation)); file == "" {
		return nil
	}
	identity, _, err := command.ReadIdentities(file)
	if err != nil {
		return err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: kcp.Namespace, Name: observe.WakeIdentityName(kcp), Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlane", Name: kcp.Name, UID: kcp.UID,
			}},
		},
		Type: clusterv1.ClusterSecretType, Data: map[string][]byte{backupv1alpha1.IdentityKey: identity},
	}
	err = c.Create(ctx, s)
	if apierrors.IsAlreadyExists(err) {
		err = c.Patch(ctx, s, client.Merge)
	}
	if err != nil {
		return fmt.Errorf("writing secret %s: %w", s.Name, err)
	}
	return nil
}

// followPower tells what the control plane does until it is as wanted.
func (a *app) followPower(ctx context.Context, c client.Client, key client.ObjectKey, state controlplanev1.PowerState) error {
	began, said, s := time.Now(), "", a.NewScreen()
	for {
		kcp := &controlplanev1.KubeadmControlPlane{}
		if err := c.Get(ctx, key, kcp); err != nil {
			return fmt.Errorf("reading KubeadmControlPlane %s: %w", key.Name, err)
		}
		p, h := kcp.Status.Plan, observe.HibernationOf(kcp)
		if p.Message != said {
			said = p.Message
			s.Printf("%8s  %s", time.Since(began).Round(100*time.Millisecond), said)
		}
		switch {
		case p.Reason == "HibernationRefused":
			return errors.New(p.Message)
		case state == controlplanev1.PowerHibernated && h.IsAsleep() && p.Reason == "Hibernated":
			s.Printf("hibernated after %s; quorate wake makes it run again", time.Since(began).Round(100*time.Millisecond))
			return nil
		case state == controlplanev1.PowerRunning && h.IsNone():
			s.Printf("awake after %s; see quorate status", time.Since(began).Round(100*time.Millisecond))
			return a.takeIdentity(ctx, c, kcp)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

// takeIdentity deletes the secret with the identity: it is needed no more.
func (a *app) takeIdentity(ctx context.Context, c client.Client, kcp *controlplanev1.KubeadmControlPlane) error {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: kcp.Namespace, Name: observe.WakeIdentityName(kcp)}}
	if err := c.Delete(ctx, s); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting secret %s: %w", s.Name, err)
	}
	return nil
}
