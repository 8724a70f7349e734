package embed

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestBackupIdentity: an environment has one identity, whoever asks first, only root can read it, and one that is damaged is not replaced.
func TestBackupIdentity(t *testing.T) {
	state := t.TempDir()
	if _, err := ReadBackupRecipient(state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before there is one: %v", err)
	}
	var all sync.WaitGroup
	recipients := make([]string, 8)
	for i := range recipients {
		all.Go(func() {
			var err error
			if recipients[i], err = EnsureBackupRecipient(state); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, r := range recipients {
		if r != recipients[0] || !strings.HasPrefix(r, "age1") {
			t.Errorf("recipients are %q", recipients)
		}
	}
	if info, err := os.Stat(BackupIdentity(state)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want 0600", info.Mode(), err)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 1 {
		t.Errorf("beside the folder of backups there are %v, %v", left, err)
	}
	secret := "AGE-SECRET-KEY-1DAMAGED"
	if err := os.WriteFile(BackupIdentity(state), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureBackupRecipient(state); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a damaged identity: %v", err)
	}
	if data, err := os.ReadFile(BackupIdentity(state)); err != nil || string(data) != secret {
		t.Errorf("a damaged identity was replaced: %v", err)
	}
}

// TestBackupStoreIsMadeOnce: and one that a user changed stays.
func TestBackupStoreIsMadeOnce(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	store := &unstructured.Unstructured{}
	store.SetAPIVersion("backup.quorate.io/v1alpha1")
	store.SetKind("BackupStore")
	for _, label := range []string{"", "mine"} {
		if err := ensureBackupStore(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "host"}, store); err != nil {
			t.Fatal(err)
		}
		if _, is, err := unstructured.NestedMap(store.Object, "spec", "folder"); !is || err != nil || store.GetLabels()["of"] != label {
			t.Errorf("it is %v, want one with a folder and the label %q", store.Object, label)
		}
		store.SetLabels(map[string]string{"of": "mine"})
		if err := c.Update(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
}
