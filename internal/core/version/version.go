// Package version compares versions of Kubernetes. It knows what they look like
// and from which one on kubeadm behaves in a certain way; it does not know which
// versions exist or can be had.
package version

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is a version of Kubernetes: v1.36.3 is {1, 36, 3, ""}.
type Version struct {
	Major, Minor, Patch int
	// Pre is what follows a hyphen: alpha.1 in v1.37.0-alpha.1. Empty: a release.
	Pre string
}

// Parse reads a version like v1.36.3; the v may be missing, and build metadata
// after a plus sign is dropped.
func Parse(s string) (Version, error) {
	core, _, _ := strings.Cut(strings.TrimPrefix(s, "v"), "+")
	core, pre, hyphen := strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	bad := fmt.Errorf("version %q is not one like v1.36.3", s)
	if len(parts) != 3 || hyphen && pre == "" {
		return Version{}, bad
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return Version{}, bad
		}
		n[i] = int(v)
	}
	return Version{Major: n[0], Minor: n[1], Patch: n[2], Pre: pre}, nil
}

// String writes the version with its v.
func (v Version) String() string {
	s := fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Pre != "" {
		s += "-" + v.Pre
	}
	return s
}

// CompareMinor returns -1, 0 or 1 as a's major and minor are before, those of or after b's.
func CompareMinor(a, b Version) int {
	return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
}

// Compare returns -1, 0 or 1 as a is before, the same as or after b, in the order of semver.org.
func Compare(a, b Version) int {
	return cmp.Or(CompareMinor(a, b), cmp.Compare(a.Patch, b.Patch), comparePre(a.Pre, b.Pre))
}

// Learners reports whether kubeadm of this version joins etcd as a learner
// unless told otherwise: v1.29 and later.
func (v Version) Learners() bool {
	return CompareMinor(v, Version{Major: 1, Minor: 29}) >= 0
}

// VerifiesPulls reports whether the kubelet of this version asks, unless told otherwise, whether a pod may use an image that
// was pulled for another: v1.35 and later (feature gate KubeletEnsureSecretPulledImages).
func (v Version) VerifiesPulls() bool {
	return CompareMinor(v, Version{Major: 1, Minor: 35}) >= 0
}

// preRelease is what follows the hyphen in a version that comes before a release: alpha.1, beta.0, rc.2.
var preRelease = regexp.MustCompile(`^(alpha|beta|rc)(\.|$)`)

// eksRelease and eksCommit are suffixes of EKS-D: its images have the tag v1.36.3-eks-1-36-5, and their programs say v1.36.3-eks-b9c9ed7.
var (
	eksRelease = regexp.MustCompile(`^-eks-[0-9]+-[0-9]+-[0-9]+$`)
	eksCommit  = regexp.MustCompile(`^-eks-[0-9a-f]{7,40}$`)
)

// Release returns the version without what a distribution adds to it: v1.36.3 of v1.36.3-eks-1-36-5. A pre-release stays one.
func (v Version) Release() Version {
	if !preRelease.MatchString(v.Pre) {
		v.Pre = ""
	}
	return v
}

// IsBuildOf reports whether what a component says of itself is a version, or a build of it with a suffix. v1.36.3-eks-1
// and v1.36.3+k3s1 are such builds. A version that itself has the suffix of a distribution is met by exactly that one; of EKS-D, whose
// programs name a commit and not the release, by any build.
func IsBuildOf(said, version string) bool {
	if said == version {
		return true
	}
	core, suffix := cutSuffix(version)
	saidCore, saidSuffix := cutSuffix(said)
	switch {
	case core != saidCore || core == "":
		return false
	case suffix == "":
		return !preRelease.MatchString(strings.TrimPrefix(saidSuffix, "-"))
	}
	return eksRelease.MatchString(suffix) && eksCommit.MatchString(saidSuffix)
}

// cutSuffix cuts what follows the three numbers of a version.
func cutSuffix(version string) (core, suffix string) {
	if at := strings.IndexAny(version, "-+"); at >= 0 {
		return version[:at], version[at:]
	}
	return version, ""
}

// comparePre orders what follows the hyphen: a release comes after all that
// lead to it, numbers are compared as numbers and come before words. Distributions
// separate numbers by hyphens too: eks-1-36-9 comes before eks-1-36-10.
func comparePre(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	as, bs := identifiers(a), identifiers(b)
	for i := range min(len(as), len(bs)) {
		if c := compareIdentifier(as[i], bs[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}

// identifiers are the parts of what follows the hyphen.
func identifiers(pre string) []string {
	if !preRelease.MatchString(pre) {
		pre = strings.ReplaceAll(pre, "-", ".")
	}
	return strings.Split(pre, ".")
}

func compareIdentifier(a, b string) int {
	an, aErr := strconv.ParseUint(a, 10, 64)
	bn, bErr := strconv.ParseUint(b, 10, 64)
	switch {
	case aErr == nil && bErr == nil:
		return cmp.Compare(an, bn)
	case aErr == nil:
		return -1
	case bErr == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
