package recovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"filippo.io/age"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/local/embed"
)

// bring stores the archive in a file as a verified backup of the cluster, and returns the backup's name.
func (a *app) bring(
	ctx context.Context, c client.Client, of *lost, ref controlplanev1.BackupStoreReference, path string, identities []age.Identity,
) (name string, err error) {
	opener := backup.Opener{Reader: c, Namespace: backup.DefaultNamespace}
	if a.IsOwnManagement() {
		opener.Folder = embed.BackupFolder(a.State)
	}
	s, done, err := opener.Open(ctx, of.cluster.Namespace, ref)
	if err != nil {
		return "", err
	}
	defer done()
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("invalid --from-file %q: %w", path, err)
	}
	defer func() { _ = file.Close() }() // it was read only
	folder, err := os.MkdirTemp("", "quorate-backup-")
	if err != nil {
		return "", fmt.Errorf("making a scratch folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	uid := of.object.GetAnnotations()[controlplanev1.BackupIdentityAnnotation]
	if uid == "" {
		uid = string(of.cluster.UID)
	}
	proof := backup.Proof{Identities: identities, Scratch: folder, Limits: scratch.DefaultLimits, Now: time.Now()}
	e, err := backup.Catalog{Store: s, UID: uid}.Import(ctx, file, proof)
	if err != nil {
		return "", fmt.Errorf("invalid --from-file %q: %w", path, err)
	}
	a.NewScreen().Printf("%s is stored as backup %s, and verified", path, e.Name)
	return e.Name, nil
}
