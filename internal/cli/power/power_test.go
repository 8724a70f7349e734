package power

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager/kinds"
)

// standing is a control plane that stands as given, and the command that looks at it.
func standing(reason, message string, noted observe.Hibernation) (*app, *bytes.Buffer, client.Client, *controlplanev1.KubeadmControlPlane) {
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp", UID: "u"}}
	kcp.Status.Plan = controlplanev1.PlanStatus{Reason: reason, Message: message}
	if !noted.IsNone() {
		kcp.Annotations = map[string]string{controlplanev1.HibernationAnnotation: noted.String()}
	}
	var out bytes.Buffer
	streams := command.Streams{In: strings.NewReader(""), Out: &out, Err: &out}
	a := &app{&command.Invocation{Streams: streams, Environment: func(string) string { return "" }}}
	a.Kubeconfig = "theirs.kubeconfig"
	return a, &out, fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(kcp).Build(), kcp
}

// TestFollow: the command ends when the cluster is as wanted, and with an error when it cannot be.
func TestFollow(t *testing.T) {
	asleep := observe.Hibernation{Backup: "b1", Store: "BackupStore/s"}
	for name, test := range map[string]struct {
		reason string
		noted  observe.Hibernation
		state  controlplanev1.PowerState
		says   string
		failed bool
	}{
		"hibernated": {"Hibernated", asleep, controlplanev1.PowerHibernated, "hibernated after", false},
		"awake":      {"AsWanted", observe.Hibernation{}, controlplanev1.PowerRunning, "awake after", false},
		"refused":    {"HibernationRefused", observe.Hibernation{}, controlplanev1.PowerHibernated, "why", true},
	} {
		a, out, c, kcp := standing(test.reason, "why", test.noted)
		err := a.followPower(t.Context(), c, client.ObjectKeyFromObject(kcp), test.state)
		if (err != nil) != test.failed || !strings.Contains(out.String(), test.says) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestIdentity: the identity that decrypts the backup is in a secret while the cluster wakes, and is deleted after that. A file without one
// leaves nothing behind.
func TestIdentity(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	good, bad := filepath.Join(t.TempDir(), "key.txt"), filepath.Join(t.TempDir(), "key.txt")
	for file, text := range map[string]string{good: identity.String(), bad: "x"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, _, c, kcp := standing("Hibernated", "", observe.Hibernation{Backup: "b1"})
	key := client.ObjectKey{Namespace: "default", Name: observe.WakeIdentityName(kcp)}
	for _, file := range []string{"", bad} {
		err := a.giveIdentity(t.Context(), c, kcp, "demo", file)
		if found := c.Get(t.Context(), key, &corev1.Secret{}); (err == nil) != (file == "") || found == nil {
			t.Errorf("%q: %v, secret: %v", file, err, found)
		}
	}
	for range 2 { // the second time it is there
		if err := a.giveIdentity(t.Context(), c, kcp, "demo", good); err != nil {
			t.Fatal(err)
		}
	}
	s := &corev1.Secret{}
	if err := c.Get(t.Context(), key, s); err != nil || string(s.Data["identity"]) != identity.String() || len(s.OwnerReferences) != 1 {
		t.Errorf("%v, %+v", err, s)
	}
	if err := a.takeIdentity(t.Context(), c, kcp); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, s); err == nil {
		t.Error("the secret is still there")
	}
}
