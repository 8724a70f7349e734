package drift

import "strings"

// Updatable reports whether a field of a KubeadmControlPlane's spec, such as spec.kubeadmConfigSpec.clusterConfiguration.imageRepository,
// needs no other machine, whatever is wanted in it.
func Updatable(field string) bool {
	if _, ok := changeOf(Difference{Field: field}); ok {
		return true
	}
	// A rule for an object holds for what is in it.
	for at := len(field); at > 0; at = strings.LastIndex(field[:at], ".") {
		if ruleOf(field[:at]).ignored {
			return true
		}
	}
	return false
}

// CannotUpgrade says why a machine's version cannot be changed to another one in place; empty: it can.
func CannotUpgrade(was, want string) string { return upgrade(Difference{Was: was, Want: want}) }
