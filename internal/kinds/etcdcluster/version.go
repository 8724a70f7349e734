package etcdcluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/group/observe"
)

// DefaultVersion is the version of etcd where spec.version says none.
const DefaultVersion = "3.6.16"

// last35 is the first patch of etcd 3.5 whose members can be beside those of 3.6: of older ones 3.6 takes voters for learners, and loses
// their names. Source: measured with 3.5.16 and 3.6.16; etcd's changelog names 3.5.26.
var last35 = version.Version{Major: 3, Minor: 5, Patch: 26}

// Version is the version of etcd that is wanted, with a leading v.
func Version(e *v1alpha1.EtcdCluster) string { return written(e.Spec.Version) }

// versionOf is the version that a machine was made with, with a leading v.
func versionOf(config *bootstrapv1alpha1.EtcdadmConfig) string { return written(config.Spec.Version) }

// written is a version as it is written here; where none is said, the default.
func written(version string) string {
	return "v" + strings.TrimPrefix(cmp.Or(version, DefaultVersion), "v")
}

// versions are those that the members were made with, the oldest first.
func versions(t *observe.View) []version.Version {
	var found []version.Version
	for _, m := range t.Machines {
		config, _ := m.Bootstrap.(*bootstrapv1alpha1.EtcdadmConfig)
		if config == nil {
			continue
		}
		if v, err := version.Parse(versionOf(config)); err == nil {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, version.Compare)
	return found
}

// leap says why members of a wanted version cannot take the place of those that are there, the oldest first; empty: they can. etcd goes
// one minor version at a time, up and back.
func leap(want string, members []version.Version) string {
	to, err := version.Parse(want)
	switch {
	case err != nil:
		return err.Error()
	case version.CompareMinor(to, last35) < 0:
		return fmt.Sprintf("%s must be a version of etcd from v%d.%d on", want, last35.Major, last35.Minor)
	case len(members) == 0:
		return ""
	}
	return leapFrom(members[0], members[len(members)-1], to)
}

// leapFrom says why members of a version cannot take the place of those from the oldest to the newest; empty: they can.
func leapFrom(oldest, newest, want version.Version) string {
	switch {
	case skips(oldest, want):
		return skipped(want, oldest, oldest.Minor+1)
	case skips(want, newest):
		return skipped(want, newest, newest.Minor-1)
	case version.CompareMinor(want, newest) < 0 && isEarly35(want):
		return fmt.Sprintf("%s must be %s or later of 3.5: a member has %s, and 3.6 treats voters of that version as learners", want, last35,
			newest)
	case version.CompareMinor(want, oldest) > 0 && isEarly35(oldest):
		return fmt.Sprintf("%s must be %s or later of 3.5 first: a member has %s, and 3.6 treats voters of that version as learners", want,
			last35, oldest)
	}
	return ""
}

// skipped says that a wanted version is more than one minor version from a member's, and which minor version can be next.
func skipped(want, has version.Version, next int) string {
	return fmt.Sprintf("%s must be v%d.%d: a member has %s, and etcd changes by one minor version at a time", want, has.Major, next, has)
}

// skips reports whether a version is more than one minor version above another, or of another major one.
func skips(from, to version.Version) bool { return to.Major != from.Major || to.Minor > from.Minor+1 }

// isEarly35 reports whether a version is one of 3.5 whose members cannot be beside those of 3.6.
func isEarly35(v version.Version) bool {
	return version.CompareMinor(v, last35) == 0 && version.Compare(v, last35) < 0
}
