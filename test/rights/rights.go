// Package rights compares what a user asked an API server for, as its audit log tells, with what a role grants. A grant
// that nothing uses is a risk for nothing, and a request that no grant covers will fail elsewhere. It knows audit events
// and roles, and nothing of who the user is or where the log comes from.
package rights

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Right is a verb on a resource of an API group. In a grant, resource, group and verb may be "*". A subresource is a part
// of the resource: "machines/status".
type Right struct {
	Verb, Group, Resource string
}

// String returns the right as people write it: "patch machines/status.cluster.x-k8s.io".
func (r Right) String() string {
	if r.Group == "" {
		return r.Verb + " " + r.Resource
	}
	return r.Verb + " " + r.Resource + "." + r.Group
}

// everybodys is the API group in which every user may ask for their own rights, by a role that every API server has.
const everybodys = "authorization.k8s.io"

// Read returns the rights that a user's requests in an audit log need, whether they were granted or not, each with the
// number of its events. Requests for no resource, such as discovery, need none. A last line without an end is still being written.
func Read(log io.Reader, user string) (map[Right]int, error) {
	needed := map[Right]int{}
	lines := bufio.NewReader(log)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return needed, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading line %d of the audit log: %w", n, err)
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("reading line %d of the audit log: %w", n, err)
		}
		// A watch is told when it begins, and again when it ends.
		if event.User.Username == user && event.ObjectRef != nil && event.ObjectRef.APIGroup != everybodys {
			needed[rightOf(&event)]++
		}
	}
}

func rightOf(e *auditv1.Event) Right {
	r := Right{Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource}
	if e.ObjectRef.Subresource != "" {
		r.Resource += "/" + e.ObjectRef.Subresource
	}
	return r
}

// Compare returns the grants of a role that no right needed, and the needed rights that no grant covers, each sorted.
// Names of objects in a grant are not looked at.
func Compare(role *rbacv1.ClusterRole, needed map[Right]int) (unused, missing []Right) {
	granted := grants(role)
	used := map[Right]bool{}
	for need := range needed {
		covered := false
		for _, g := range granted {
			if covers(g, need) {
				used[g], covered = true, true
			}
		}
		if !covered {
			missing = append(missing, need)
		}
	}
	for _, g := range granted {
		if !used[g] {
			unused = append(unused, g)
		}
	}
	return sorted(unused), sorted(missing)
}

// grants are all that a role grants, one verb on one resource each.
func grants(role *rbacv1.ClusterRole) []Right {
	var all []Right
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, Right{Verb: verb, Group: group, Resource: resource})
				}
			}
		}
	}
	return all
}

// covers reports whether a grant is enough for what is needed.
func covers(grant, need Right) bool {
	matches := func(granted, needed string) bool { return granted == rbacv1.VerbAll || granted == needed }
	_, subresource, _ := strings.Cut(need.Resource, "/")
	return matches(grant.Verb, need.Verb) && matches(grant.Group, need.Group) &&
		(matches(grant.Resource, need.Resource) || subresource != "" && grant.Resource == "*/"+subresource)
}

func sorted(rights []Right) []Right {
	slices.SortFunc(rights, func(a, b Right) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
	return slices.Compact(rights)
}
