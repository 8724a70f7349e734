package recovery

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/stacked"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/manager/kinds"
)

// prepared is a cluster with a recovery that waits for an approval, and the command with an answer.
func prepared(t *testing.T, answer string, change func(*backupv1alpha1.EtcdRecovery)) (*app, *bytes.Buffer, client.Client, *lost) {
	t.Helper()
	r := &backupv1alpha1.EtcdRecovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-1", UID: "u", Annotations: map[string]string{
			backupv1alpha1.RecoverySeedAnnotation: `{"backup":"b1","taken":"2026-11-27T10:00:00Z","revision":7,"size":9,"sha256":"ab",` +
				`"member":"demo-cp-2"}`,
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
	for answer, approved := range map[string]bool{"recover demo\n": true, "yes\n": false, "": false, "recover other\n": false,
		"recover\n": false} {
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

// TestCreateIdentity: the identity is the given one, else that of this host's own management cluster.
// One that is none leaves nothing behind.
func TestCreateIdentity(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(bad, []byte("AGE-SECRET-KEY-1HUNTER2"), 0o600); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	if _, err := embed.EnsureBackupRecipient(state); err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(embed.BackupIdentity(state))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kubeconfig, file, want string
		isRefused              bool
	}{
		"this host's":        {"", "", string(own), false},
		"somebody's cluster": {"theirs.kubeconfig", "", "", false},
		"given":              {"theirs.kubeconfig", embed.BackupIdentity(state), string(own), false},
		"none":               {"", bad, "", true},
	} {
		a, _, _, of := prepared(t, "", nil)
		a.State, a.Kubeconfig = state, test.kubeconfig
		c := fake.NewClientBuilder().WithScheme(kinds.Scheme()).Build()
		of.group, of.object = &facts.Group{Kind: stacked.New()}, &controlplanev1.KubeadmControlPlane{}
		err := a.create(t.Context(), c, of, asked{store: "host", backup: "b1", identity: test.file})
		if (err != nil) != test.isRefused {
			t.Errorf("%s: %v", name, err)
		}
		secrets, recoveries := &corev1.SecretList{}, &backupv1alpha1.EtcdRecoveryList{}
		if err := errors.Join(c.List(t.Context(), secrets), c.List(t.Context(), recoveries)); err != nil {
			t.Fatal(err)
		}
		if (len(recoveries.Items) == 0) != test.isRefused || len(secrets.Items) > 0 != (test.want != "") {
			t.Fatalf("%s: %d recoveries, %d secrets", name, len(recoveries.Items), len(secrets.Items))
		}
		if test.want == "" {
			continue
		}
		s, r := secrets.Items[0], recoveries.Items[0]
		if string(s.Data[backupv1alpha1.IdentityKey]) != test.want || r.Spec.IdentitySecretRef.Name != s.Name || !metav1.IsControlledBy(&s, &r) {
			t.Errorf("%s: secret %s, named is %s", name, s.Name, r.Spec.IdentitySecretRef.Name)
		}
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
		"abort and a file":   func(o *asked) { o.abort, o.file = true, "f" },
		"a backup and file":  func(o *asked) { o.backup, o.file = "b1", "f" },
		"survivor and file":  func(o *asked) { o.survivor, o.file = "demo-cp-2", "f" },
	} {
		o := good
		change(&o)
		if o.check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
