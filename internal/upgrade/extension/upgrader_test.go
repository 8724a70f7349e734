package extension

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// TestNoUpgraderImage: an update in place is accepted only if an image upgrades nodes to the version. Without one it is refused with the
// settings that add it,
// and nothing is replaced instead. Where machines are replaced anyway, or nothing changes on a node, no image is asked for.
func TestNoUpgraderImage(t *testing.T) {
	const missing = " in place: no upgrader image for v1.36.3: set key v1.36.3 of ConfigMap quorate-upgrader-images in namespace team or " +
		"quorate-system, " +
		"or the manager's flag --upgrader-image"
	images := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: upgraders.ConfigMap},
			Data: map[string]string{"v1.36.3": "a@sha256:b"}}
	}
	unreadable := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("forbidden")
	}}
	for name, c := range map[string]struct {
		reader          client.Reader
		flag            string
		annotation      string
		from            string
		bootstrap, file string // of what is wanted of the KubeadmConfig; a file cannot be changed in place
		status          runtimehooksv1.ResponseStatus
		patched         bool
		message         string
	}{
		"none":                    {status: "Failure", message: "cannot update %s" + missing},
		"none, only in place":     {annotation: "Only", status: "Failure", message: "cannot update %s" + missing},
		"none, configuration":     {from: "v1.36.3", bootstrap: "a", status: "Failure", message: "cannot update %s" + missing},
		"none, nothing in place":  {annotation: "Never", status: "Success", message: "policy Never"},
		"none, replaced anyway":   {file: "/a", status: "Success", patched: true, message: "spec.files"},
		"none, nothing changes":   {from: "v1.36.3", status: "Success"},
		"the cluster's namespace": {reader: fake.NewClientBuilder().WithObjects(images("team")).Build(), status: "Success", patched: true},
		"the manager's namespace": {reader: fake.NewClientBuilder().WithObjects(images("quorate-system")).Build(), status: "Success",
			patched: true},
		"the namespace of another": {reader: fake.NewClientBuilder().WithObjects(images("other")).Build(), status: "Failure",
			message: "cannot update %s" + missing},
		"the flag": {flag: "a:%s", status: "Success", patched: true},
		"a ConfigMap not to be read": {reader: fake.NewClientBuilder().WithInterceptorFuncs(unreadable).Build(), flag: "a:%s", status: "Failure",
			message: "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.reader == nil {
				c.reader = fake.NewClientBuilder().Build()
			}
			if c.from == "" {
				c.from = "v1.35.4"
			}
			e := &Extension{Upgraders: &upgraders.Images{Reader: c.reader, Namespace: "quorate-system", Default: c.flag}}
			config := map[string]any{}
			if c.bootstrap != "" {
				config["clusterConfiguration"] = map[string]any{"apiServer": map[string]any{"extraArgs": []any{map[string]any{"name": c.bootstrap,
					"value": ""}}}}
			}
			if c.file != "" {
				config["files"] = []any{map[string]any{"path": c.file}}
			}
			one := &runtimehooksv1.CanUpdateMachineRequest{}
			one.Current.Machine.Spec.Version, one.Desired.Machine.Spec.Version = c.from, "v1.36.3"
			one.Desired.Machine.ObjectMeta = metav1.ObjectMeta{Namespace: "team", Name: "m",
				Annotations: map[string]string{upgradev1.PolicyAnnotation: c.annotation}}
			one.Current.BootstrapConfig, one.Desired.BootstrapConfig = raw(t, "KubeadmConfig", map[string]any{}), raw(t, "KubeadmConfig", config)
			answered := &runtimehooksv1.CanUpdateMachineResponse{}
			e.CanUpdateMachine(t.Context(), one, answered)
			expect(t, answered, c.status, strings.ReplaceAll(c.message, "%s", "Machine m"))
			if answered.MachinePatch.IsDefined() != c.patched {
				t.Errorf("patch %s", answered.MachinePatch.Patch)
			}
			if c.bootstrap != "" {
				return // of workers nothing but the version is changed
			}
			template := func(spec map[string]any) map[string]any {
				return map[string]any{"template": map[string]any{"spec": spec}}
			}
			set := &runtimehooksv1.CanUpdateMachineSetRequest{}
			set.Current.MachineSet.Spec.Template.Spec.Version, set.Desired.MachineSet.Spec.Template.Spec.Version = c.from, "v1.36.3"
			set.Desired.MachineSet.ObjectMeta = metav1.ObjectMeta{Namespace: "team", Name: "s", Annotations: one.Desired.Machine.Annotations}
			set.Current.BootstrapConfigTemplate = raw(t, "KubeadmConfigTemplate", template(map[string]any{}))
			set.Desired.BootstrapConfigTemplate = raw(t, "KubeadmConfigTemplate", template(config))
			all := &runtimehooksv1.CanUpdateMachineSetResponse{}
			e.CanUpdateMachineSet(t.Context(), set, all)
			expect(t, all, c.status, strings.ReplaceAll(c.message, "%s", "MachineSet s"))
			if all.MachineSetPatch.IsDefined() != c.patched {
				t.Errorf("patch of the MachineSet %s", all.MachineSetPatch.Patch)
			}
		})
	}
}
