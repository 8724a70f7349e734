package backup_test

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/store"
)

// shared is a ClusterBackupStore that keeps a folder.
func shared(allowed backupv1alpha1.AllowedNamespaces) *backupv1alpha1.ClusterBackupStore {
	return &backupv1alpha1.ClusterBackupStore{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Spec: backupv1alpha1.ClusterBackupStoreSpec{
		AllowedNamespaces: allowed, Folder: &backupv1alpha1.FolderStore{},
	}}
}

var toShared = controlplanev1.BackupStoreReference{Kind: controlplanev1.BackupStoreOfCluster, Name: "shared"}

func opener(t *testing.T, objects ...client.Object) clusterbackup.Opener {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := backupv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return clusterbackup.Opener{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), Folder: t.TempDir()}
}

// TestAllowedNamespaces: a ClusterBackupStore is there for the namespaces that it allows. The others are answered as if there were none.
func TestAllowedNamespaces(t *testing.T) {
	gold := &metav1.LabelSelector{MatchLabels: map[string]string{"plan": "gold"}}
	for name, test := range map[string]struct {
		allowed backupv1alpha1.AllowedNamespaces
		labels  map[string]string
		want    bool
	}{
		"by name":              {backupv1alpha1.AllowedNamespaces{Names: []string{"x", "team"}}, nil, true},
		"other names":          {backupv1alpha1.AllowedNamespaces{Names: []string{"team-b", "tea", "Team", "team/", "*", ""}}, nil, false},
		"by label":             {backupv1alpha1.AllowedNamespaces{Selector: gold}, map[string]string{"plan": "gold"}, true},
		"another label":        {backupv1alpha1.AllowedNamespaces{Selector: gold}, map[string]string{"plan": "silver"}, false},
		"no label":             {backupv1alpha1.AllowedNamespaces{Selector: gold}, nil, false},
		"by name, not label":   {backupv1alpha1.AllowedNamespaces{Names: []string{"team"}, Selector: gold}, nil, true},
		"by label, not name":   {backupv1alpha1.AllowedNamespaces{Names: []string{"x"}, Selector: gold}, map[string]string{"plan": "gold"}, true},
		"all":                  {backupv1alpha1.AllowedNamespaces{Selector: &metav1.LabelSelector{}}, nil, true},
		"nothing is said":      {backupv1alpha1.AllowedNamespaces{}, map[string]string{"plan": "gold"}, false},
		"a selector of nobody": {backupv1alpha1.AllowedNamespaces{Names: []string{"x"}}, nil, false},
	} {
		o := opener(t, shared(test.allowed), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: test.labels}})
		_, done, err := o.Open(t.Context(), "team", toShared)
		if (err == nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			done()
			continue
		}
		_, _, none := o.Open(t.Context(), "team", controlplanev1.BackupStoreReference{Kind: controlplanev1.BackupStoreOfCluster, Name: "none"})
		if none == nil || strings.ReplaceAll(none.Error(), " none:", " shared:") != err.Error() {
			t.Errorf("%s: %q tells whether it exists: %q", name, err, none)
		}
	}
}

// TestStoresOfNamespaces: two namespaces with clusters of the same UID have folders of their own in a ClusterBackupStore, and BackupStores
// of any name others.
func TestStoresOfNamespaces(t *testing.T) {
	of := &backupv1alpha1.BackupStore{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shared"}}
	of.Spec.Folder = &backupv1alpha1.FolderStore{}
	o := opener(t, shared(backupv1alpha1.AllowedNamespaces{Names: []string{"team", "victim"}}), of)
	for _, of := range []struct {
		namespace string
		kind      controlplanev1.BackupStoreKind
		folder    string
	}{
		{"team", controlplanev1.BackupStoreOfCluster, "_cluster/shared/team"},
		{"victim", controlplanev1.BackupStoreOfCluster, "_cluster/shared/victim"},
		{"team", controlplanev1.BackupStoreOfNamespace, "team/shared"},
		{"team", "", "team/shared"},
	} {
		opened, done, err := o.Open(t.Context(), of.namespace, controlplanev1.BackupStoreReference{Kind: of.kind, Name: "shared"})
		if err != nil {
			t.Fatal(err)
		}
		name := of.namespace + string(of.kind)
		if err := opened.Put(t.Context(), "uid/"+name, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		var all []string
		if err := opened.List(t.Context(), "uid", func(key string) error { all = append(all, key); return nil }); err != nil {
			t.Fatal(err)
		}
		done()
		if found, _ := filepath.Glob(filepath.Join(o.Folder, of.folder, "uid", name)); len(found) != 1 {
			t.Errorf("%+v: not in its folder", of)
		}
		if of.kind != "" && (len(all) != 1 || all[0] != "uid/"+name) {
			t.Errorf("%+v: it sees %q", of, all)
		}
	}
}

// TestSharedCredentials: those of a ClusterBackupStore are read in the manager's namespace, and nowhere else.
func TestSharedCredentials(t *testing.T) {
	of := shared(backupv1alpha1.AllowedNamespaces{Names: []string{"team"}})
	of.Spec.Folder, of.Spec.S3 = nil, &backupv1alpha1.ClusterS3Store{
		S3Bucket:             backupv1alpha1.S3Bucket{Endpoint: "https://s3.example.com", Bucket: "backups"},
		CredentialsSecretRef: backupv1alpha1.SecretReference{Name: "key"},
	}
	secret := func(namespace string) client.Object {
		data := map[string][]byte{"accessKeyID": []byte("id"), "secretAccessKey": []byte("s")}
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Data: data}
	}
	for namespace, test := range map[string]struct {
		managers string
		want     string
	}{
		"quorate-system": {"", ""}, "elsewhere": {"elsewhere", ""},
		"team":  {"", "there is no secret key, which spec.s3.credentialsSecretRef names"},
		"other": {"elsewhere", "there is no secret key"},
	} {
		o := opener(t, of.DeepCopy(), secret(namespace))
		o.Namespace = test.managers
		_, _, err := o.Open(t.Context(), "team", toShared)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("the secret is in %s, the manager in %q: %v", namespace, test.managers, err)
		}
	}
}

// TestNames: a text that is no name of a backup leads to no object, of this cluster or of another.
func TestNames(t *testing.T) {
	folder := t.TempDir()
	opened, err := store.OpenFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Put(t.Context(), "other/20261127t170312z-x7k2p/archive", strings.NewReader("theirs")); err != nil {
		t.Fatal(err)
	}
	c := clusterbackup.Catalog{Store: opened, UID: "own"}
	for _, name := range []string{"", ".", "../other/20261127t170312z-x7k2p", "20261127t170312z-x7k2p/../../other/20261127t170312z-x7k2p"} {
		if _, err := c.Get(t.Context(), name); err == nil || !strings.Contains(err.Error(), "invalid name") {
			t.Errorf("manifest of %q: %v", name, err)
		}
		if _, err := c.Archive(t.Context(), &clusterbackup.Entry{Name: name}); err == nil || !strings.Contains(err.Error(), "invalid name") {
			t.Errorf("archive of %q: %v", name, err)
		}
	}
}
