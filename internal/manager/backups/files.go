package backups

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/backup/inventory"
	"github.com/quorate/quorate/internal/group/observe"
)

// Files returns the files of an archive, which are the cluster's secrets and the objects from which it can be made again, and the
// fingerprints of its authorities and keys. Objects are read from a cache, secrets are not. A cluster does not have all secrets.
func Files(
	ctx context.Context, objects, secrets client.Reader, kind schema.GroupVersionKind, found *observe.EtcdMembers,
) (files map[string][]byte, fingerprints map[string]string, err error) {
	gathered, err := inventory.Gather(ctx, objects, found.Cluster, found.Object, kind)
	if err != nil {
		return nil, nil, err
	}
	files, fingerprints = gathered.Files, map[string]string{}
	names := gathered.Secrets
	for _, p := range inventory.Purposes {
		names = append(names, secret.Name(found.Cluster.Name, p))
	}
	for _, name := range slices.Concat(names, gathered.Others) {
		s := &corev1.Secret{}
		err := secrets.Get(ctx, client.ObjectKey{Namespace: found.Cluster.Namespace, Name: name}, s)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading secret %s: %w", name, err)
		}
		maps.Copy(files, inventory.SecretFiles(s))
		// That of the service account key is its public half.
		if certificate := s.Data[corev1.TLSCertKey]; len(certificate) > 0 && slices.Contains(names, name) {
			sum := sha256.Sum256(certificate)
			fingerprints[name] = hex.EncodeToString(sum[:])
		}
	}
	return files, fingerprints, nil
}
