package upgradepod

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// What outlives the status of a NodeUpgrade, in its annotations. They name the spec that they are about, as people copy objects with all
// their annotations.

// specHash identifies what a NodeUpgrade is to do.
func specHash(u *upgradev1.NodeUpgrade) string {
	raw, err := json.Marshal(u.Spec)
	if err != nil {
		return "" // it has nothing that JSON could not hold
	}
	sum := sha256.Sum256(raw)
	return fmt.Sprintf("%x", sum[:6])
}

// begun is by what the node knows an upgrade that was begun, as BegunAnnotation says; false: none of this spec was.
func begun(u *upgradev1.NodeUpgrade) (string, bool) {
	id, spec, _ := strings.Cut(u.Annotations[upgradev1.BegunAnnotation], ".")
	return id, id != "" && spec == specHash(u)
}

func hasBegun(u *upgradev1.NodeUpgrade) bool {
	_, is := begun(u)
	return is
}

// isDone reports whether the annotations say that an upgrade was completed.
func isDone(u *upgradev1.NodeUpgrade) bool {
	_, recorded := u.Annotations[upgradev1.RecordedAnnotation]
	return recorded || u.Annotations[upgradev1.CompletedAnnotation] == specHash(u)
}

// ID is by what a node knows an upgrade: its first UID. In another management cluster it has another one.
func ID(u *upgradev1.NodeUpgrade) string {
	if id, is := begun(u); is {
		return id
	}
	return string(u.UID)
}

// MarkBegun notes in a NodeUpgrade that it begins, and reports whether that is new.
func MarkBegun(u *upgradev1.NodeUpgrade) bool {
	if hasBegun(u) {
		return false
	}
	metav1.SetMetaDataAnnotation(&u.ObjectMeta, upgradev1.BegunAnnotation, string(u.UID)+"."+specHash(u))
	return true
}

// MarkCompleted notes in a NodeUpgrade that it is done.
func MarkCompleted(u *upgradev1.NodeUpgrade) {
	metav1.SetMetaDataAnnotation(&u.ObjectMeta, upgradev1.CompletedAnnotation, specHash(u))
}
