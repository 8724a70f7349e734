package record

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/history"
)

// changedFields are the fields of the spec in which two states of an object differ.
func changedFields(before, after client.Object) []string {
	return history.Changed(specOf(before), specOf(after), equality.Semantic.DeepEqual)
}

// specOf is an object's spec by the names of its fields.
func specOf(o client.Object) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil
	}
	spec, _ := content["spec"].(map[string]any)
	return spec
}
