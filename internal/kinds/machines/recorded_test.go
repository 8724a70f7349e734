package machines

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/test/releases"
)

// TestRecorded records ControlPlanes at rest, as turns have made them.
func TestRecorded(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.ControlPlane){
		"machines-plain-3": func(*v1alpha1.ControlPlane) {},
		"machines-metadata-3": func(cp *v1alpha1.ControlPlane) {
			cp.Spec.MachineTemplate.ObjectMeta = clusterv1.ObjectMeta{Labels: map[string]string{"team": "a"},
				Annotations: map[string]string{"note": "b"}}
			cp.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(int32(60))
			cp.Spec.MachineTemplate.Spec.Taints = []clusterv1.MachineTaint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule,
				Propagation: clusterv1.MachineTaintPropagationAlways}}
			cp.Spec.EnableAutorepair = ptr.To(false)
		},
		"machines-inline-1": func(cp *v1alpha1.ControlPlane) {
			cp.Spec.Replicas = ptr.To(int32(1))
			cp.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{}
			cp.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1alpha1",` +
				`"kind":"LocalMachine","spec":{"resources":{"cpu":"500m"}}}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cp := testControlPlane()
			if change(cp); releases.DefaultTyped(cp, v1alpha1.GroupVersion.WithKind("ControlPlane")) != nil {
				t.Fatal("the definition does not know what is set here")
			}
			w := newWorld(t, cp)
			w.view.Reachable = true
			for i := range int(*cp.Spec.Replicas) {
				w.settle()
				w.claim(fmt.Sprintf("cp-%d", i+1))
				w.join(fmt.Sprintf("cp-%d", i+1))
			}
			if p := w.settle(); p.Reason != "AsWanted" {
				t.Fatalf("not at rest: %+v", p)
			}
			folder := cmp.Or(os.Getenv(releases.Environment), t.TempDir())
			if err := releases.Record(t.Context(), w.client, folder, name, "internal/kinds/machines "+t.Name()+", in memory",
				client.ObjectKey{Namespace: "default", Name: "demo"}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// claim does what the core controllers do soon after a Machine was made: it owns its infrastructure and its configuration, and has
// bootstrap data.
func (w *world) claim(name string) {
	w.t.Helper()
	m := &clusterv1.Machine{}
	w.get(name, m)
	m.Finalizers, m.Spec.Bootstrap.DataSecretName = []string{clusterv1.MachineFinalizer}, ptr.To(name)
	if err := w.client.Update(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	for _, o := range []client.Object{&infrav1.LocalMachine{}, &bootstrapv1.KubeadmConfig{}} {
		w.get(name, o)
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: m.UID,
			Controller: ptr.To(true)}})
		if err := w.client.Update(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}
