package observe

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

func recoveryOf() *EtcdRecovery {
	return &EtcdRecovery{
		ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u", Annotations: map[string]string{
			backupv1alpha1.RecoverySeedAnnotation:   `{"backup":"b","taken":"2026-11-27T10:00:00Z","revision":7,"size":9,"sha256":"ab"}`,
			controlplanev1.ApprovedByAnnotation:     "2026-11-27T12:00:00Z somebody",
			backupv1alpha1.RecoveryBegunAnnotation:  "",
			backupv1alpha1.RecoveryEndedAnnotation:  "",
			"example.com/of-somebody-else-entirely": "x",
		}},
		Spec: backupv1alpha1.EtcdRecoverySpec{ClusterName: "demo", Survivor: "Best", GiveUp: []string{"a", "b"}},
	}
}

// TestRecoveryDigest: an approval is for the cluster, the seed and the machines as they were approved, in whatever order these are written.
func TestRecoveryDigest(t *testing.T) {
	const cluster = "c"
	approved := RecoveryDigest(recoveryOf(), cluster)
	if len(approved) != digestLength {
		t.Fatalf("the digest is %q", approved)
	}
	for name, test := range map[string]struct {
		change func(*EtcdRecovery)
		want   bool
	}{
		"as it is":               {func(*EtcdRecovery) {}, true},
		"another order":          {func(r *EtcdRecovery) { r.Spec.GiveUp = []string{"b", "a"} }, true},
		"another machine":        {func(r *EtcdRecovery) { r.Spec.GiveUp = []string{"a", "b", "c"} }, false},
		"a machine less":         {func(r *EtcdRecovery) { r.Spec.GiveUp = []string{"a"} }, false},
		"a machine declared off": {func(r *EtcdRecovery) { r.Spec.Off = []string{"a"} }, false},
		"another recovery":       {func(r *EtcdRecovery) { r.UID = "v" }, false},
		"another seed": {func(r *EtcdRecovery) {
			r.Annotations[backupv1alpha1.RecoverySeedAnnotation] = `{"backup":"b","revision":8,"sha256":"ab"}`
		}, false},
		"no seed":            {func(r *EtcdRecovery) { delete(r.Annotations, backupv1alpha1.RecoverySeedAnnotation) }, false},
		"a seed without sum": {func(r *EtcdRecovery) { r.Annotations[backupv1alpha1.RecoverySeedAnnotation] = `{"backup":"b"}` }, false},
		"a seed not to read": {func(r *EtcdRecovery) { r.Annotations[backupv1alpha1.RecoverySeedAnnotation] = `{` }, false},
		"nobody recorded":    {func(r *EtcdRecovery) { delete(r.Annotations, controlplanev1.ApprovedByAnnotation) }, false},
		"recorded by hand":   {func(r *EtcdRecovery) { r.Annotations[controlplanev1.ApprovedByAnnotation] = "me" }, false},
	} {
		r := recoveryOf()
		r.Annotations[controlplanev1.ApprovedAnnotation] = approved
		test.change(r)
		want := time.Time{}
		if test.want {
			want = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
		}
		if at := RecoveryApproved(r, cluster); !at.Equal(want) {
			t.Errorf("%s: approved at %s, want %s", name, at, want)
		}
	}
	r := recoveryOf()
	r.Annotations[controlplanev1.ApprovedAnnotation] = approved
	if at := RecoveryApproved(r, "another"); !at.IsZero() {
		t.Error("an approval is taken for that of another cluster")
	}
	delete(r.Annotations, controlplanev1.ApprovedAnnotation)
	if !RecoveryApproved(r, cluster).IsZero() {
		t.Error("nobody approved, and it counts as approved")
	}
}

// TestRecoveryOf: of several recoveries of a cluster the one that has begun is carried out, then the oldest; none that ended or is being
// deleted.
func TestRecoveryOf(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	made := func(name string, minutes int, change func(*EtcdRecovery)) EtcdRecovery {
		r := recoveryOf()
		r.Name, r.CreationTimestamp = name, metav1.NewTime(at.Add(time.Duration(minutes)*time.Minute))
		if change != nil {
			change(r)
		}
		return *r
	}
	begun := func(r *EtcdRecovery) { r.Annotations[backupv1alpha1.RecoveryBegunAnnotation] = "2026-11-27T12:00:00Z" }
	ended := func(r *EtcdRecovery) { r.Annotations[backupv1alpha1.RecoveryEndedAnnotation] = "2026-11-27T12:00:00Z" }
	deleted := func(r *EtcdRecovery) { r.DeletionTimestamp = &metav1.Time{Time: at} }
	other := func(r *EtcdRecovery) { r.Spec.ClusterName = "other" }
	for want, all := range map[string][]EtcdRecovery{
		"":  {made("e", 0, ended), made("d", 0, deleted), made("o", 0, other)},
		"a": {made("b", 2, nil), made("a", 1, nil), made("e", 0, ended)},
		"b": {made("a", 1, nil), made("b", 2, begun)},
		"c": {made("d", 1, nil), made("c", 1, nil)},
	} {
		got := ""
		if r := RecoveryOf(all, "demo"); r != nil {
			got = r.Name
		}
		if got != want {
			t.Errorf("%q is carried out, want %q", got, want)
		}
	}
}

// TestDeclaredOff: nothing joins from a machine that a person declared off for a recovery, also after its end. It may while that is not
// approved, or was meant for a machine of before.
func TestDeclaredOff(t *testing.T) {
	const uid = "c1"
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	gone := metav1.NewTime(at.Add(time.Minute))
	for what, test := range map[string]struct {
		change func(r *EtcdRecovery, m *clusterv1.Machine)
		off    bool
	}{
		"declared off":           {func(*EtcdRecovery, *clusterv1.Machine) {}, true},
		"the recovery has ended": {func(r *EtcdRecovery, _ *clusterv1.Machine) { r.Annotations[RecoveryEndedAnnotation] = "t" }, true},
		"made in that second":    {func(r *EtcdRecovery, m *clusterv1.Machine) { m.CreationTimestamp = r.CreationTimestamp }, true},
		"it has not begun":       {func(r *EtcdRecovery, _ *clusterv1.Machine) { delete(r.Annotations, RecoveryBegunAnnotation) }, false},
		"changed since":          {func(r *EtcdRecovery, _ *clusterv1.Machine) { r.Spec.Off = append(r.Spec.Off, "cp-9") }, false},
		"of another cluster":     {func(r *EtcdRecovery, _ *clusterv1.Machine) { r.Spec.ClusterName = "other" }, false},
		"another machine":        {func(_ *EtcdRecovery, m *clusterv1.Machine) { m.Name = "cp-2" }, false},
		"it stays":               {func(_ *EtcdRecovery, m *clusterv1.Machine) { m.DeletionTimestamp = nil }, false},
		"made later":             {func(_ *EtcdRecovery, m *clusterv1.Machine) { m.CreationTimestamp = gone }, false},
	} {
		r, m := recoveryOf(), &clusterv1.Machine{}
		r.CreationTimestamp, r.Spec.Off = metav1.NewTime(at), []string{"cp-1"}
		r.Annotations[RecoveryBegunAnnotation] = at.Format(time.RFC3339)
		r.Annotations[controlplanev1.ApprovedAnnotation] = RecoveryDigest(r, uid)
		r.Annotations[controlplanev1.ApprovedByAnnotation] = at.Format(time.RFC3339) + " jane"
		m.Name, m.CreationTimestamp, m.DeletionTimestamp = "cp-1", metav1.NewTime(at.Add(-time.Minute)), &gone
		test.change(r, m)
		o := matching{&View{Off: declaredOff([]EtcdRecovery{*r}, "demo", uid)}}
		if why := o.cannotJoin(&Machine{Machine: m}); (why != "") != test.off {
			t.Errorf("%s: it cannot join because %q", what, why)
		}
	}
}
