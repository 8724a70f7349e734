package main

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// leaseName is the lease that the leader of all objects holds.
const leaseName = "quorate-manager"

// outside are the characters that a part of a lease's name must not have. A label's value may have them.
var outside = regexp.MustCompile(`[^a-z0-9-]+`)

// leaseOf returns the lease of a shard, which is what a watch filter and a namespace leave of all objects. Shards have a
// lease each: managers that work on different objects must not wait for one another.
func leaseOf(filter, namespace string) string {
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
