package recoveries

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager/backups"
)

// best is the value of spec.survivor for the member with the newest data.
const best = "Best"

// longest is how long taking the backup of a survivor may take.
const longest = time.Hour

// seek finds the backup that is to be restored, or takes it of the survivor, and writes it into the recovery.
func (c *Controller) seek(ctx context.Context, r *recovery) error {
	found, err := observe.FindSurvivors(ctx, c.Client, c.Kind, client.ObjectKeyFromObject(r.group), c.ForwardOnly)
	if err != nil {
		return err
	}
	files, fingerprints, err := backups.Files(ctx, c.APIReader, c.Kind.Type().Kind, found)
	if err != nil {
		return err
	}
	ground := backup.Ground{UID: r.identity(), Kubernetes: c.Kind.Spec(r.group).Version, Fingerprints: fingerprints}
	return c.with(ctx, r.EtcdRecovery, ground.UID, func(catalog clusterbackup.Catalog) error {
		name, member := r.Spec.Backup, ""
		if name == "" {
			if name, member, err = c.takeSurvivor(ctx, r, found, catalog, files, fingerprints); err != nil {
				return err
			}
		}
		e, err := catalog.Get(ctx, name)
		switch {
		case err != nil:
			return fmt.Errorf("reading backup %s, which spec.backup names: %w", name, err)
		case e.Err != nil:
			return fmt.Errorf("%w: %w", errRefused, e.Err)
		}
		if err := e.Manifest.RefuseSeed(e.Verification, ground); err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		if e.Manifest.Archive.Encrypted() && r.Spec.IdentitySecretRef.Name == "" {
			return fmt.Errorf("%w: backup %s is encrypted: set spec.identitySecretRef to the secret with the identity that decrypts it",
				errRefused, name)
		}
		m := e.Manifest
		return c.writeSeed(ctx, r, observe.Seed{
			Backup: name, Taken: m.Taken, Revision: m.Revision(), Size: m.Snapshot.Size, SHA256: m.Snapshot.SHA256, Member: member,
		})
	})
}

// takeSurvivor takes a backup of the member that spec.survivor names, and verifies it.
func (c *Controller) takeSurvivor(
	ctx context.Context, r *recovery, found *observe.EtcdMembers, catalog clusterbackup.Catalog,
	files map[string][]byte, fingerprints map[string]string,
) (name, member string, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	wanted, err := nodeOf(found, r.Spec.Survivor)
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	request := clusterbackup.Request{
		Name: backup.Name(now, rand.String(5)), Kubernetes: found.Version, Fingerprints: fingerprints, Files: files,
		Scratch: c.Scratch, Limits: c.Limits, Now: now,
		Cluster: backup.Cluster{UID: catalog.UID, Namespace: r.cluster.Namespace, Name: r.cluster.Name},
	}
	if spec := c.Kind.Spec(r.group).Backup; spec != nil {
		request.Recipients = spec.Encryption.Recipients
	}
	client := etcd.Open(found.Credentials)
	defer client.Close()
	taken, err := catalog.Save(ctx, request.Name, func(to io.Writer) (t *clusterbackup.Taken, err error) {
		t, member, err = clusterbackup.TakeSurvivor(ctx, client, found.Targets, wanted, request, to)
		return t, err
	})
	switch {
	case err != nil:
		return "", "", err
	case taken.Unproven != nil:
		return "", "", fmt.Errorf("verifying the backup of %s: %w", member, taken.Unproven)
	}
	e, err := catalog.Get(ctx, request.Name)
	if err == nil {
		_, err = catalog.Verify(ctx, e, clusterbackup.Proof{Restored: taken.Restored, Now: time.Now()})
	}
	return request.Name, member, err
}

// nodeOf returns the Node of a Machine, by whose name its member is asked; empty for the best.
func nodeOf(found *observe.EtcdMembers, machine string) (string, error) {
	if machine == best {
		return "", nil
	}
	for _, m := range found.Facts.Machines {
		if m.Name == machine && m.Host != "" {
			return m.Host, nil
		}
	}
	return "", fmt.Errorf("%w: spec.survivor is %q: must be Best or a Machine of the control plane that has its Node", errRefused, machine)
}

// writeSeed writes what was found into the recovery. It is not changed after that.
func (c *Controller) writeSeed(ctx context.Context, r *recovery, s observe.Seed) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the seed of EtcdRecovery %s: %w", r.Name, err)
	}
	after := r.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, backupv1alpha1.RecoverySeedAnnotation, string(text))
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(r.EtcdRecovery, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the seed of EtcdRecovery %s: %w", r.Name, err)
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
