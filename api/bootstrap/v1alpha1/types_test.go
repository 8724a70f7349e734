package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
)

var _ conditions.Setter = &EtcdadmConfig{}

// TestScheme: all kinds are registered.
func TestScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"EtcdadmConfig", "EtcdadmConfigList", "EtcdadmConfigTemplate", "EtcdadmConfigTemplateList"} {
		if !s.Recognizes(GroupVersion.WithKind(kind)) {
			t.Errorf("%s is not registered", kind)
		}
	}
}
