package recovery

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/local/embed"
)

const (
	best = "Best"
	// every is how often is asked how far the recovery is.
	every = 500 * time.Millisecond
)

// lost is a cluster that is to be recovered.
type lost struct {
	cluster  *clusterv1.Cluster
	group    *facts.Group
	object   observe.Object
	machines []string
	// recovery is the one that is not ended; nil: there is none.
	recovery *backupv1alpha1.EtcdRecovery
}

// find reads the cluster, its control plane and its recovery.
func (a *app) find(ctx context.Context, c client.Client, key client.ObjectKey) (*lost, error) {
	objects, err := facts.Read(ctx, c, key)
	if err != nil {
		return nil, err
	}
	target, err := observe.RecoveryTarget(ctx, c, objects.Cluster)
	if err != nil {
		return nil, err
	}
	group := recovered(objects, target)
	if group == nil {
		return nil, fmt.Errorf("%s %s, which holds the etcd of cluster %s, does not exist", target.Kind, target.Name, key.Name)
	}
	of := &lost{cluster: objects.Cluster, group: group, object: group.Kind.New()}
	for i := range objects.Machines {
		if m := &objects.Machines[i]; observe.IsOfTarget(m, target) {
			of.machines = append(of.machines, m.Name)
		}
	}
	if err := c.Get(ctx, of.group.Key, of.object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", facts.Title(of.group), err)
	}
	return of, of.readRecovery(ctx, c)
}

// recovered returns the group whose machines hold the etcd of a cluster: its control plane, or its EtcdCluster; nil: it is not there.
func recovered(objects *facts.Objects, target clusterv1.ContractVersionedObjectReference) *facts.Group {
	for _, g := range append([]*facts.Group{objects.ControlPlane}, objects.EtcdClusters...) {
		if g != nil && g.Kind.Type().Kind == target.Kind && g.Key.Name == target.Name {
			return g
		}
	}
	return nil
}

func (of *lost) readRecovery(ctx context.Context, c client.Client) error {
	list := &backupv1alpha1.EtcdRecoveryList{}
	if err := c.List(ctx, list, client.InNamespace(of.cluster.Namespace)); err != nil {
		return fmt.Errorf("listing EtcdRecoveries: %w", err)
	}
	of.recovery = observe.RecoveryOf(list.Items, of.cluster.Name)
	return nil
}

func (of *lost) hasBegun() bool {
	return of.recovery.Annotations[backupv1alpha1.RecoveryBegunAnnotation] != ""
}

// isApproved reports whether the recovery was approved as it is, and began or can still begin.
func (of *lost) isApproved() bool {
	at := observe.RecoveryApproved(of.recovery, string(of.cluster.UID))
	return !at.IsZero() && (of.hasBegun() || time.Since(at) < time.Minute)
}

// abort deletes a recovery that has not begun.
func (a *app) abort(ctx context.Context, c client.Client, of *lost) error {
	switch {
	case of.recovery == nil:
		a.NewScreen().Printf("cluster %s has no recovery that is not ended", of.cluster.Name)
		return nil
	case of.hasBegun():
		return fmt.Errorf("EtcdRecovery %s has begun: machines are gone, and only its end brings the control plane back", of.recovery.Name)
	}
	asSeen := client.Preconditions{UID: &of.recovery.UID, ResourceVersion: &of.recovery.ResourceVersion}
	if err := c.Delete(ctx, of.recovery, asSeen); err != nil {
		return fmt.Errorf("deleting EtcdRecovery %s: %w", of.recovery.Name, err)
	}
	a.NewScreen().Printf("EtcdRecovery %s is deleted; nothing was done", of.recovery.Name)
	return nil
}

// create makes the recovery, and the secret with the identity.
func (a *app) create(ctx context.Context, c client.Client, of *lost, o asked) error {
	store := controlplanev1.BackupStoreReference{Kind: controlplanev1.BackupStoreKind(o.storeKind), Name: o.store}
	if spec := of.group.Kind.Spec(of.object).Backup; store.Name == "" && spec != nil {
		store = spec.StoreRef
	}
	if store.Name == "" {
		return fmt.Errorf("%s names no BackupStore: set --store to the one in which the snapshot is kept meanwhile", facts.Title(of.group))
	}
	var identity []byte
	var identities []age.Identity
	if file := cmp.Or(o.identity, OwnIdentity(a.Invocation)); file != "" {
		var err error
		if identity, identities, err = command.ReadIdentities(file); err != nil {
			return err
		}
	}
	if o.file != "" {
		var err error
		if o.backup, err = a.bring(ctx, c, of, store, o.file, identities); err != nil {
			return err
		}
	}
	r := &backupv1alpha1.EtcdRecovery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.cluster.Namespace, Name: of.cluster.Name + "-" + time.Now().UTC().Format("20060102-150405"),
			Labels: map[string]string{clusterv1.ClusterNameLabel: of.cluster.Name},
		},
		Spec: backupv1alpha1.EtcdRecoverySpec{
			ClusterName: of.cluster.Name, Backup: o.backup, StoreRef: store, GiveUp: of.machines, Off: o.off,
			FormerClusterUID: o.former,
		},
	}
	if o.backup == "" {
		r.Spec.Survivor = o.survivor
	}
	if filter := of.object.GetLabels()[clusterv1.WatchLabel]; filter != "" {
		r.Labels[clusterv1.WatchLabel] = filter
	}
	if identity != nil {
		r.Spec.IdentitySecretRef.Name = r.Name + "-identity"
	}
	if err := c.Create(ctx, r); err != nil {
		return fmt.Errorf("creating EtcdRecovery %s: %w", r.Name, err)
	}
	of.recovery = r
	if identity == nil {
		return nil
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: r.Spec.IdentitySecretRef.Name, Labels: r.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, backupv1alpha1.GroupVersion.WithKind("EtcdRecovery"))},
		},
		Type: clusterv1.ClusterSecretType, Data: map[string][]byte{backupv1alpha1.IdentityKey: identity},
	}
	if err := c.Create(ctx, s); err != nil {
		return fmt.Errorf("creating secret %s: %w", s.Name, err)
	}
	return nil
}

// OwnIdentity returns the file with the environment's identity, for which the backups of its clusters are encrypted; empty: there is none.
func OwnIdentity(a *command.Invocation) string {
	if !a.IsOwnManagement() {
		return ""
	}
	if _, err := embed.ReadBackupRecipient(a.State); err != nil {
		return ""
	}
	return embed.BackupIdentity(a.State)
}

// declareOff adds machines to those that are off for good.
func (a *app) declareOff(ctx context.Context, c client.Client, of *lost, off []string) error {
	after := of.recovery.DeepCopy()
	for _, name := range off {
		if !slices.Contains(after.Spec.GiveUp, name) {
			return fmt.Errorf("invalid --off %q: must be one of %s", name, strings.Join(after.Spec.GiveUp, ", "))
		}
		if !slices.Contains(after.Spec.Off, name) {
			after.Spec.Off = append(after.Spec.Off, name)
		}
	}
	if len(after.Spec.Off) == len(of.recovery.Spec.Off) {
		return nil
	}
	if err := c.Patch(ctx, after, client.MergeFrom(of.recovery)); err != nil {
		return fmt.Errorf("changing EtcdRecovery %s: %w", after.Name, err)
	}
	of.recovery = after
	return nil
}

// grows is what grows again after the first machine.
func (of *lost) grows() string {
	if of.group != nil && of.group.Kind.Type().Nodeless {
		return "EtcdCluster " + of.group.Key.Name
	}
	return "the control plane"
}

// refresh reads the recovery again.
func (of *lost) refresh(ctx context.Context, c client.Client) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(of.recovery), of.recovery); err != nil {
		return fmt.Errorf("reading EtcdRecovery %s: %w", of.recovery.Name, err)
	}
	return nil
}

// pause waits a little; the error is the context's cause.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(every):
		return nil
	}
}

// awaitSeed waits until the controller has found the backup, or says why it cannot.
func (a *app) awaitSeed(ctx context.Context, c client.Client, of *lost) error {
	said := ""
	for {
		if err := of.refresh(ctx, c); err != nil {
			return err
		}
		if of.recovery.Status.Digest != "" && of.recovery.Status.Digest == observe.RecoveryDigest(of.recovery, string(of.cluster.UID)) {
			return nil
		}
		if is := conditions.Get(of.recovery, backupv1alpha1.RecoveredCondition); is != nil {
			if is.Reason == backupv1alpha1.RecoverySeedRefused || is.Reason == backupv1alpha1.RecoverySeedDamaged {
				return fmt.Errorf("EtcdRecovery %s: %s; quorate recover %s --abort deletes it", of.recovery.Name, is.Message, of.cluster.Name)
			}
			if is.Message != said && is.Message != "" {
				said = is.Message
				a.NewScreen().Printf("looking for the seed: %s", said)
			}
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// approve shows what will happen, asks, and writes the approval.
func (a *app) approve(ctx context.Context, c client.Client, of *lost, yes bool) error {
	seed, r := observe.SeedOf(of.recovery), of.recovery
	from := "the backup"
	if seed.Member != "" {
		from = "the etcd member on " + seed.Member
	}
	s := a.NewScreen()
	s.Printf("Recovery of cluster %s from %s:", of.cluster.Name, from)
	age := time.Since(seed.Taken).Round(time.Second)
	s.Printf("  restore   %s, taken %s ago, revision %d, %d bytes", seed.Backup, age, seed.Revision, seed.Size)
	s.Printf("  lose      every write after revision %d", seed.Revision)
	s.Printf("  delete    %s, with their infrastructure", cmp.Or(strings.Join(r.Spec.GiveUp, ", "), "no machine: none is left"))
	if len(r.Spec.Off) > 0 {
		s.Printf("  you say   %s are off for good", strings.Join(r.Spec.Off, ", "))
	}
	s.Printf("  create    one machine that restores it; then %s grows", of.grows())
	sentence := "recover " + of.cluster.Name
	if !yes {
		s.Printf("\nType %q to approve this: ", sentence)
		answer, _ := bufio.NewReader(a.In).ReadString('\n')
		if strings.TrimSpace(answer) != sentence {
			return errNotApproved
		}
	}
	return of.writeApproval(ctx, c)
}

// follow tells what the control plane does until it serves from the seed.
func (a *app) follow(ctx context.Context, c client.Client, of *lost) error {
	began, said := time.Now(), ""
	for {
		if err := of.refresh(ctx, c); err != nil {
			return err
		}
		if of.recovery.Annotations[backupv1alpha1.RecoveryEndedAnnotation] != "" {
			took := time.Since(began).Round(100 * time.Millisecond)
			a.NewScreen().Printf("cluster %s serves again, after %s; see quorate status %s", of.cluster.Name, took, of.cluster.Name)
			return nil
		}
		if err := c.Get(ctx, of.group.Key, of.object); err != nil {
			return fmt.Errorf("reading %s: %w", facts.Title(of.group), err)
		}
		if p := of.group.Kind.Status(of.object).Plan; p.Message != said {
			said = p.Message
			a.NewScreen().Printf("%8s  %s", time.Since(began).Round(100*time.Millisecond), said)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}
