package backup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/backup/store"
)

// Opener opens stores that BackupStores describe.
type Opener struct {
	// Reader reads BackupStores and their secrets.
	Reader client.Reader
	// Folder is where stores of the kind folder lie; empty: there are none.
	Folder string
	// Dial opens connections to services; nil: any address is dialed.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Open opens a store. The function ends its use.
func (o Opener) Open(ctx context.Context, key client.ObjectKey) (store.Store, func(), error) {
	of := &backupv1alpha1.BackupStore{}
	if err := o.Reader.Get(ctx, key, of); err != nil {
		return nil, nil, fmt.Errorf("reading BackupStore %s: %w", key.Name, err)
	}
	if of.Spec.Folder != nil {
		return o.folder(key)
	}
	s3 := of.Spec.S3
	if s3 == nil {
		return nil, nil, fmt.Errorf("opening BackupStore %s: spec must have s3 or folder", key.Name)
	}
	secret := &corev1.Secret{}
	if err := o.Reader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: s3.CredentialsSecretRef.Name}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil, fmt.Errorf("opening BackupStore %s: there is no secret %s, which spec.s3.credentialsSecretRef names", key.Name, s3.CredentialsSecretRef.Name)
		}
		return nil, nil, fmt.Errorf("reading secret %s of BackupStore %s: %w", s3.CredentialsSecretRef.Name, key.Name, err)
	}
	for _, field := range []string{backupv1alpha1.AccessKeyID, backupv1alpha1.SecretAccessKey} {
		if len(secret.Data[field]) == 0 {
			return nil, nil, fmt.Errorf("opening BackupStore %s: secret %s has no %s", key.Name, secret.Name, field)
		}
	}
	opened, err := store.S3{
		Endpoint: s3.Endpoint, Bucket: s3.Bucket, Prefix: s3.Prefix, Region: s3.Region, PathStyle: ptr.Deref(s3.PathStyle, false), CA: []byte(s3.CABundle), Proxy: s3.Proxy,
		Encryption: s3.Encryption.Algorithm, KeyName: s3.Encryption.KeyName, Dial: o.Dial, AccessKey: string(secret.Data[backupv1alpha1.AccessKeyID]),
		SecretKey: string(secret.Data[backupv1alpha1.SecretAccessKey]), SessionToken: string(secret.Data[backupv1alpha1.SessionToken]),
	}.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("opening BackupStore %s: %w", key.Name, err)
	}
	return opened, func() {}, nil
}

// folder opens the folder NAMESPACE/NAME of a store. The folder above must be there: it is the mount of a volume.
func (o Opener) folder(key client.ObjectKey) (store.Store, func(), error) {
	if o.Folder == "" {
		return nil, nil, fmt.Errorf("opening BackupStore %s: the manager has no volume for backups; an administrator gives it one by --backup-folder, or use spec.s3", key.Name)
	}
	if _, err := os.Stat(o.Folder); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening BackupStore %s: the manager's volume for backups is not there", key.Name), err)
	}
	path := filepath.Join(o.Folder, key.Namespace, key.Name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, nil, fmt.Errorf("opening BackupStore %s: %w", key.Name, err)
	}
	opened, err := store.OpenFolder(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening BackupStore %s: %w", key.Name, err)
	}
	return opened, func() { _ = opened.Close() }, nil
}
