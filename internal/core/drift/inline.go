package drift

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ProviderSpecAnnotation on infrastructure that was made from a value given inline
// says from which one: Wanted.InlineHash at that time. It is an annotation since
// those are kept when a cluster is moved.
const ProviderSpecAnnotation = "controlplane.cluster.x-k8s.io/quorate-provider-spec"

// hashBytes is how many bytes of the SHA-256 sum a hash has.
const hashBytes = 8

// InlineHash identifies the inline value: 16 hexadecimal digits of the SHA-256 sum
// of its group, its kind and its fields as JSON with sorted keys. It does not depend
// on metadata, status and the version of the API. Empty: no value is given.
func (w Wanted) InlineHash() string {
	if w.Inline == nil {
		return ""
	}
	sum := sha256.Sum256(encode([]any{groupKind(w.Inline), fieldsOf(w.Inline)}))
	return fmt.Sprintf("%x", sum[:hashBytes])
}

// compareInline compares infrastructure with the inline value. The annotation
// decides if there is one: what a provider changes in its own object afterwards is
// no difference. Then the object says which fields differ. It cannot do so where a
// field is not given any more, or was changed in both: then the whole value is named.
func (w Wanted) compareInline(m Machine) []Difference {
	if m.Infrastructure == nil {
		return nil
	}
	hash, recorded := m.Infrastructure.GetAnnotations()[ProviderSpecAnnotation]
	if recorded && hash == w.InlineHash() {
		return nil
	}
	if was, want := groupKind(m.Infrastructure), groupKind(w.Inline); was != want {
		return []Difference{{Field: w.Fields.Inline + ".kind", Was: was, Want: want}}
	}
	found := compareGiven(path{field: w.Fields.Inline, foreign: true}, fieldsOf(m.Infrastructure), fieldsOf(w.Inline))
	if recorded && len(found) == 0 {
		return []Difference{{Field: w.Fields.Inline}}
	}
	return found
}

// groupKind returns the Kind.group of an object.
func groupKind(object *unstructured.Unstructured) string {
	return object.GroupVersionKind().GroupKind().String()
}

// fieldsOf returns what of an object makes a machine what it is: most often its
// spec alone. Labels and annotations change in place.
func fieldsOf(object *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(object.Object)
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(fields, name)
	}
	return fields
}

// compareGiven returns the fields of a wanted value that another value does not
// have. Fields that are not given are not compared: the API server and the provider
// fill them in. What is empty is not given. A switch that is off and a 0 need not be
// written: providers leave them out.
func compareGiven(p path, was, want any) []Difference {
	switch string(encode(want)) {
	case "null", `""`, "{}", "[]":
		return nil
	case "false", "0":
		if was == nil {
			return nil
		}
	}
	switch want := want.(type) {
	case map[string]any:
		if has, ok := was.(map[string]any); ok || was == nil {
			return compareGivenFields(p, has, want)
		}
	case []any:
		if has, ok := was.([]any); ok && len(has) == len(want) {
			return compareGivenElements(p, has, want)
		}
	}
	if bytes.Equal(encode(was), encode(want)) {
		return nil
	}
	return []Difference{difference(p.field, redact(p, was), redact(p, want))}
}

func compareGivenFields(p path, was, want map[string]any) []Difference {
	var found []Difference
	for _, name := range slices.Sorted(maps.Keys(want)) {
		found = append(found, compareGiven(p.member(name), was[name], want[name])...)
	}
	return found
}

// compareGivenElements compares lists of one length by position.
func compareGivenElements(p path, was, want []any) []Difference {
	var found []Difference
	for i := range want {
		found = append(found, compareGiven(p.element(strconv.Itoa(i)), was[i], want[i])...)
	}
	return found
}

// foreignSecretWords in the name of a field hide it in an object of a provider,
// beside secretWords: what such an object holds is not known here.
var foreignSecretWords = []string{
	"secret", "key", "auth", "passphrase", "value", "env", "content", "script", "command",
	"userdata", "customdata", "vendordata", "cloudinit", "ignition",
}

// secretText reports whether a value of an object of a provider looks as if it held
// a secret, whatever its field is called: a script, a key, a URL with a password.
func secretText(v any) bool {
	text, ok := v.(string)
	if !ok {
		return false
	}
	_, rest, isURL := strings.Cut(text, "://")
	return isURL && strings.Contains(rest, "@") || strings.Contains(strings.TrimSpace(text), "\n")
}
