package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// maxName leaves room in a host name, which has 63 characters at most, for "-worker-" and five more.
const maxName = 63 - len("-worker-xxxxx")

// Check says what is wrong with what was asked for: the flag, its value and
// what is valid. versions are those of Kubernetes that can be had.
func (c Cluster) Check(versions []string) error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	if err := checkKind(c.Kind); err != nil {
		return err
	}
	if err := c.checkNumbers(); err != nil {
		return err
	}
	if c.Eager && c.Kind == ControlPlane {
		return fmt.Errorf("--eager cannot be combined with --kind %s: must be --kind %s, whose bootstrap objects Quorate makes", ControlPlane,
			KubeadmControlPlane)
	}
	if policies := InPlacePolicies(); !slices.Contains(policies, string(c.policy())) {
		return fmt.Errorf("invalid --in-place %q: must be %s", c.policy(), strings.Join(policies, ", "))
	}
	if err := cmp.Or(checkIPFamily(c.IPFamily), c.checkFamilyOfEtcd()); err != nil {
		return err
	}
	if err := cmp.Or(checkVersion("", "--kubernetes-version", c.Version, versions), c.checkBackup()); err != nil {
		return err
	}
	return checkDomains(c.FailureDomains)
}

// checkNumbers returns which number of machines is invalid.
func (c Cluster) checkNumbers() error {
	if err := checkReplicas("", "--replicas", int64(c.Replicas)); err != nil {
		return err
	}
	if err := c.checkEtcd(); err != nil {
		return err
	}
	if c.Workers < 0 {
		return fmt.Errorf("invalid --workers \"%d\": must be 0 or more", c.Workers)
	}
	if c.MaxParallel < 0 {
		return fmt.Errorf("invalid --max-parallel \"%d\": must be 1 or more, or 0 for as many as are missing", c.MaxParallel)
	}
	return nil
}

// policy is InPlace, or its default.
func (c Cluster) policy() controlplanev1.InPlacePolicy {
	return cmp.Or(c.InPlace, controlplanev1.InPlaceNever)
}

// InPlacePolicies are what --in-place can be.
func InPlacePolicies() []string {
	var all []string
	for _, p := range []controlplanev1.InPlacePolicy{
		controlplanev1.InPlaceNever, controlplanev1.InPlacePreferred, controlplanev1.InPlaceOnly, controlplanev1.InPlaceExternal,
	} {
		all = append(all, string(p))
	}
	return all
}

// CheckName says what is wrong with a cluster's name.
func CheckName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("invalid --name %q: must have at most %d characters, because machines are named after the cluster", name, maxName)
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("invalid --name %q: must have lower-case letters, digits and hyphens, with a letter or digit at both ends", name)
	}
	return nil
}

// mostReplicas is how many machines a control plane may have: etcd gains nothing from more.
const mostReplicas = int32(7)

// checkReplicas returns what is wrong with a number of machines in a field; where begins the error: the object that has it.
func checkReplicas(where, field string, n int64) error {
	switch {
	case n < 1 || n > int64(mostReplicas):
		return fmt.Errorf("%sinvalid %s \"%d\": must be 1, 3, 5 or 7", where, field, n)
	case n%2 == 0:
		return fmt.Errorf("%sinvalid %s \"%d\": must be 1, 3, 5 or 7: %d members tolerate no more failures than %d", where, field, n, n, n-1)
	}
	return nil
}

// checkVersion returns what is wrong with a version of Kubernetes in a field; where begins the error: the object that has it.
func checkVersion(where, field, version string, versions []string) error {
	if slices.Contains(versions, version) {
		return nil
	}
	return fmt.Errorf("%sinvalid %s %q: must be %s", where, field, version, strings.Join(versions, " or "))
}

func checkDomains(domains []string) error {
	for i, d := range domains {
		if len(validation.IsDNS1123Label(d)) > 0 {
			return fmt.Errorf("invalid --failure-domains %q: must be names of lower-case letters, digits and hyphens, with commas between them", d)
		}
		if slices.Contains(domains[:i], d) {
			return fmt.Errorf("invalid --failure-domains %q: must have each name once", d)
		}
	}
	return nil
}
