package kubeadm

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
