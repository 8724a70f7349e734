package export

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// fillIn is the key of a map that replaces a text which may be secret. The API server refuses a map in its place.
const fillIn = "fillIn"

var (
	// secretName is the name of a field, a variable, a header or a file that may hold a secret.
	secretName = regexp.MustCompile(`(?i)secret|passw|token|credential|(private|access|api|certificate)[-_.]?key`)
	// secretFile is the path of a file that often holds one, whatever it looks like.
	secretFile = regexp.MustCompile(`(?i)secret|passw|token|credential|encrypt|kubeconfig|/pki/|\.key$|azure\.json|cloud[-_.]?conf|docker`)
	// assigned is a line of a file, or a part of a command, in which something with the name of a secret gets a value.
	assigned = regexp.MustCompile(`(?i)(secret|passw|token|credential|[-_.]?key\b|\bauth\b)[\w.-]*["']?\s*[:=]\s*["']?[^\s"'{[]`)
	// handed is a command that is given a password, or an address with one.
	handed = regexp.MustCompile(`(?i)chpasswd|\bcurl\b.*(\s-u|--user|\bauthorization\b)|://[^/\s:@]+:[^/\s@]+@`)
)

// withhold replaces the texts in a control plane's spec that may be secret, and says where each is. It rather leaves out too much: what no
// rule finds is written, and only a person can tell that it is secret.
func withhold(o *unstructured.Unstructured) []string {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	if spec == nil {
		return nil
	}
	var notes []string
	kept := without("spec", spec, func(at string) {
		notes = append(notes, at+" may be secret and was removed. Set its value.")
	})
	_ = unstructured.SetNestedField(o.Object, kept, "spec") // spec is a map
	return notes
}

// without returns a value without the texts that may be secret.
func without(at string, value any, withheld func(at string)) any {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text, is := v[name].(string); is && isSecret(v, name, text) {
				withheld(at + "." + name)
				v[name] = map[string]any{fillIn: "not shown"}
				continue
			}
			v[name] = without(at+"."+name, v[name], withheld)
		}
	case []any:
		for i := range v {
			v[i] = without(fmt.Sprintf("%s[%d]", at, i), v[i], withheld)
		}
	case string:
		if isSecretText(v) {
			withheld(at)
			return map[string]any{fillIn: "not shown"}
		}
	}
	return value
}

// isSecret reports whether a text in a mapping may be secret: by its name, or by what stands beside it.
func isSecret(in map[string]any, name, text string) bool {
	beside, _ := in["name"].(string)
	return text != "" &&
		(isSecretField(name, text) || name == "value" && isSecretArgument(beside, text) || name == "content" && isSecretFile(in))
}

// isSecretField reports whether a field's name says that its text is secret. A path is none.
func isSecretField(name, text string) bool {
	return secretName.MatchString(name) && !strings.HasPrefix(text, "/")
}

// isSecretArgument reports whether the value of an argument, or of a variable, is secret. Flags name files, kinds and durations of
// tokens and keys: of these only passwords and secrets are values.
func isSecretArgument(name, text string) bool {
	if strings.ToUpper(name) == name { // a variable of the environment
		return isSecretField(name, text)
	}
	lower := strings.ToLower(name)
	return (strings.Contains(lower, "secret") || strings.Contains(lower, "passw")) && !strings.HasPrefix(text, "/")
}

// isSecretFile reports whether the content of a file may be secret: it is encoded, not for everybody to read, or lies where secrets are.
func isSecretFile(file map[string]any) bool {
	path, _ := file["path"].(string)
	encoding, _ := file["encoding"].(string)
	permissions, _ := file["permissions"].(string)
	mode, err := strconv.ParseUint(permissions, 8, 32)
	hidden := permissions != "" && (err != nil || mode&0o004 == 0)
	return encoding != "" || hidden || secretFile.MatchString(path)
}

// isSecretText reports whether a text holds something that may be secret.
func isSecretText(text string) bool {
	return assigned.MatchString(text) || handed.MatchString(text) || plaintext.Redact(text) != text
}
