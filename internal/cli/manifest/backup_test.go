package manifest

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestBackups: what keeps etcd has spec.backup, and nothing else.
func TestBackups(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Cluster)
		want   []string
	}{
		"etcd of kubeadm's":         {func(*Cluster) {}, []string{"KubeadmControlPlane"}},
		"etcd of its machines":      {func(c *Cluster) { c.Kind = ControlPlane }, []string{"ControlPlane"}},
		"etcd apart":                {func(c *Cluster) { c.Etcd = 3 }, []string{"EtcdCluster"}},
		"etcd apart, machines":      {func(c *Cluster) { c.Etcd, c.Kind = 3, ControlPlane }, []string{"EtcdCluster"}},
		"none":                      {func(c *Cluster) { c.Backup = NoBackup }, nil},
		"none, of another's making": {func(c *Cluster) { c.Backup = "" }, nil},
	} {
		c := demo()
		c.Backup, c.BackupStore, c.BackupRecipient = "@daily", "host", "age1x"
		test.change(&c)
		var got []string
		for _, o := range objectsOf(t, c) {
			spec, is, _ := unstructured.NestedMap(o.Object, "spec", "backup")
			if !is {
				continue
			}
			got = append(got, o.GetKind())
			recipients, _, _ := unstructured.NestedStringSlice(spec, "encryption", "recipients")
			if spec["schedule"] != "@daily" || !slices.Equal(recipients, []string{"age1x"}) {
				t.Errorf("%s: spec.backup is %v", name, spec)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q have backups, want %q", name, got, test.want)
		}
	}
}

// TestCheckBackup: a schedule that cannot be followed is refused with its value and what is valid.
func TestCheckBackup(t *testing.T) {
	for schedule, ok := range map[string]bool{
		"@daily": true, "0 */6 * * *": true, NoBackup: true, "": true,
		"daily": false, "* * *": false, "TZ=UTC 0 0 * * *": false, "0 0 31 2 *": false,
	} {
		c := demo()
		c.Backup = schedule
		err := c.Check(versions)
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "invalid --backup \""+schedule+"\": must be five fields of cron") {
			t.Errorf("--backup %q: %v", schedule, err)
		}
	}
}
