package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/backup/store"
)

// DefaultNamespace is the manager's namespace in the manifests.
const DefaultNamespace = "quorate-system"

// clusterStores is the folder of the ClusterBackupStores beside those of namespaces, none of which can have this name.
const clusterStores = "_cluster"

// Opener opens stores that BackupStores and ClusterBackupStores describe.
type Opener struct {
	// Reader reads stores, their secrets and namespaces.
	Reader client.Reader
	// Folder is where stores of the kind folder lie; empty: there are none.
	Folder string
	// Namespace is the manager's, in which the secrets of ClusterBackupStores are. Defaults to DefaultNamespace.
	Namespace string
	// DialTenants opens connections to the services of BackupStores, whose addresses a tenant chose; nil: any address is dialed. Those of
	// ClusterBackupStores are an administrator's.
	DialTenants func(ctx context.Context, network, address string) (net.Conn, error)
}

// Open opens the store that something in a namespace refers to. The function ends its use.
func (o Opener) Open(ctx context.Context, namespace string, ref controlplanev1.BackupStoreReference) (store.Store, func(), error) {
	open := o.ofNamespace
	if ref.Kind == controlplanev1.BackupStoreOfCluster {
		open = o.ofCluster
	}
	opened, done, err := open(ctx, namespace, ref.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s %s: %w", cmp.Or(ref.Kind, controlplanev1.BackupStoreOfNamespace), ref.Name, err)
	}
	return opened, done, nil
}

// ofNamespace opens a BackupStore.
func (o Opener) ofNamespace(ctx context.Context, namespace, name string) (store.Store, func(), error) {
	of := &backupv1alpha1.BackupStore{}
	if err := o.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, of); apierrors.IsNotFound(err) {
		return nil, nil, missing{fmt.Errorf("there is none in namespace %s", namespace)}
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading it: %w", err)
	}
	if of.Spec.Folder != nil {
		return o.folder(namespace, name)
	}
	if of.Spec.S3 == nil {
		return nil, nil, errNothing
	}
	s := describe(of.Spec.S3.S3Bucket)
	s.Dial = o.DialTenants
	if err := o.credentials(ctx, client.ObjectKey{Namespace: namespace, Name: of.Spec.S3.CredentialsSecretRef.Name}, &s); err != nil {
		return nil, nil, err
	}
	opened, err := s.Open()
	return opened, func() {}, err
}

// ofCluster opens the folder of a namespace in a ClusterBackupStore. A namespace that may not use one does not learn whether it exists.
func (o Opener) ofCluster(ctx context.Context, namespace, name string) (store.Store, func(), error) {
	of := &backupv1alpha1.ClusterBackupStore{}
	err := o.Reader.Get(ctx, client.ObjectKey{Name: name}, of)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("reading it: %w", err)
	}
	allowed := false
	if err == nil {
		if allowed, err = Allows(ctx, o.Reader, of.Spec.AllowedNamespaces, namespace); err != nil {
			return nil, nil, err
		}
	}
	if !allowed {
		return nil, nil, missing{fmt.Errorf("there is none that allows the namespace %s", namespace)}
	}
	opened, done, err := o.whole(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	below, err := store.Below(opened, namespace)
	if err != nil {
		done()
		return nil, nil, err
	}
	return below, done, nil
}

// whole opens a ClusterBackupStore with the folders of all namespaces.
func (o Opener) whole(ctx context.Context, of *backupv1alpha1.ClusterBackupStore) (store.Store, func(), error) {
	if of.Spec.Folder != nil {
		return o.folder(clusterStores, of.Name)
	}
	if of.Spec.S3 == nil {
		return nil, nil, errNothing
	}
	s := describe(of.Spec.S3.S3Bucket)
	if secret := of.Spec.S3.CredentialsSecretRef.Name; secret == "" {
		s.Found = true
	} else if err := o.credentials(ctx, client.ObjectKey{Namespace: cmp.Or(o.Namespace, DefaultNamespace), Name: secret}, &s); err != nil {
		return nil, nil, err
	}
	opened, err := s.Open()
	return opened, func() {}, err
}

// ErrMissing is the error of a store that is not there, or whose secret is not.
var ErrMissing = errors.New("the store or its secret is not there")

// missing is an error that is ErrMissing, and says what is missing.
type missing struct{ error }

// Is makes it ErrMissing for errors.Is.
func (missing) Is(target error) bool { return target == ErrMissing }

var errNothing = errors.New("spec must have s3 or folder")

// Allows reports whether a namespace is among those that a ClusterBackupStore allows. The reader reads namespaces.
func Allows(ctx context.Context, from client.Reader, allowed backupv1alpha1.AllowedNamespaces, namespace string) (bool, error) {
	if slices.Contains(allowed.Names, namespace) {
		return true, nil
	}
	if allowed.Selector == nil {
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
	if err != nil {
		return false, fmt.Errorf("spec.allowedNamespaces.selector: %w", err)
	}
	of := &corev1.Namespace{}
	if err := from.Get(ctx, client.ObjectKey{Name: namespace}, of); err != nil {
		return false, fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
	}
	return selector.Matches(labels.Set(of.Labels)), nil
}

// describe returns a bucket as a store is opened from it.
func describe(b backupv1alpha1.S3Bucket) store.S3 {
	return store.S3{
		Endpoint: b.Endpoint, Bucket: b.Bucket, Prefix: b.Prefix, Region: b.Region, PathStyle: ptr.Deref(b.PathStyle, false),
		CA: []byte(b.CABundle), Proxy: b.Proxy, Encryption: b.Encryption.Algorithm, KeyName: b.Encryption.KeyName,
	}
}

// credentials adds those of a secret.
func (o Opener) credentials(ctx context.Context, key client.ObjectKey, s *store.S3) error {
	secret := &corev1.Secret{}
	if err := o.Reader.Get(ctx, key, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return missing{fmt.Errorf("there is no secret %s, which spec.s3.credentialsSecretRef names", key.Name)}
		}
		return fmt.Errorf("reading secret %s: %w", key.Name, err)
	}
	for _, field := range []string{backupv1alpha1.AccessKeyID, backupv1alpha1.SecretAccessKey} {
		if len(secret.Data[field]) == 0 {
			return fmt.Errorf("secret %s has no %s", secret.Name, field)
		}
	}
	s.AccessKey, s.SecretKey = string(secret.Data[backupv1alpha1.AccessKeyID]), string(secret.Data[backupv1alpha1.SecretAccessKey])
	s.SessionToken = string(secret.Data[backupv1alpha1.SessionToken])
	return nil
}

// folder opens a folder of the volume. The volume must be there: it is a mount.
func (o Opener) folder(above, name string) (store.Store, func(), error) {
	if o.Folder == "" {
		return nil, nil, errors.New("the manager has no volume for backups; an administrator gives it one by --backup-folder, or use spec.s3")
	}
	if _, err := os.Stat(o.Folder); err != nil {
		return nil, nil, errors.Join(errors.New("the manager's volume for backups is not there"), err)
	}
	path := filepath.Join(o.Folder, above, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, nil, err
	}
	opened, err := store.OpenFolder(path)
	if err != nil {
		return nil, nil, err
	}
	return opened, func() { _ = opened.Close() }, nil
}
