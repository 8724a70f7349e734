package recoveries

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager/backups"
)

// best is the value of spec.survivor for the member with the newest data.
const best = "Best"

// longest is how long taking the backup of a survivor may take.
const longest = time.Hour

// seek finds the backup that is to be restored, or takes it of the survivor, and writes it into the recovery. A seed that stands there
// already must be what the store says of its backup.
func (c *Controller) seek(ctx context.Context, r *recovery) error {
	found, err := observe.FindSurvivors(ctx, c.Client, c.Kind, client.ObjectKeyFromObject(r.group), c.ForwardOnly)
	if err != nil {
		return err
	}
	files, fingerprints, err := backups.Files(ctx, c.Client, c.APIReader, c.Kind.Type().GroupVersionKind, found)
	if err != nil {
		return err
	}
	identities, err := c.identities(ctx, r.EtcdRecovery)
	if err != nil {
		return err
	}
	ground := backup.Ground{UID: r.identity(), Kubernetes: c.Kind.Spec(r.group).Version, Fingerprints: fingerprints}
	return c.with(ctx, r.EtcdRecovery, ground.UID, func(catalog clusterbackup.Catalog) error {
		name, member, written := r.Spec.Backup, "", observe.SeedOf(r.EtcdRecovery)
		switch {
		case written != nil:
			name, member = cmp.Or(name, written.Backup), written.Member
		case name == "" && len(c.recipients(r)) > 0 && len(identities) == 0:
			return refusedEncrypted("the backup of the survivor")
		case name == "":
			of := survivor{found, catalog, files, fingerprints, identities}
			if name, member, err = c.ofSurvivor(ctx, r, of); err != nil {
				return err
			}
		}
		e, err := seedable(ctx, catalog, name, ground)
		if err != nil {
			return err
		}
		m := e.Manifest
		seed := observe.Seed{
			Backup: name, Taken: m.Taken, Revision: m.Revision(), Size: m.Snapshot.Size, SHA256: m.Snapshot.SHA256, Member: member,
		}
		if written != nil {
			return checkWritten(r.EtcdRecovery, seed)
		}
		if err := try(ctx, catalog, e, identities); err != nil {
			return err
		}
		return c.writeSeed(ctx, r, seed)
	})
}

// recipients are those for whom the backups of the group are encrypted.
func (c *Controller) recipients(r *recovery) []string {
	if spec := c.Kind.Spec(r.group).Backup; spec != nil {
		return spec.Encryption.Recipients
	}
	return nil
}

// seedable returns a backup from which the control plane can be recovered, also one that was deleted or overwritten in a store that keeps
// versions.
func seedable(ctx context.Context, catalog clusterbackup.Catalog, name string, ground backup.Ground) (*clusterbackup.Entry, error) {
	e, err := catalog.Find(ctx, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading backup %s, which spec.backup names: %w", name, err)
	case e.Err != nil:
		return nil, fmt.Errorf("%w: %w", errRefused, e.Err)
	}
	if err := e.Manifest.RefuseSeed(e.Verification, ground); err != nil {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	return e, nil
}

func refusedEncrypted(what string) error {
	return fmt.Errorf("%w: %s is encrypted: set spec.identitySecretRef to the secret with the identity that decrypts it", errRefused, what)
}

// try reads the whole snapshot of a backup, as the machine will that restores it: the machines that are given up are gone then.
func try(ctx context.Context, catalog clusterbackup.Catalog, e *clusterbackup.Entry, identities []age.Identity) error {
	m := e.Manifest
	if m.Archive.Encrypted() && len(identities) == 0 {
		return refusedEncrypted("backup " + m.Name)
	}
	sum := sha256.New()
	err := catalog.Snapshot(ctx, e, identities, m.Snapshot.Size, sum)
	if stranger := (*age.NoIdentityMatchError)(nil); errors.As(err, &stranger) {
		return fmt.Errorf("%w: no identity of the secret in spec.identitySecretRef decrypts backup %s", errRefused, m.Name)
	}
	if err != nil {
		if compared := catalog.Compare(ctx, e); errors.Is(compared, clusterbackup.ErrDamaged) {
			err = compared
		}
		return fmt.Errorf("reading the snapshot of backup %s: %w", m.Name, err)
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != m.Snapshot.SHA256 {
		return fmt.Errorf("%w: the snapshot of backup %s has the SHA-256 digest %s, and its manifest says %s",
			errRefused, m.Name, is, m.Snapshot.SHA256)
	}
	return nil
}

// checkWritten compares the seed that stands in a recovery with the one that the store has.
func checkWritten(r *backupv1alpha1.EtcdRecovery, seed observe.Seed) error {
	if text, err := json.Marshal(seed); err == nil && string(text) == r.Annotations[backupv1alpha1.RecoverySeedAnnotation] {
		return nil
	}
	return fmt.Errorf("%w: annotation %s is not what the store says of backup %s: delete the EtcdRecovery and create another",
		errRefused, backupv1alpha1.RecoverySeedAnnotation, seed.Backup)
}

// writeSeed writes what was found into the recovery. It is not changed after that.
func (c *Controller) writeSeed(ctx context.Context, r *recovery, s observe.Seed) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the seed of EtcdRecovery %s: %w", r.Name, err)
	}
	return c.annotate(ctx, r, backupv1alpha1.RecoverySeedAnnotation, string(text))
}

// annotate writes an annotation of a recovery.
func (c *Controller) annotate(ctx context.Context, r *recovery, name, value string) error {
	after := r.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, name, value)
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(r.EtcdRecovery, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing annotation %s of EtcdRecovery %s: %w", name, r.Name, err)
	}
	r.EtcdRecovery = after
	return nil
}

// ensureSecret makes the secret by which the snapshot is handed out, and keeps the address in it current.
func (c *Controller) ensureSecret(ctx context.Context, r *backupv1alpha1.EtcdRecovery) error {
	name := observe.SeedSecretName(r)
	s, err := c.secret(ctx, r.Namespace, name)
	switch {
	case err == nil && !metav1.IsControlledBy(s, r):
		return fmt.Errorf("%w: secret %s exists and does not belong to EtcdRecovery %s", errRefused, name, r.Name)
	case err == nil && string(s.Data[observe.SeedAddressKey]) == c.Address:
		return nil
	case err == nil:
		after := s.DeepCopy()
		after.Data[observe.SeedAddressKey] = []byte(c.Address)
		if err := c.Client.Patch(ctx, after, client.MergeFrom(s)); err != nil {
			return fmt.Errorf("writing the address into secret %s: %w", name, err)
		}
		return nil
	case !apierrors.IsNotFound(err):
		return err
	}
	made, err := newSecret(r, c.Address)
	if err != nil {
		return err
	}
	made.Labels = map[string]string{clusterv1.ClusterNameLabel: r.Spec.ClusterName}
	if err := c.Client.Create(ctx, made); err != nil {
		return fmt.Errorf("creating secret %s: %w", name, err)
	}
	return nil
}
