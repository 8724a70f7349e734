package manifest

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/backup"
)

// NoBackup is what --backup is where no backups are taken.
const NoBackup = "none"

// keptBackups is how many of the newest backups are kept, of a cluster on the host that makes it.
const keptBackups = int32(7)

// checkBackup says what is wrong with the schedule of backups.
func (c Cluster) checkBackup() error {
	if c.Backup == "" || c.Backup == NoBackup {
		return nil
	}
	if _, err := backup.ParseSchedule(c.Backup, ""); err != nil {
		return fmt.Errorf("invalid --backup %q: must be five fields of cron, such as 0 */6 * * *, or a word: @daily or %s", c.Backup, NoBackup)
	}
	return nil
}

// backup is spec.backup of what keeps etcd; nil: no backups are taken.
func (c Cluster) backup() *controlplanev1.BackupSpec {
	if c.Backup == "" || c.Backup == NoBackup {
		return nil
	}
	spec := &controlplanev1.BackupSpec{
		StoreRef: controlplanev1.BackupStoreReference{Name: c.BackupStore}, Schedule: c.Backup,
		Retention: controlplanev1.BackupRetention{Last: ptr.To(keptBackups)},
	}
	if c.BackupRecipient != "" {
		spec.Encryption.Recipients = []string{c.BackupRecipient}
	}
	return spec
}

// adoptBackup takes over when backups are taken, or returns the change of that. Of backups that a cluster has, only the schedule is
// changed: their store and their recipients are the user's.
func (c *Cluster) adoptBackup(have inventory, given func(flag string) bool) []Step {
	keeper := have[string(c.Kind)+" "+controlPlaneName(c.Name)]
	if c.Etcd > 0 {
		keeper = have["EtcdCluster "+etcdName(c.Name)]
	}
	if keeper == nil {
		return nil
	}
	path := []string{"spec", "backup"}
	current, _, _ := unstructured.NestedString(keeper.Object, append(path, "schedule")...)
	wanted := c.backup()
	step := Step{Object: keeper}
	switch {
	case !given("backup"):
		c.Backup = current
		return nil
	case wanted == nil && current == "", wanted != nil && current == wanted.Schedule:
		return nil
	case wanted == nil:
		step.Patch = nested(nil, path)
	case current != "":
		step.Patch = nested(wanted.Schedule, append(path, "schedule"))
	default:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
		if err != nil {
			panic(fmt.Sprintf("converting spec.backup: %v", err)) // a type of this program
		}
		step.Patch = nested(content, path)
	}
	step.What = fmt.Sprintf("schedule of backups: %s -> %s", cmp.Or(current, NoBackup), c.Backup)
	return []Step{step}
}
