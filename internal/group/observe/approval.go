package observe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// NeedsApproval reports whether a person must approve before machines are replaced or changed in place.
func NeedsApproval(given controlplanev1.ApprovalSpec) bool {
	return given.Policy == controlplanev1.ApprovalRequired
}

// revisionLength is how many hexadecimal digits a revision has.
const revisionLength = 12

// withoutRevision are fields of a spec that say nothing of what machines are like.
var withoutRevision = []string{"replicas", "approval", "backup", "powerState", "etcdMaintenance"}

// Revision names what a group's object wants its machines to be, and how they become that: a hash of its spec, but for the number of
// machines, whether they run, whether an approval is needed, backups, and how etcd is tended. What a spec names, such as templates, is
// named again when it changes. With it is hashed which machines people asked to be replaced: who may ask need not be allowed to approve.
func Revision(object Object) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", fmt.Errorf("hashing the spec of %s: %w", object.GetName(), err)
	}
	spec, _ := content["spec"].(map[string]any)
	for _, field := range withoutRevision {
		delete(spec, field)
	}
	if asked := object.GetAnnotations()[controlplanev1.ReplaceAnnotation]; asked != "" && spec != nil {
		spec[controlplanev1.ReplaceAnnotation] = asked
	}
	raw, err := json.Marshal(spec) // sorts the fields
	if err != nil {
		return "", fmt.Errorf("hashing the spec of %s: %w", object.GetName(), err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:revisionLength], nil
}

// addApproval adds which revision of the spec waits for an approval. What cannot be told is not approved.
func (t wants) addApproval() {
	if !NeedsApproval(t.Spec.Approval) {
		return
	}
	revision, err := Revision(t.Object)
	switch approved := t.Object.GetAnnotations()[controlplanev1.ApprovedAnnotation]; {
	case err != nil:
		t.Facts.Group.Unapproved = err.Error()
	case approved != revision:
		t.Facts.Group.Unapproved = revision
	}
}
