package stacked

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/certs"
)

// bereft is an initialised control plane with external etcd of which no machine is left.
func bereft(t *testing.T) *world {
	t.Helper()
	kcp, cluster := testKCP(3), testCluster()
	config := &kcp.Spec.KubeadmConfigSpec.ClusterConfiguration
	config.Etcd.External = bootstrapv1.ExternalEtcd{Endpoints: []string{"https://10.0.0.1:2379"}, CAFile: "/a", CertFile: "/b", KeyFile: "/c"}
	kcp.Annotations = map[string]string{controlplanev1.InitializedAnnotation: "true"}
	kcp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	w := newWorld(t, cluster, kcp)
	if _, err := certs.Generate(context.Background(), w.client, cluster, config, authorities, controllerRef(kcp)); err != nil {
		t.Fatal(err)
	}
	pair := w.secret("demo-ca").Data
	for name, data := range map[string]map[string][]byte{"demo-etcd": {"tls.crt": pair["tls.crt"]}, "demo-apiserver-etcd-client": pair} {
		given := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}, Type: clusterv1.ClusterSecretType, Data: data}
		if err := w.client.Create(context.Background(), given); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// pause pauses the Cluster, or takes the pause back.
func (w *world) pause(on bool) {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := w.client.Get(context.Background(), clusterKey, cluster); err != nil {
		w.t.Fatal(err)
	}
	cluster.Spec.Paused = ptr.To(on)
	if err := w.client.Update(context.Background(), cluster); err != nil {
		w.t.Fatal(err)
	}
}

// waits fails unless nothing is made, for the reason that no machine is left, and the wait says what to do.
func (w *world) waits() {
	w.t.Helper()
	if p := w.settle(); p.Reason != "NoMachineLeft" || !strings.Contains(p.Message, "docs/operating.md") || len(w.machines()) > 0 {
		w.t.Fatalf("%d machines: %+v", len(w.machines()), p)
	}
}

// TestFirstMachineAgain: with external etcd and no machine left, a first one is made again when a person has taken both
// records away, as docs/operating.md says, and before that none.
func TestFirstMachineAgain(t *testing.T) {
	w := bereft(t)
	w.waits()
	// One record is enough.
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		delete(kcp.Annotations, controlplanev1.InitializedAnnotation)
	})
	w.waits()
	if _, recorded := w.kcp().Annotations[controlplanev1.InitializedAnnotation]; !recorded {
		t.Error("what the status says is not written down again")
	}
	w.loseStatus()
	w.waits()

	w.pause(true)
	w.turn()
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		delete(kcp.Annotations, controlplanev1.InitializedAnnotation)
	})
	w.turn()
	kcp := w.kcp()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"initialization":null}}`))
	if err := w.client.Status().Patch(context.Background(), kcp, patch); err != nil {
		t.Fatal(err)
	}
	w.turn()
	if len(w.machines()) > 0 || isRecorded(w.kcp()) {
		t.Fatalf("while it is paused there are %d machines, and the record is back: %t", len(w.machines()), isRecorded(w.kcp()))
	}
	w.pause(false)
	p := w.settle()
	if names := w.machines(); len(names) != 1 {
		t.Fatalf("%d machines: %+v", len(names), p)
	}
	config := &bootstrapv1.KubeadmConfig{}
	first := w.machines()[0]
	if err := w.client.Get(context.Background(), client.ObjectKeyFromObject(&first), config); err != nil {
		t.Fatal(err)
	}
	if config.Spec.JoinConfiguration.ControlPlane != nil || p.Reason != "Initializing" {
		t.Errorf("the first machine is made to join %+v: %+v", config.Spec.JoinConfiguration.ControlPlane, p)
	}
}

// isRecorded reports whether it is on record that a cluster was initialised.
func isRecorded(kcp *controlplanev1.KubeadmControlPlane) bool {
	_, noted := kcp.Annotations[controlplanev1.InitializedAnnotation]
	return noted || kcp.Status.Initialization.ControlPlaneInitialized != nil
}
