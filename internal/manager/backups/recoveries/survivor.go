package recoveries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/util/rand"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
)

// survivor is what the backup of a survivor is made from, where it is stored, and by which identities it is read again.
type survivor struct {
	found        *observe.EtcdMembers
	catalog      clusterbackup.Catalog
	files        map[string][]byte
	fingerprints map[string]string
	identities   []age.Identity
}

// kept is a backup that was taken of a survivor, as backupv1alpha1.RecoveryTakenAnnotation holds it.
type kept struct {
	Backup string `json:"backup"`
	Member string `json:"member"`
}

// takenOf reads which backup was taken for a recovery; the zero value: none was that can be read.
func takenOf(r *backupv1alpha1.EtcdRecovery) kept {
	var t kept
	if json.Unmarshal([]byte(r.Annotations[backupv1alpha1.RecoveryTakenAnnotation]), &t) != nil || !backup.IsName(t.Backup) {
		return kept{}
	}
	return t
}

// ofSurvivor returns the verified backup of the member that spec.survivor names, and the member. It is taken once: what fails after that is
// tried again with the same backup, because each reads the member's whole data and fills the store.
func (c *Controller) ofSurvivor(ctx context.Context, r *recovery, of survivor) (name, member string, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	was := takenOf(r.EtcdRecovery)
	if was.Backup != "" {
		e, err := of.catalog.Get(ctx, was.Backup)
		switch {
		case err == nil && (e.Err != nil || e.Verified()): // the caller refuses what cannot be read
			return was.Backup, was.Member, nil
		case err == nil:
			proof := clusterbackup.Proof{Identities: of.identities, Scratch: c.Scratch, Limits: c.Limits, Now: time.Now()}
			_, err = of.catalog.Verify(ctx, e, proof)
			return was.Backup, was.Member, err
		case !errors.Is(err, clusterbackup.ErrNotFound):
			return "", "", fmt.Errorf("reading backup %s, which was taken of %s: %w", was.Backup, was.Member, err)
		}
	}
	if c.ForwardOnly && !r.kind.Type().Nodeless {
		return "", "", fmt.Errorf("%w: etcd is reached through the cluster's API server alone (--etcd-forward-only), which answers nothing "+
			"without a quorum, so that no member can be backed up: name a verified backup, or let the manager reach port 2379 of the machine "+
			"directly", errRefused)
	}
	return c.takeSurvivor(ctx, r, of)
}

// takeSurvivor takes a backup of the member that spec.survivor names, notes it in the recovery, and verifies it.
func (c *Controller) takeSurvivor(ctx context.Context, r *recovery, of survivor) (name, member string, err error) {
	wanted, err := nodeOf(of.found, r.Spec.Survivor)
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	request := clusterbackup.Request{
		Name: backup.Name(now, rand.String(5)), Kubernetes: of.found.Version, Fingerprints: of.fingerprints, Files: of.files,
		Scratch: c.Scratch, Limits: c.Limits, Now: now,
		Cluster: backup.Cluster{UID: of.catalog.UID, Namespace: r.cluster.Namespace, Name: r.cluster.Name}, Recipients: c.recipients(r),
	}
	client := etcd.Open(of.found.Credentials)
	defer client.Close()
	made, err := of.catalog.Save(ctx, request.Name, func(to io.Writer) (t *clusterbackup.Taken, err error) {
		t, member, err = clusterbackup.TakeSurvivor(ctx, client, of.found.Targets, wanted, request, to)
		return t, err
	})
	if err != nil {
		return "", "", err
	}
	text, err := json.Marshal(kept{request.Name, member})
	if err != nil {
		return "", "", fmt.Errorf("writing which backup was taken: %w", err)
	}
	if err := c.annotate(ctx, r, backupv1alpha1.RecoveryTakenAnnotation, string(text)); err != nil {
		return "", "", err
	}
	if made.Unproven != nil {
		return "", "", fmt.Errorf("verifying the backup of %s: %w", member, made.Unproven)
	}
	e, err := of.catalog.Get(ctx, request.Name)
	if err == nil {
		_, err = of.catalog.Verify(ctx, e, clusterbackup.Proof{Restored: made.Restored, Now: time.Now()})
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
	return "", fmt.Errorf("%w: spec.survivor is %q: must be Best or a Machine of the control plane that has its Node, or of the EtcdCluster",
		errRefused, machine)
}
