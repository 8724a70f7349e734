package observe

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Replacement is what the annotations remediation-in-progress, on a control plane,
// and remediation-for, on the machine that takes another's place, hold. It is
// upstream's form, so that either controller goes on with what the other began.
type Replacement struct {
	Machine   string      `json:"machine"`
	Timestamp metav1.Time `json:"timestamp"`
	Retries   int         `json:"retryCount"`
}

// ReplacementIn reads such an annotation; nil when there is none that can be read.
func ReplacementIn(annotations map[string]string, name string) *Replacement {
	var r Replacement
	if json.Unmarshal([]byte(annotations[name]), &r) != nil || r.Machine == "" {
		return nil
	}
	return &r
}

// String is the form in which an annotation holds it.
func (r Replacement) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	return string(text)
}
