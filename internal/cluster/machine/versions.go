package machine

import (
	"cmp"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/version"
)

// Versions counts the machines by version, the oldest version first.
func Versions(machines []*clusterv1.Machine) []clusterv1.StatusVersion {
	count := map[string]int32{}
	for _, m := range machines {
		if m.Spec.Version != "" {
			count[m.Spec.Version]++
		}
	}
	var list []clusterv1.StatusVersion
	for v, n := range count {
		list = append(list, clusterv1.StatusVersion{Version: v, Replicas: n})
	}
	slices.SortFunc(list, func(a, b clusterv1.StatusVersion) int {
		x, _ := version.Parse(a.Version)
		y, _ := version.Parse(b.Version)
		return cmp.Or(version.Compare(x, y), cmp.Compare(a.Version, b.Version))
	})
	return list
}

// Leap says why the machines cannot be brought to the wanted version; empty: they can.
// One minor version at a time, and back only to where some of them still are.
func Leap(want string, machines []*clusterv1.Machine) string {
	to, err := version.Parse(want)
	if err != nil || len(machines) == 0 {
		return ""
	}
	var oldest version.Version
	for i, m := range machines {
		v, err := version.Parse(m.Spec.Version)
		if err != nil {
			return ""
		}
		if i == 0 || version.CompareMinor(v, oldest) < 0 {
			oldest = v
		}
	}
	switch {
	case version.CompareMinor(to, oldest) < 0:
		return fmt.Sprintf("invalid spec.version %q: must be v%d.%d or later, because no machine is older", want, oldest.Major, oldest.Minor)
	case to.Major != oldest.Major || to.Minor > oldest.Minor+1:
		return fmt.Sprintf("invalid spec.version %q: must be v%d.%d, one minor version above the oldest machine's v%d.%d", want, oldest.Major,
			oldest.Minor+1, oldest.Major, oldest.Minor)
	}
	return ""
}

// TooFar says why a machine's version cannot become the wanted one; empty: it can. A
// Machine that names no version leaves it to the controller that made it.
func TooFar(want, has string) string {
	if has == "" {
		return ""
	}
	to, wrong := version.Parse(want)
	if wrong != nil {
		return "spec.version of its control plane is none: " + wrong.Error()
	}
	from, err := version.Parse(has)
	switch {
	case err != nil:
		return err.Error()
	case from.Major != to.Major || from.Minor < to.Minor-1 || from.Minor > to.Minor+1:
		return fmt.Sprintf("its version is %s, more than one minor version from %s", has, want)
	}
	return ""
}

// CheckVersion returns what is wrong with a version of Kubernetes; nil: nothing.
func CheckVersion(text string) error {
	_, err := version.Parse(text)
	return err
}

// OtherMinor reports whether two versions may be of different minor versions. What cannot be read may be any.
func OtherMinor(was, want string) bool {
	a, wrongA := version.Parse(was)
	b, wrongB := version.Parse(want)
	return wrongA != nil || wrongB != nil || version.CompareMinor(a, b) != 0
}
