package embed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BackupStore is the name of the BackupStore that an environment has in the namespace default from its beginning. Its backups lie in
// BackupFolder.
const BackupStore = "host"

// BackupFolder returns where the BackupStores of the kind folder lie in a state folder.
func BackupFolder(state string) string { return filepath.Join(state, "backups") }

// BackupIdentity returns the file with the environment's age identity, which decrypts the backups of clusters that `quorate up` makes. It
// lies beside them and is kept as long as they are. No namespace has its name.
func BackupIdentity(state string) string { return filepath.Join(BackupFolder(state), "identity.txt") }

// ReadBackupRecipient returns the recipient of the environment's age identity. The error is fs.ErrNotExist where there is none yet.
func ReadBackupRecipient(state string) (string, error) {
	file, err := os.Open(BackupIdentity(state))
	if err != nil {
		return "", fmt.Errorf("reading the identity of backups: %w", err)
	}
	defer func() { _ = file.Close() }()
	identities, err := age.ParseIdentities(file)
	if err != nil { // the error of age quotes no line
		return "", fmt.Errorf("reading the identity of backups, %s: it must be what age-keygen writes: %w", BackupIdentity(state), err)
	}
	own, is := identities[0].(*age.X25519Identity)
	if !is {
		return "", fmt.Errorf("reading the identity of backups, %s: its first identity must begin with AGE-SECRET-KEY-1", BackupIdentity(state))
	}
	return own.Recipient().String(), nil
}

// EnsureBackupRecipient makes the environment's age identity, if there is none, and returns its recipient. One that is there is never
// replaced: backups would be lost with it.
func EnsureBackupRecipient(state string) (string, error) {
	recipient, err := ReadBackupRecipient(state)
	if !errors.Is(err, fs.ErrNotExist) {
		return recipient, err
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", fmt.Errorf("making the identity of backups: %w", err)
	}
	if err := writeIdentity(state, identity); err != nil {
		return "", fmt.Errorf("making the identity of backups: %w", err)
	}
	return ReadBackupRecipient(state)
}

// writeIdentity writes the file as a whole, unless another process was faster.
func writeIdentity(state string, identity *age.X25519Identity) error {
	if err := os.MkdirAll(BackupFolder(state), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(state, ".backup-identity.*") // with 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = fmt.Fprintf(file, "# The key to the backups in this folder, in the format of age. Keep a copy on another host.\n"+
		"# public key: %s\n%s\n", identity.Recipient(), identity)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), BackupIdentity(state)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// ensureBackupStore makes the environment's BackupStore, unless there is one of its name.
func ensureBackupStore(ctx context.Context, c client.Client) error {
	store := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"folder": map[string]any{}}}}
	store.SetAPIVersion("backup.quorate.io/v1alpha1")
	store.SetKind("BackupStore")
	store.SetNamespace(metav1.NamespaceDefault)
	store.SetName(BackupStore)
	if err := c.Create(ctx, store); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making BackupStore %s: %w", BackupStore, err)
	}
	return nil
}
