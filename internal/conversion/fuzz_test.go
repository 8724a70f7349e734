package conversion

import (
	"testing"

	data "sigs.k8s.io/cluster-api/util/conversion"

	"github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdadmv1beta1 "github.com/quorate/quorate/api/bootstrap/v1beta1"
	"github.com/quorate/quorate/api/controlplane/v1beta1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
)

// FuzzAnnotation: whoever may write a control plane may write the annotation in which what v1beta1 has no fields for is
// kept. Whatever is in it is converted or refused; the API server's request never ends the manager.
func FuzzAnnotation(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"annotations":{"a":"b"}},"spec":{"joins":{"maxParallel":1},` +
			`"machineTemplate":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":1}}},` +
			`"kubeadmConfigSpec":{"clusterConfiguration":{"apiServer":{"extraArgs":[{"name":"a","value":"b"}]}},"files":[{"path":"/a"}],` +
			`"users":[{"name":"a"}],"ntp":{"enabled":true}},"replicas":3,"rollout":{"strategy":{"rollingUpdate":{"maxSurge":"1"}}}},` +
			`"status":{"plan":{"step":"x"},"conditions":[{"type":"a"}],"initialization":{"controlPlaneInitialized":true}}}`,
		`{"spec":{"managedExternalEtcdRef":{"apiGroup":"etcdcluster.cluster.x-k8s.io","kind":"EtcdCluster","name":"a"}}}`,
		`{"spec":{"managedExternalEtcdRef":""}}`,
		`{}`, `null`, `[]`, `"`, ``, `{"spec":null,"status":{"conditions":[null]}}`, `{"spec":{"replicas":99999999999999999999}}`,
		`{"spec":{"template":{"spec":{"joins":{},"kubeadmConfigSpec":null}}}}`,
		`{"spec":{"kubeadmConfigSpec":{"clusterConfiguration":{"etcd":{"external":{}}}}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		old := &v1beta1.KubeadmControlPlane{}
		old.Annotations = map[string]string{data.DataAnnotation: text}
		now := &v1beta2.KubeadmControlPlane{}
		if err := controlPlaneFromOld(t.Context(), old, now); err == nil {
			if err := controlPlaneToOld(t.Context(), now, &v1beta1.KubeadmControlPlane{}); err != nil {
				t.Errorf("what was made of %q has no way back: %v", text, err)
			}
		}
		if old.Annotations[data.DataAnnotation] != text {
			t.Errorf("the annotation %q was changed where it was read", text)
		}
		template := &v1beta1.KubeadmControlPlaneTemplate{}
		template.Annotations = map[string]string{data.DataAnnotation: text}
		made := &v1beta2.KubeadmControlPlaneTemplate{}
		if err := templateFromOld(t.Context(), template, made); err == nil {
			if err := templateToOld(t.Context(), made, &v1beta1.KubeadmControlPlaneTemplate{}); err != nil {
				t.Errorf("the template that was made of %q has no way back: %v", text, err)
			}
		}
	})
}

// FuzzEtcdadmAnnotation: the annotations of EtcdadmConfigs likewise.
func FuzzEtcdadmAnnotation(f *testing.F) {
	for _, seed := range []string{
		`{"etcdadmBuiltin":true,"etcdadmInstallCommands":["a"],"format":"bottlerocket","bottlerocketConfig":{"pauseImage":"a"},` +
			`"cipherSuites":"a"}`,
		`{"etcdadmArgs":{"install-dir":"/a","log-level":"b"},"notAppended":["/a"],"conditions":[{"type":"a"}],"ready":false}`,
		`{}`, `null`, `[]`, `"`, ``, `{"conditions":[null],"dataSecretCreated":null}`, `{"observedGeneration":99999999999999999999}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		old := &etcdadmv1beta1.EtcdadmConfig{}
		old.Annotations = map[string]string{etcdadmv1beta1.NewerAnnotation: text}
		now := &v1alpha1.EtcdadmConfig{}
		if err := etcdadmConfigFromOld(t.Context(), old, now); err == nil {
			if err := etcdadmConfigToOld(t.Context(), now, &etcdadmv1beta1.EtcdadmConfig{}); err != nil {
				t.Errorf("what was made of %q has no way back: %v", text, err)
			}
		}
		now = &v1alpha1.EtcdadmConfig{}
		now.Annotations = map[string]string{etcdadmv1beta1.KeptAnnotation: text}
		made := &etcdadmv1beta1.EtcdadmConfig{}
		if err := etcdadmConfigToOld(t.Context(), now, made); err == nil {
			if err := etcdadmConfigFromOld(t.Context(), made, &v1alpha1.EtcdadmConfig{}); err != nil {
				t.Errorf("what was made of %q has no way forth: %v", text, err)
			}
		}
	})
}
