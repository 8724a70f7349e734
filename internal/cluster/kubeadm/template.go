package kubeadm

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// TemplateConfiguration is what a KubeadmConfigTemplate says of the cluster and its machines; without one, nothing.
func TemplateConfiguration(template *unstructured.Unstructured) (*bootstrapv1.KubeadmConfigSpec, error) {
	typed := &bootstrapv1.KubeadmConfigTemplate{}
	if template == nil {
		return &typed.Spec.Template.Spec, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template.Object, typed); err != nil {
		return nil, fmt.Errorf("reading KubeadmConfigTemplate %s: %w", template.GetName(), err)
	}
	return &typed.Spec.Template.Spec, nil
}

// EtcdCall is how long kubeadm on a machine that joins tries to reach etcd before it gives up; 0: the spec leaves it to kubeadm.
func EtcdCall(config *bootstrapv1.KubeadmConfigSpec) time.Duration {
	return time.Duration(ptr.Deref(config.JoinConfiguration.Timeouts.EtcdAPICallSeconds, 0)) * time.Second
}
