package machines

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/upgrade/updatehooks"
)

// TestExtension: a Runtime Extension of somebody else changes the infrastructure of a ControlPlane's machine, which is marked for Cluster
// API as its bootstrap object is.
func TestExtension(t *testing.T) {
	w := grown(t)
	larger := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "larger"}}
	larger.Spec.Template.Spec.Resources.Memory = ptr.To(resource.MustParse("2Gi"))
	server := httptest.NewTLSServer(http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
		response := runtimehooksv1.CanUpdateMachineResponse{CommonResponse: runtimehooksv1.CommonResponse{
			Status: runtimehooksv1.ResponseStatusSuccess}}
		response.InfrastructureMachinePatch = runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType,
			Patch: []byte(`{"spec":{"resources":{"memory":"2Gi"}}}`)}
		_ = json.NewEncoder(to).Encode(response)
	}))
	t.Cleanup(server.Close)
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "metal"}}
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: server.URL,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	for i, hook := range []string{"CanUpdateMachine", "UpdateMachine"} {
		config.Status.Handlers = append(config.Status.Handlers, runtimev1.ExtensionHandler{
			Name: fmt.Sprintf("h%d.metal", i), RequestHook: runtimev1.GroupVersionHook{APIVersion: runtimehooksv1.GroupVersion.String(), Hook: hook},
		})
	}
	if err := w.client.Create(t.Context(), larger); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	before := w.machines()
	w.change(func(cp *v1alpha1.ControlPlane) {
		cp.Spec.InPlace = v1beta2.InPlaceSpec{Policy: v1beta2.InPlaceOnly, Updater: v1beta2.UpdaterExtension}
		cp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "larger"
	})
	p := w.settle()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && p.Reason != "UpdatingInPlace"; p = w.settle() {
	}
	marked := 0
	for _, name := range w.machines() {
		m, bootstrap, local := &clusterv1.Machine{}, &bootstrapv1.KubeadmConfig{}, &infrav1.LocalMachine{}
		w.get(name, m)
		w.get(name, bootstrap)
		w.get(name, local)
		if !updatehooks.IsPending(m) {
			continue
		}
		marked++
		if !updatehooks.IsMarked(m) || !updatehooks.IsMarked(bootstrap) || !updatehooks.IsMarked(local) || local.Spec.Resources.Memory == nil {
			t.Errorf("%s: %v, %v, %v, %+v", name, m.Annotations, bootstrap.Annotations, local.Annotations, local.Spec)
		}
	}
	if p.Reason != "UpdatingInPlace" || marked != 1 || !slices.Equal(w.machines(), before) {
		t.Errorf("%+v, %d machines are marked, there are %v", p, marked, w.machines())
	}
}
