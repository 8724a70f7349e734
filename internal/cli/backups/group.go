package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/local/embed"
)

// every is how often is asked what came of a backup.
const every = 500 * time.Millisecond

// keeper is the control plane, or the EtcdCluster, that has backups taken.
type keeper struct {
	of     *facts.Group
	object observe.Object
}

func (k *keeper) spec() *controlplanev1.BackupSpec { return k.of.Kind.Spec(k.object).Backup }

func (k *keeper) status() *controlplanev1.BackupStatus { return k.of.Kind.Status(k.object).Backup }

// keeperOf finds it.
func keeperOf(ctx context.Context, c client.Reader, key client.ObjectKey) (*keeper, error) {
	objects, err := facts.Read(ctx, c, key)
	if err != nil {
		return nil, err
	}
	for _, of := range append(objects.EtcdClusters, objects.ControlPlane) {
		if of == nil {
			continue
		}
		k := &keeper{of: of}
		if err := k.read(ctx, c); err != nil {
			return nil, err
		}
		if k.spec() != nil {
			return k, nil
		}
	}
	return nil, fmt.Errorf("cluster %s takes no backups: set spec.backup of its control plane, or of its EtcdCluster", key.Name)
}

func (k *keeper) read(ctx context.Context, c client.Reader) error {
	k.object = k.of.Kind.New()
	if err := c.Get(ctx, k.of.Key, k.object); err != nil {
		return fmt.Errorf("reading %s: %w", facts.Title(k.of), err)
	}
	return nil
}

// with opens the store of a cluster's backups.
func (a *app) with(ctx context.Context, c client.Client, key client.ObjectKey, do func(backup.Catalog) error) error {
	k, err := keeperOf(ctx, c, key)
	if err != nil {
		return err
	}
	opener := backup.Opener{Reader: c, Namespace: a.managerNamespace}
	if a.IsOwnManagement() {
		opener.Folder = embed.BackupFolder(a.State)
	}
	s, done, err := opener.Open(ctx, key.Namespace, k.spec().StoreRef)
	if err != nil {
		return err
	}
	defer done()
	id := k.object.GetAnnotations()[controlplanev1.BackupIdentityAnnotation]
	if id == "" {
		return fmt.Errorf("no backup of cluster %s was tried yet", key.Name)
	}
	return do(backup.Catalog{Store: s, UID: id})
}

// errNoBackup says that a backup was asked for, and none came.
var errNoBackup = errors.New("no verified backup was taken")

// now takes a backup within a time.
func (a *app) now(ctx context.Context, c client.Client, key client.ObjectKey, timeout time.Duration) error {
	late := fmt.Errorf("%w within --timeout %s", errNoBackup, timeout)
	return command.Within(ctx, timeout, late, func(ctx context.Context) error { return a.ask(ctx, c, key) })
}

// ask asks for a backup and waits for what comes of it.
func (a *app) ask(ctx context.Context, c client.Client, key client.ObjectKey) error {
	k, err := keeperOf(ctx, c, key)
	if err != nil {
		return err
	}
	asked, err := NextSecond(ctx)
	if err != nil {
		return err
	}
	if err := k.order(asked).Write(ctx, c); err != nil {
		return err
	}
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		if err := k.read(ctx, c); err != nil && ctx.Err() == nil {
			return err
		}
		if s := k.status(); !s.LastAttempt.Time.Time.Before(asked) && s.LastAttempt.Reason != "" {
			return a.tell(*s)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

// order asks for a backup that is taken at a time, or later.
func (k *keeper) order(at time.Time) command.Order {
	return command.NewOrder(k.of.Kind.Type().GroupVersionKind, k.of.Key, "quorate-backup",
		command.Annotate(controlplanev1.BackupRequestedAnnotation, at.Format(time.RFC3339Nano)))
}

// Order returns what asks for a backup of a cluster that is taken at a time, which NextSecond returned, or later.
func Order(ctx context.Context, from client.Reader, key client.ObjectKey, at time.Time) (command.Order, error) {
	k, err := keeperOf(ctx, from, key)
	if err != nil {
		return command.Order{}, err
	}
	o := k.order(at)
	o.Says = facts.Title(k.of) + ": a backup was requested"
	o.Basis = fmt.Sprintf("takes backups to %s %s", k.spec().StoreRef.Kind, k.spec().StoreRef.Name)
	return o, o.Read(ctx, from)
}

// NextSecond waits for the next whole second and returns it. Times of attempts and of backups are in whole seconds: with a part of one, a
// backup that was taken just before would count as the requested one.
func NextSecond(ctx context.Context) (time.Time, error) {
	next := time.Now().Truncate(time.Second).Add(time.Second)
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	case <-timer.C:
		return next.UTC(), nil
	}
}

// tell says what came of an attempt.
func (a *app) tell(s controlplanev1.BackupStatus) error {
	switch s.LastAttempt.Reason {
	case controlplanev1.BackupVerified:
		a.NewScreen().Printf("recoverable from %s: revision %d, %d bytes, verified", s.LastVerified.Name, s.LastVerified.Revision,
			s.LastVerified.SizeBytes)
		return nil
	case controlplanev1.BackupStored:
		a.NewScreen().Printf("the backup was stored; spec.backup.verify is Daily, and another was verified today")
		return nil
	}
	return fmt.Errorf("%w: %s: %s", errNoBackup, s.LastAttempt.Reason, s.LastAttempt.Message)
}
