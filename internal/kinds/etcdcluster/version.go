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
		return fmt.Sprintf("it is %s: a version of etcd from v%d.%d on would be accepted", want, last35.Major, last35.Minor)
	case len(members) == 0:
		return ""
	}
	return leapFrom(members[0], members[len(members)-1], to)
}

// leapFrom says why members of a version cannot take the place of those from the oldest to the newest; empty: they can.
func leapFrom(oldest, newest, want version.Version) string {
	switch {
	case skips(oldest, want):
		return fmt.Sprintf("it is %s, and a member has %s: one minor version at a time, v%d.%d would be accepted", want, oldest, oldest.Major, oldest.Minor+1)
	case skips(want, newest):
		return fmt.Sprintf("it is %s, and a member has %s: one minor version at a time, v%d.%d would be accepted", want, newest, newest.Major, newest.Minor-1)
	case version.CompareMinor(want, newest) < 0 && isEarly35(want):
		return fmt.Sprintf("it is %s, and a member has %s: 3.6 takes the voters of that version for learners; %s or later of 3.5 would be accepted", want, newest, last35)
	case version.CompareMinor(want, oldest) > 0 && isEarly35(oldest):
		return fmt.Sprintf("it is %s, and a member has %s: 3.6 takes the voters of that version for learners; %s or later of 3.5 first would be accepted", want, oldest, last35)
	}
	return ""
}

// skips reports whether a version is more than one minor version above another, or of another major one.
func skips(from, to version.Version) bool { return to.Major != from.Major || to.Minor > from.Minor+1 }

// isEarly35 reports whether a version is one of 3.5 whose members cannot be beside those of 3.6.
func isEarly35(v version.Version) bool {
	return version.CompareMinor(v, last35) == 0 && version.Compare(v, last35) < 0
}
