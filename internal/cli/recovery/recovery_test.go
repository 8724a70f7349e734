package recovery

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager/kinds"
)

// prepared is a cluster with a recovery that waits for an approval, and the command with an answer.
func prepared(t *testing.T, answer string, change func(*backupv1alpha1.EtcdRecovery)) (*app, *bytes.Buffer, client.Client, *lost) {
	t.Helper()
	r := &backupv1alpha1.EtcdRecovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-1", UID: "u", Annotations: map[string]string{
			backupv1alpha1.RecoverySeedAnnotation: `{"backup":"b1","taken":"2026-11-27T10:00:00Z","revision":7,"size":9,"sha256":"ab","member":"demo-cp-2"}`,
		}},
		Spec: backupv1alpha1.EtcdRecoverySpec{ClusterName: "demo", Survivor: best, GiveUp: []string{"demo-cp-1", "demo-cp-2"}},
	}
	r.Status.Digest = observe.RecoveryDigest(r, "c")
	if change != nil {
		change(r)
	}
	c := fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(r).Build()
	of := &lost{cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "c"}}}
	if err := of.readRecovery(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	streams := command.Streams{In: strings.NewReader(answer), Out: &out, Err: &out}
	return &app{&command.Invocation{Streams: streams, Environment: func(string) string { return "" }}}, &out, c, of
}

// TestApprove: what will be restored and deleted is shown, and only the whole sentence approves it.
func TestApprove(t *testing.T) {
	for answer, approved := range map[string]bool{"recover demo\n": true, "yes\n": false, "": false, "recover other\n": false, "recover\n": false} {
		a, out, c, of := prepared(t, answer, nil)
		err := a.approve(t.Context(), c, of, false)
		if (err == nil) != approved || err != nil && !errors.Is(err, errNotApproved) {
			t.Errorf("%q: %v", answer, err)
		}
		if err := of.refresh(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if digest := of.recovery.Annotations[controlplanev1.ApprovedAnnotation]; (digest == of.recovery.Status.Digest) != approved {
			t.Errorf("%q: the approval is %q", answer, digest)
		}
		for _, part := range []string{"b1", "revision 7", "demo-cp-1, demo-cp-2", "the etcd member on demo-cp-2", `Type "recover demo"`} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%q is not shown:\n%s", part, out)
			}
		}
	}
}

// TestAbort: a recovery is deleted before it begins, and never after that.
func TestAbort(t *testing.T) {
	a, _, c, of := prepared(t, "", func(r *backupv1alpha1.EtcdRecovery) {
		r.Annotations[backupv1alpha1.RecoveryBegunAnnotation] = "2026-11-27T10:00:00Z"
	})
	if err := a.abort(t.Context(), c, of); err == nil || !strings.Contains(err.Error(), "has begun") {
		t.Error(err)
	}
	a, _, c, of = prepared(t, "", nil)
	if err := a.abort(t.Context(), c, of); err != nil {
		t.Error(err)
	}
	if err := of.readRecovery(t.Context(), c); err != nil || of.recovery != nil {
		t.Errorf("%v, %+v", err, of.recovery)
	}
	if err := a.abort(t.Context(), c, of); err != nil {
		t.Errorf("without a recovery: %v", err)
	}
}

// TestOff: only a machine that is given up can be declared off, and what was approved before is not approved any more.
func TestOff(t *testing.T) {
	a, _, c, of := prepared(t, "", nil)
	if err := a.declareOff(t.Context(), c, of, []string{"demo-cp-9"}); err == nil || !strings.Contains(err.Error(), "demo-cp-1, demo-cp-2") {
		t.Error(err)
	}
	digest := observe.RecoveryDigest(of.recovery, "c")
	if err := a.declareOff(t.Context(), c, of, []string{"demo-cp-2", "demo-cp-2"}); err != nil || len(of.recovery.Spec.Off) != 1 {
		t.Errorf("%v, %v", err, of.recovery.Spec.Off)
	}
	if observe.RecoveryDigest(of.recovery, "c") == digest {
		t.Error("an approval of before is still one")
	}
}

// TestCheck: flags that contradict one another are refused.
func TestCheck(t *testing.T) {
	good := asked{survivor: best, timeout: time.Minute}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*asked){
		"no time":            func(o *asked) { o.timeout = 0 },
		"two sources":        func(o *asked) { o.backup, o.survivor = "b1", "demo-cp-1" },
		"abort and a backup": func(o *asked) { o.abort, o.backup = true, "b1" },
		"abort and yes":      func(o *asked) { o.abort, o.yes = true, true },
		"no such file":       func(o *asked) { o.identity = "/nowhere" },
	} {
		o := good
		change(&o)
		if o.check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
