package tenant

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/upgrade/runtimeclient"
)

// TestRuntimeExtensionRole: the manager of clusterctl's Runtime Extension provider answers all its hooks with the rights that it is
// shipped with: it finds upgrader images,
// creates a NodeUpgrade, and deletes it when another version is wanted.
func TestRuntimeExtensionRole(t *testing.T) {
	w := newWorld(t, roleIn(t, "../../config/clusterctl/runtime-extension/role.yaml"))
	h := w.hooks(t)
	for _, o := range []string{
		"{apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfig, metadata: {name: node-1, namespace: tenant, annotations: {" +
			clusterv1.UpdateInProgressAnnotation + ": ''}}}",
		strings.NewReplacer("INFRASTRUCTURE", harmlessMachine, "BOOTSTRAP",
			"{configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: NAME-1}}",
			"  labels:", "  annotations: {"+clusterv1.UpdateInProgressAnnotation+": '', "+runtimev1.PendingHooksAnnotation+
				": UpdateMachine}\n  labels:").Replace(machineOf),
	} {
		w.make(t, w.admin, strings.ReplaceAll(o, "NAME", "node"))
	}
	if said := h.canUpdate(t, "v1.36.3"); !strings.Contains(said, "cannot update Machine node-1 in place: no upgrader image for v1.36.3") {
		t.Errorf("without an upgrader image: %s", said)
	}
	w.make(t, w.admin, "{apiVersion: v1, kind: ConfigMap, metadata: {name: quorate-upgrader-images, namespace: tenant}, data: {v1.36.3: "+
		"'a@sha256:b'}}")
	if said := h.canUpdate(t, "v1.36.3"); said != "" {
		t.Errorf("with an upgrader image: %s", said)
	}
	for _, version := range []string{"v1.35.4", "v1.36.3"} {
		machine := w.get(t, "cluster.x-k8s.io/v1beta2", "Machine", own, "node-1")
		must(t, unstructured.SetNestedField(machine.Object, version, "spec", "version"))
		must(t, w.admin.Update(t.Context(), machine))
		w.eventually(t, "a NodeUpgrade to "+version+" alone", func() bool {
			h.update(t, version)
			var all unstructured.UnstructuredList
			all.SetAPIVersion("upgrade.cluster.x-k8s.io/v1alpha1")
			all.SetKind("NodeUpgradeList")
			must(t, w.admin.List(t.Context(), &all, client.InNamespace(own)))
			return len(all.Items) == 1 && fmt.Sprint(all.Items[0].Object["spec"].(map[string]any)["kubernetesVersion"]) == version
		})
	}
	w.judge(t)
}

// hooks calls the hooks of the manager, as Cluster API does.
type hooks struct{ *runtimeclient.Client }

// hooks runs the manager of the Runtime Extension, and returns what calls it.
func (w *world) hooks(t *testing.T) hooks {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	must(t, err)
	dir := t.TempDir()
	must(t, errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), certificate, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), key,
		0o600)))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	must(t, free.Close())
	w.run(t, "--providers=", fmt.Sprintf("--runtime-extension-port=%d", port), "--webhook-cert-dir="+dir)
	caller, err := runtimeclient.New(w.admin)
	must(t, err)
	config := &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "quorate"},
		Spec: runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: fmt.Sprintf("https://127.0.0.1:%d", port),
			CABundle: certificate}},
	}
	w.eventually(t, "the Runtime Extension answers", func() bool {
		discovered, err := caller.Discover(t.Context(), config)
		if err != nil {
			return false
		}
		must(t, caller.WarmUp(&runtimev1.ExtensionConfigList{Items: []runtimev1.ExtensionConfig{*discovered}}))
		return true
	})
	return hooks{caller}
}

// nodeMachine is the Machine that the hooks are called for.
func nodeMachine(version string) clusterv1.Machine {
	return clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "node-1"}, Spec: clusterv1.MachineSpec{Version: version}}
}

// canUpdate asks whether the Machine may be updated to a version, and returns why not; empty: it may.
func (h hooks) canUpdate(t *testing.T, version string) string {
	t.Helper()
	request, response := &runtimehooksv1.CanUpdateMachineRequest{}, &runtimehooksv1.CanUpdateMachineResponse{}
	request.Current.Machine, request.Desired.Machine = nodeMachine("v1.35.4"), nodeMachine(version)
	if err := h.CallExtension(t.Context(), runtimehooksv1.CanUpdateMachine, &request.Desired.Machine, "can-update-machine.quorate", request,
		response); err != nil {
		return err.Error()
	}
	if !response.MachinePatch.IsDefined() {
		return "there is no patch"
	}
	return response.Message
}

// update asks for the update of the Machine to a version, which must not fail.
func (h hooks) update(t *testing.T, version string) {
	t.Helper()
	request := &runtimehooksv1.UpdateMachineRequest{}
	request.Desired.Machine = nodeMachine(version)
	must(t, h.CallExtension(t.Context(), runtimehooksv1.UpdateMachine, &request.Desired.Machine, "update-machine.quorate", request,
		&runtimehooksv1.UpdateMachineResponse{}))
}
