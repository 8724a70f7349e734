package observe

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
)

const noted = "store=BackupStore/bucket,uid=u1,name=20261127t170312z-x7k2p,taken=2026-11-27T17:03:12Z"

// TestVerifiedBackup: what was written is read; nothing else is a backup.
func TestVerifiedBackup(t *testing.T) {
	want := VerifiedBackup{Store: "BackupStore/bucket", UID: "u1", Name: "20261127t170312z-x7k2p",
		Taken: time.Date(2026, 11, 27, 17, 3, 12, 0, time.UTC)}
	if got := ParseVerifiedBackup(noted); got != want || got.String() != noted {
		t.Errorf("%+v, written as %q", got, got)
	}
	for _, text := range []string{
		"", "store=BackupStore/bucket", "uid=u1,name=n,taken=2026-11-27T17:03:12Z", "store=BackupStore/bucket,name=n,taken=2026-11-27T17:03:12Z",
		"store=BackupStore/bucket,uid=u1,taken=2026-11-27T17:03:12Z", "store=BackupStore/bucket,uid=u1,name=n",
		"store=BackupStore/bucket,uid=u1,name=n,taken=yesterday",
		"store=BackupStore/bucket,uid=u1,name=n,taken=0001-01-01T00:00:00Z", noted + ",x=y", noted + "," + noted,
	} {
		if got := ParseVerifiedBackup(text); got != (VerifiedBackup{}) {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	if got := (VerifiedBackup{}).String(); got != "" {
		t.Errorf("no backup is written as %q", got)
	}
}

// TestAddBackup: only a backup of this identity in the store that is named now counts, and only where etcd is ours and one is asked for.
func TestAddBackup(t *testing.T) {
	spec := func() *controlplanev1.BackupSpec {
		b := &controlplanev1.BackupSpec{Before: []controlplanev1.BackupBefore{controlplanev1.BackupBeforeMinorVersion}}
		b.StoreRef.Name = "bucket"
		return b
	}
	unusable := metav1.Condition{Type: controlplanev1.BackupCurrentCondition, Status: metav1.ConditionFalse,
		Reason: controlplanev1.BackupStoreUnusable, Message: "refused"}
	age := &metav1.Duration{Duration: 20 * time.Minute}
	moment := time.Date(2026, 11, 27, 17, 3, 12, 0, time.UTC)
	found := plan.Backup{Name: "20261127t170312z-x7k2p", Taken: moment}
	for name, test := range map[string]struct {
		spec   func(*Spec)
		change func(map[string]string)
		age    time.Duration
		want   plan.Backup
	}{
		"as it is":         {nil, nil, time.Hour, found},
		"an age":           {func(s *Spec) { s.Backup.MaxAgeBefore = age }, nil, age.Duration, found},
		"no backups":       {func(s *Spec) { s.Backup = nil }, nil, 0, plan.Backup{}},
		"before nothing":   {func(s *Spec) { s.Backup.Before = nil }, nil, 0, plan.Backup{}},
		"etcd elsewhere":   {func(s *Spec) { s.HoldsQuorum = false }, nil, 0, plan.Backup{}},
		"another store":    {func(s *Spec) { s.Backup.StoreRef.Name = "other" }, nil, time.Hour, plan.Backup{}},
		"another kind":     {func(s *Spec) { s.Backup.StoreRef.Kind = controlplanev1.BackupStoreOfCluster }, nil, time.Hour, plan.Backup{}},
		"the same kind":    {func(s *Spec) { s.Backup.StoreRef.Kind = controlplanev1.BackupStoreOfNamespace }, nil, time.Hour, found},
		"another identity": {nil, func(a map[string]string) { a[controlplanev1.BackupIdentityAnnotation] = "u2" }, time.Hour, plan.Backup{}},
		"no identity":      {nil, func(a map[string]string) { delete(a, controlplanev1.BackupIdentityAnnotation) }, time.Hour, plan.Backup{}},
		"none known":       {nil, func(a map[string]string) { delete(a, controlplanev1.BackupVerifiedAnnotation) }, time.Hour, plan.Backup{}},
		"garbled":          {nil, func(a map[string]string) { a[controlplanev1.BackupVerifiedAnnotation] += "x" }, time.Hour, plan.Backup{}},
		"asked for": {nil, func(a map[string]string) { a[controlplanev1.BackupRequiredAnnotation] = "2026-11-27T17:03:12Z" }, time.Hour,
			plan.Backup{Name: found.Name, Taken: moment, Required: moment, Trouble: "StoreUnusable: refused"}},
		"asked for, garbled": {nil, func(a map[string]string) { a[controlplanev1.BackupRequiredAnnotation] = "now" }, time.Hour, found},
	} {
		kcp := &controlplanev1.KubeadmControlPlane{}
		kcp.Annotations = map[string]string{controlplanev1.BackupVerifiedAnnotation: noted, controlplanev1.BackupIdentityAnnotation: "u1"}
		conditions.Set(kcp, unusable)
		s := Spec{HoldsQuorum: true, Backup: spec()}
		if test.spec != nil {
			test.spec(&s)
		}
		if test.change != nil {
			test.change(kcp.Annotations)
		}
		v := &View{Object: kcp, Spec: s}
		wants{v}.addBackup()
		if got := v.Facts.Group.Backup; got != test.want || v.Facts.Policy.MaxBackupAge != test.age || v.Facts.Policy.BackupBeforeSingle {
			t.Errorf("%s: %+v, not older than %s; want %+v and %s", name, got, v.Facts.Policy.MaxBackupAge, test.want, test.age)
		}
	}
	last(t, spec(), noted, found)
	s := Spec{HoldsQuorum: true, Backup: spec()}
	s.Backup.Before = []controlplanev1.BackupBefore{controlplanev1.BackupBeforeInPlaceSingle}
	v := &View{Object: &controlplanev1.KubeadmControlPlane{}, Spec: s}
	if (wants{v}).addBackup(); !v.Facts.Policy.BackupBeforeSingle {
		t.Error("InPlaceSingle is not read")
	}
}

// last: a group that is being deleted needs a last backup where its spec says so and it was initialised, whether changes need one or not.
func last(t *testing.T, spec *controlplanev1.BackupSpec, noted string, found plan.Backup) {
	t.Helper()
	deleted := metav1.NewTime(found.Taken.Add(-time.Minute))
	spec.Before, spec.LastBackup = nil, controlplanev1.LastBackupRequired
	with := found
	with.Last = deleted.Time
	for name, test := range map[string]struct {
		change func(*View)
		want   plan.Backup
	}{
		"needed":          {nil, with},
		"not deleted":     {func(v *View) { v.Object.SetDeletionTimestamp(nil) }, plan.Backup{}},
		"not wanted":      {func(v *View) { v.Spec.Backup.LastBackup = controlplanev1.LastBackupNone }, plan.Backup{}},
		"not initialised": {func(v *View) { v.Facts.Group.Initialized = false }, plan.Backup{}},
		"etcd elsewhere":  {func(v *View) { v.Spec.HoldsQuorum = false }, plan.Backup{}},
		"no backups":      {func(v *View) { v.Spec.Backup = nil }, plan.Backup{}},
	} {
		kcp := &controlplanev1.KubeadmControlPlane{}
		kcp.Annotations = map[string]string{controlplanev1.BackupVerifiedAnnotation: noted, controlplanev1.BackupIdentityAnnotation: "u1"}
		kcp.DeletionTimestamp = &deleted
		v := &View{Object: kcp, Spec: Spec{HoldsQuorum: true, Backup: spec.DeepCopy()}}
		v.Facts.Group.Initialized = true
		if test.change != nil {
			test.change(v)
		}
		if (wants{v}).addBackup(); v.Facts.Group.Backup != test.want || v.Facts.Policy.MaxBackupAge != 0 {
			t.Errorf("last, %s: %+v, want %+v", name, v.Facts.Group.Backup, test.want)
		}
	}
}

// TestTrouble: what is told is what is wrong.
func TestTrouble(t *testing.T) {
	for _, test := range []struct{ reason, message, want string }{
		{controlplanev1.BackupVerified, "recoverable from b1, verified", ""},
		{controlplanev1.BackupVerified, "from b1, verified; the last attempt (Failed): no etcd", "the last attempt at one (Failed): no etcd"},
		{controlplanev1.BackupVerified, "from b1; the last attempt (Verified): it took 15m", "the last attempt at one (Verified): it took 15m"},
		{controlplanev1.BackupNever, "there is no verified backup yet", ""},
		{controlplanev1.BackupOverdue, "it is older; the last attempt (NotVerified): 2 keys", "the last attempt at one (NotVerified): 2 keys"},
		{controlplanev1.BackupStoreUnusable, "connection refused", "StoreUnusable: connection refused"},
	} {
		if got := trouble(test.reason, test.message); got != test.want {
			t.Errorf("%s %q is told as %q, want %q", test.reason, test.message, got, test.want)
		}
	}
}

// TestNeedsBackup: of each difference whether it needs a backup, by what the user asks for.
func TestNeedsBackup(t *testing.T) {
	const (
		minor = controlplanev1.BackupBeforeMinorVersion
		etcd  = controlplanev1.BackupBeforeEtcdVersion
		tag   = "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.imageTag"
	)
	for _, test := range []struct {
		before           controlplanev1.BackupBefore
		field, was, want string
		nodeless         bool
		tag              string
		needs            string
	}{
		{minor, "spec.version", "v1.36.3", "v1.37.2", false, "", "Kubernetes v1.36.3 -> v1.37.2"},
		{minor, "spec.version", "v1.37.2", "v1.36.3", false, "", "Kubernetes v1.37.2 -> v1.36.3"},
		{minor, "spec.version", "v1.37.1", "v1.37.2", false, "", ""},
		{minor, "spec.version", "", "v1.37.2", false, "", "Kubernetes  -> v1.37.2"},
		{minor, "spec.version", "3.5.35", "3.6.16", true, "", "etcd 3.5.35 -> 3.6.16"},
		{minor, "spec.version", "3.6.15", "3.6.16", true, "", ""},
		{minor, tag, "3.5.35", "3.6.16", false, "3.6.16", ""},
		{minor, "spec.kubeadmConfigSpec.files[/etc/motd].owner", "a", "b", false, "", ""},
		{etcd, "spec.version", "v1.37.1", "v1.37.2", false, "", "Kubernetes v1.37.1 -> v1.37.2"},
		{etcd, "spec.version", "v1.36.3", "v1.37.2", false, "3.6.16", ""},
		{etcd, "spec.version", "3.6.15", "3.6.16", true, "", "etcd 3.6.15 -> 3.6.16"},
		{etcd, tag, "3.5.35", "3.6.16", false, "3.6.16", "etcd 3.5.35 -> 3.6.16"},
		{etcd, "spec.kubeadmConfigSpec.clusterConfiguration.imageTag", "a", "b", false, "", ""},
		{controlplanev1.BackupBeforeInPlaceSingle, "spec.version", "v1.36.3", "v1.37.2", false, "", ""},
	} {
		v := &View{Spec: Spec{EtcdTag: test.tag, Backup: &controlplanev1.BackupSpec{}}}
		if test.nodeless {
			v.Type.Runs = "etcd"
		}
		v.Spec.Backup.Before = []controlplanev1.BackupBefore{test.before}
		found := drift.Drift{Reasons: []drift.Difference{{Field: "spec.other"}, {Field: test.field, Was: test.was, Want: test.want}}}
		v.Facts.Policy.MaxBackupAge = time.Hour
		if got := (wants{v}).needsBackup(found); got != test.needs {
			t.Errorf("%+v: %q", test, got)
		}
		v.Facts.Policy.MaxBackupAge = 0
		if got := (wants{v}).needsBackup(found); got != "" {
			t.Errorf("%+v: %q, and nobody asks for backups", test, got)
		}
	}
}
