package kubeadm

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTemplateConfiguration(t *testing.T) {
	t.Parallel()
	if got, err := TemplateConfiguration(nil); err != nil || got.ClusterConfiguration.ImageRepository != "" {
		t.Errorf("without a template: %+v, %v", got, err)
	}
	of := func(spec any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "demo"},
			"spec": map[string]any{"template": map[string]any{"spec": spec}}}}
	}
	got, err := TemplateConfiguration(of(map[string]any{"clusterConfiguration": map[string]any{"imageRepository": "registry.example.com"}}))
	if err != nil || got.ClusterConfiguration.ImageRepository != "registry.example.com" {
		t.Errorf("of a template: %+v, %v", got, err)
	}
	if _, err := TemplateConfiguration(of("a text")); err == nil {
		t.Error("a template of another form is read")
	}
}
