package admission

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

func backups(change func(*controlplanev1.BackupSpec)) *controlplanev1.BackupSpec {
	b := &controlplanev1.BackupSpec{StoreRef: controlplanev1.BackupStoreReference{Name: "s"}, Schedule: "0 */6 * * *",
		TimeZone: "Europe/Berlin"}
	b.Encryption.Recipients = []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}
	if change != nil {
		change(b)
	}
	return b
}

// before sets a backup before changes that may have an age.
func before(age time.Duration) func(*controlplanev1.BackupSpec) {
	return func(b *controlplanev1.BackupSpec) {
		b.Before, b.MaxAgeBefore = []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion}, &metav1.Duration{Duration: age}
	}
}

// TestBackupBefore: ages at the limits are taken, and a change that a kind never makes is refused.
func TestBackupBefore(t *testing.T) {
	spec := field.NewPath("spec")
	for want, b := range map[string]func(*controlplanev1.BackupSpec){
		`spec.backup.before[0]: Unsupported value: "Always": ` +
			`supported values: "MinorVersion", "InPlaceSingle", "EtcdVersion"`: func(b *controlplanev1.BackupSpec) {
			b.Before = []controlplanev1.BackupBefore{"Always"}
		},
		`spec.backup.before[1]: Duplicate value: "EtcdVersion"`: func(b *controlplanev1.BackupSpec) {
			b.Before = []controlplanev1.BackupBefore{"EtcdVersion", "EtcdVersion"}
		},
		`spec.backup.maxAgeBefore: Invalid value: "1h0m0s": ` +
			"must not be set without before, such as [MinorVersion]": func(b *controlplanev1.BackupSpec) {
			b.MaxAgeBefore = &metav1.Duration{Duration: time.Hour}
		},
		`spec.backup.lastBackup: Invalid value: "Required": ` +
			"must be None with deletionPolicy Delete, which deletes the last backup too": func(b *controlplanev1.BackupSpec) {
			b.LastBackup, b.DeletionPolicy = controlplanev1.LastBackupRequired, controlplanev1.BackupsDelete
		},
		`spec.backup.maxAgeBefore: Invalid value: "9m59s": must be from 10m to 168h`:    before(10*time.Minute - time.Second),
		`spec.backup.maxAgeBefore: Invalid value: "168h0m1s": must be from 10m to 168h`: before(168*time.Hour + time.Second),
	} {
		if got := checkBackup(nil, backups(b), "", spec).ToAggregate(); got == nil || got.Error() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
	for _, age := range []time.Duration{10 * time.Minute, 168 * time.Hour} {
		if got := checkBackup(nil, backups(before(age)), "", spec); len(got) > 0 {
			t.Errorf("%s: %v", age, got)
		}
	}
	single := backups(func(b *controlplanev1.BackupSpec) {
		b.Before = []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion, controlplanev1.BackupBeforeInPlaceSingle}
	})
	if got := checkBackup(nil, single, "", spec); len(got) > 0 {
		t.Errorf("a control plane: %v", got)
	}
	const want = `spec.backup.before[1]: Invalid value: "InPlaceSingle": ` +
		"must be MinorVersion or EtcdVersion: machines of an EtcdCluster are not changed in place"
	if got := validateEtcd(&etcdclusterv1alpha1.CommonSpec{Backup: single}, spec).ToAggregate(); got == nil || got.Error() != want {
		t.Errorf("an EtcdCluster: %v", got)
	}
}

// TestBackup: what cannot be carried out is refused by field, value and what is valid, in each kind; what is stored already is not refused
// again.
func TestBackup(t *testing.T) {
	for want, b := range map[string]*controlplanev1.BackupSpec{
		"": backups(nil),
		`spec.backup.schedule: Invalid value: "every day": schedule "every day": must be five fields of cron`: backups(
			func(b *controlplanev1.BackupSpec) { b.Schedule = "every day" }),
		`spec.backup.timeZone: Invalid value: "Mars": timeZone "Mars": must be a name of the IANA`: backups(
			func(b *controlplanev1.BackupSpec) { b.TimeZone = "Mars" }),
		`spec.backup.encryption.recipients[0]: Invalid value: "AGE-SECRET": recipient "AGE-SECRET": must be one pu`: backups(
			func(b *controlplanev1.BackupSpec) { b.Encryption.Recipients[0] = "AGE-SECRET" }),
	} {
		spec := field.NewPath("spec")
		for kind, got := range map[string]field.ErrorList{
			"a control plane": checkBackup(nil, b, "", spec),
			"ControlPlane": validateSpec(&controlplanev1alpha1.ControlPlaneSpec{},
				&controlplanev1alpha1.ControlPlaneSpec{CommonSpec: controlplanev1alpha1.CommonSpec{Backup: b}}, names{"a", "b"}, spec),
			"EtcdCluster": validateEtcd(&etcdclusterv1alpha1.CommonSpec{Backup: b}, spec),
		} {
			if text := got.ToAggregate(); (text == nil) != (want == "") || text != nil && !strings.Contains(text.Error(), want) {
				t.Errorf("%s: %v, want %q", kind, text, want)
			}
		}
		if got := checkBackup(b, b, "", spec); len(got) > 0 {
			t.Errorf("stored already: %v", got)
		}
	}
	secret := "age-secret-key-1QQPQQQQ"
	got := checkBackup(nil, backups(func(b *controlplanev1.BackupSpec) { b.Encryption.Recipients[0] = secret }), "",
		field.NewPath("spec")).ToAggregate()
	if got == nil || strings.Contains(got.Error(), secret) || !strings.Contains(got.Error(), "private key") {
		t.Errorf("a private key: %v", got)
	}
	if got := checkBackup(nil, nil, "elsewhere", field.NewPath("spec")); len(got) > 0 {
		t.Errorf("no backup at all: %v", got)
	}
}

// TestBackupElsewhere: a control plane whose etcd is not ours takes no backups, and says who does.
func TestBackupElsewhere(t *testing.T) {
	for _, change := range []func(*controlplanev1alpha1.ControlPlaneSpec){
		func(s *controlplanev1alpha1.ControlPlaneSpec) {
			s.Etcd.Management = controlplanev1alpha1.EtcdManagementOperator
		},
		func(s *controlplanev1alpha1.ControlPlaneSpec) {
			s.Etcd.Management = controlplanev1alpha1.EtcdManagementNone
		},
		func(s *controlplanev1alpha1.ControlPlaneSpec) {
			s.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster", Name: "e"}
		},
	} {
		spec := controlplanev1alpha1.ControlPlaneSpec{CommonSpec: controlplanev1alpha1.CommonSpec{Backup: backups(nil)}}
		change(&spec)
		if got := validateSpec(&spec, &spec, names{"a", "b"}, field.NewPath("spec")); len(got) > 0 {
			t.Errorf("stored already: %v", got)
		}
		got := validateSpec(&controlplanev1alpha1.ControlPlaneSpec{}, &spec, names{"a", "b"}, field.NewPath("spec")).ToAggregate()
		if got == nil || !strings.Contains(got.Error(), "spec.backup: Forbidden") {
			t.Error(got)
		}
	}
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Spec.Version, kcp.Spec.Backup = "v1.36.3", backups(nil)
	kcp.Spec.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster",
		Name: "e"}
	if err := refusal(nil, kcp); err == nil || !strings.Contains(err.Error(), "set its spec.backup") {
		t.Error(err)
	}
}
