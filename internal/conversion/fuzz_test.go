package conversion

import (
	"testing"

	data "sigs.k8s.io/cluster-api/util/conversion"

	"github.com/quorate/quorate/api/controlplane/v1beta1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
)

// FuzzAnnotation: whoever may write a control plane may write the annotation in which what v1beta1 has no fields for is
// kept. Whatever is in it is converted or refused; the API server's request never ends the manager.
func FuzzAnnotation(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"annotations":{"a":"b"}},"spec":{"joins":{"maxParallel":1},"machineTemplate":{"spec":{"deletion":{"nodeDrainTimeoutSeconds":1}}},"kubeadmConfigSpec":{"clusterConfiguration":{"apiServer":{"extraArgs":[{"name":"a","value":"b"}]}},"files":[{"path":"/a"}],"users":[{"name":"a"}],"ntp":{"enabled":true}},"replicas":3,"rollout":{"strategy":{"rollingUpdate":{"maxSurge":"1"}}}},"status":{"plan":{"step":"x"},"conditions":[{"type":"a"}],"initialization":{"controlPlaneInitialized":true}}}`,
		`{"spec":{"managedExternalEtcdRef":{"apiGroup":"etcdcluster.cluster.x-k8s.io","kind":"EtcdCluster","name":"a"}}}`, `{"spec":{"managedExternalEtcdRef":""}}`,
		`{}`, `null`, `[]`, `"`, ``, `{"spec":null,"status":{"conditions":[null]}}`, `{"spec":{"replicas":99999999999999999999}}`,
		`{"spec":{"template":{"spec":{"joins":{},"kubeadmConfigSpec":null}}}}`, `{"spec":{"kubeadmConfigSpec":{"clusterConfiguration":{"etcd":{"external":{}}}}}}`,
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
