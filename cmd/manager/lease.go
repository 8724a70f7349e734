package main

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/quorate/quorate/internal/manager"
)

// leaseName is the lease that the leader of all objects holds.
const leaseName = "quorate-manager"

// outside are the characters that a part of a lease's name must not have. A label's value may have them.
var outside = regexp.MustCompile(`[^a-z0-9-]+`)

// leaseOf returns the lease of a shard, which is what a watch filter and a namespace leave of all objects, for the kinds of some providers.
// Shards have a lease each: managers that work on different objects must not wait for one another. Control planes keep the lease that all
// kinds have, even if another manager works on EtcdadmConfigs: two managers must not work on one control plane because they were installed
// in different ways into one namespace.
func leaseOf(providers []string, filter, namespace string) string {
	leaseName := leaseName
	if !slices.Contains(providers, manager.ControlPlaneProvider) {
		leaseName += "." + strings.Join(slices.Concat(providers, []string{"only"}), ".")
	}
	if namespace == "" {
		name := leaseName
		if filter != "" {
			name += "-" + filter
		}
		if len(validation.IsDNS1123Subdomain(name)) == 0 {
			return name
		}
	}
	readable := strings.Trim(outside.ReplaceAllString(strings.ToLower(filter+"-"+namespace), "-"), "-")
	// The hash keeps apart what reads the same: the filter a-b, and the filter a in the namespace b.
	sum := sha256.Sum256([]byte(namespace + "/" + filter))
	return fmt.Sprintf("%s-%s-%x", leaseName, readable, sum[:4])
}
