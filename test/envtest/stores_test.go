package envtest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// TestStores: what a store must say, and what it cannot.
func TestStores(t *testing.T) {
	needAssets(t)
	c := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true})
	const bucket = "endpoint: https://s3.example.com, bucket: backups"
	const own = "s3: {" + bucket + ", credentialsSecretRef: {name: x}"
	const allowed = "allowedNamespaces: {selector: {}}, "
	for name, test := range map[string]struct{ kind, spec, refused string }{
		"a folder":           {"BackupStore", "folder: {}", ""},
		"a bucket":           {"BackupStore", own + "}", ""},
		"a bucket of nobody": {"BackupStore", "s3: {" + bucket + "}", "credentialsSecretRef: Required"},
		"both":               {"BackupStore", "folder: {}, " + own + "}", "exactly one of s3 and folder"},
		"a key without KMS":  {"BackupStore", own + ", encryption: {algorithm: AES256, keyName: x}}", "keyName must be set"},
		"KMS without a key":  {"BackupStore", own + ", encryption: {algorithm: 'aws:kms'}}", "keyName must be set"},
		"KMS":                {"BackupStore", own + ", encryption: {algorithm: 'aws:kms', keyName: x}}", ""},
		"for all":            {"ClusterBackupStore", allowed + "folder: {}", ""},
		"for some": {"ClusterBackupStore", "allowedNamespaces: {names: [a], selector: {matchLabels: {a: b}}}, s3: {" + bucket +
			"}", ""},
		"with a secret": {"ClusterBackupStore", "allowedNamespaces: {names: [a]}, s3: {" + bucket +
			", credentialsSecretRef: {name: x}}", ""},
		"for whom":           {"ClusterBackupStore", "folder: {}", "allowedNamespaces: Required"},
		"for nobody":         {"ClusterBackupStore", "allowedNamespaces: {}, folder: {}", "at least 1 properties"},
		"for no names":       {"ClusterBackupStore", "allowedNamespaces: {names: []}, folder: {}", "at least 1 items"},
		"for the same twice": {"ClusterBackupStore", "allowedNamespaces: {names: [a, a]}, folder: {}", "Duplicate"},
		"nowhere":            {"ClusterBackupStore", "allowedNamespaces: {names: [a]}", "exactly one of s3 and folder"},
		"a key without KMS, for all": {"ClusterBackupStore", allowed + "s3: {" + bucket + ", encryption: {algorithm: AES256, keyName: x}}",
			"keyName must be set"},
	} {
		o := &unstructured.Unstructured{}
		manifest := "{apiVersion: backup.quorate.io/v1alpha1, kind: " + test.kind + ", metadata: {name: x}, spec: {" + test.spec + "}}"
		if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
			t.Fatal(err)
		}
		if test.kind == "BackupStore" {
			o.SetNamespace("default")
		}
		err := c.Create(t.Context(), o, client.DryRunAll)
		if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: %v, want %q", name, err, test.refused)
		}
	}
}
