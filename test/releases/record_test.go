package releases_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/releases"
)

// named is the metadata of an object of a cluster.
func named(name, cluster string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}
}

// TestRecord: what belongs to a cluster is recorded with what it refers to, and nothing of others, and no secret.
func TestRecord(t *testing.T) {
	key := client.ObjectKey{Namespace: "default", Name: "demo"}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: named("demo-cp", "demo")}
	kcp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group,
		Kind: "LocalMachineTemplate", Name: "mine"}
	kcp.Status.Plan.Step = "Nothing"
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: named("demo-cp-1", "demo")}
	config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = "abcdef.0123456789abcdef"
	objects := []client.Object{
		kcp, config, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}},
		&corev1.Secret{ObjectMeta: named("demo-ca", "demo"), Data: map[string][]byte{"tls.key": []byte("very secret")}},
		&clusterv1.Machine{ObjectMeta: named("other-cp-1", "other")},
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}},
		&infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "another"}},
	}
	record := func(objects ...client.Object) (string, error) {
		folder := t.TempDir()
		err := releases.Record(t.Context(), fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(objects...).Build(), folder, "r",
			"here", key)
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(filepath.Join(folder, "r.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := releases.Read(filepath.Join(folder, "r.yaml"))
		if err != nil || r.Source != "here" || r.Recorded.IsZero() {
			t.Fatalf("read again: %+v, %v", r, err)
		}
		var names []string
		for _, o := range r.Objects {
			names = append(names, o.GetKind()+" "+o.GetName())
		}
		return strings.Join(names, ", ") + string(text), nil
	}
	text, err := record(objects...)
	if err != nil {
		t.Fatal(err)
	}
	want := "Cluster demo, KubeadmControlPlane demo-cp, KubeadmConfig demo-cp-1, LocalMachineTemplate mine, Secret demo-ca"
	if !strings.HasPrefix(text, want+"recorded:") {
		t.Errorf("recorded are %s", text)
	}
	for _, secret := range []string{"abcdef", "dmVyeSBzZWNyZXQ", "very secret", "resourceVersion"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q was recorded", secret)
		}
	}
	kcp.Status.Plan.Step = "Wait"
	if _, err := record(objects...); !errors.Is(err, releases.ErrBusy) ||
		!strings.Contains(err.Error(), "KubeadmControlPlane demo-cp: step Wait") {
		t.Errorf("a cluster that is not at rest: %v", err)
	}
	kcp.Status.Plan.Step = "Nothing"
	config.Spec.Files = []bootstrapv1.File{{Content: "-----BEGIN PRIVATE KEY-----"}}
	if _, err := record(objects...); err == nil || !strings.Contains(err.Error(), "KubeadmConfig demo-cp-1.spec.files[0].content") {
		t.Errorf("a key in a file: %v", err)
	}
}
