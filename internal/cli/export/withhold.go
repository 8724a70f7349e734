package export

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// fillIn stands where a text was left out: a map, which the API server refuses there.
const fillIn = "fillIn"

// withhold replaces the texts in a control plane's kubeadmConfigSpec that may be secret, and says where each is.
func withhold(o *unstructured.Unstructured) []string {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec", "kubeadmConfigSpec")
	if spec == nil {
		return nil
	}
	var notes []string
	kept := without("spec.kubeadmConfigSpec", spec, func(at string) {
		notes = append(notes, at+" looks as if it held a secret and is left out: put its value there.")
	})
	_ = unstructured.SetNestedField(o.Object, kept, "spec", "kubeadmConfigSpec") // spec is a map
	return notes
}

// without returns a value without the texts that may be secret.
func without(at string, value any, withheld func(at string)) any {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = without(at+"."+name, v[name], withheld)
		}
	case []any:
		for i := range v {
			v[i] = without(fmt.Sprintf("%s[%d]", at, i), v[i], withheld)
		}
	case string:
		if isSecret(at, v) {
			withheld(at)
			return map[string]any{fillIn: "not shown"}
		}
	}
	return value
}

// isSecret reports whether a text may be a secret: a password, and whatever is never shown of a machine's output.
func isSecret(at, text string) bool {
	return strings.HasSuffix(at, ".passwd") || plaintext.Redact(text) != text
}
