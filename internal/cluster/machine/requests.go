package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// ParseRequests reads controlplanev1.EtcdRequestsAnnotation: what people asked to be done about the members of etcd. Of a request that is
// there twice the later time holds. The error names the annotation, its value and what is accepted.
func ParseRequests(text string) (plan.Requests, error) {
	var all plan.Requests
	if len(text) > controlplanev1.MaxEtcdRequestsLength {
		return all, fmt.Errorf("the annotation %s has %d bytes, must have at most %d",
			controlplanev1.EtcdRequestsAnnotation, len(text), controlplanev1.MaxEtcdRequestsLength)
	}
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		what, moment, _ := strings.Cut(entry, "=")
		at, err := time.Parse(time.RFC3339, moment)
		verb, on, _ := strings.Cut(what, "/")
		named := len(validation.IsDNS1123Subdomain(on)) == 0
		later := func(of *time.Time) bool {
			if at.After(*of) {
				*of = at.UTC()
				return true
			}
			return false
		}
		switch {
		case err == nil && what == controlplanev1.RequestDefragment:
			later(&all.Defragment)
		case err == nil && what == controlplanev1.RequestDisarm:
			later(&all.Disarm)
		case err == nil && verb == controlplanev1.RequestMoveLeader && named:
			if later(&all.MoveLeader) {
				all.Lead = on
			}
		default:
			return plan.Requests{}, fmt.Errorf("the annotation %s is %q; requests with times are accepted, such as "+
				"%s=2026-11-23T04:05:06Z,%s=2026-11-23T04:05:06Z,%s/demo-cp-2=2026-11-23T04:05:06Z", controlplanev1.EtcdRequestsAnnotation,
				Clean(text, longestQuoted), controlplanev1.RequestDefragment, controlplanev1.RequestDisarm, controlplanev1.RequestMoveLeader)
		}
	}
	return all, nil
}

// FormatRequests writes what ParseRequests reads.
func FormatRequests(r plan.Requests) string {
	var all []string
	add := func(what string, at time.Time) {
		if !at.IsZero() {
			all = append(all, what+"="+at.UTC().Format(time.RFC3339))
		}
	}
	add(controlplanev1.RequestDefragment, r.Defragment)
	add(controlplanev1.RequestDisarm, r.Disarm)
	add(controlplanev1.RequestMoveLeader+"/"+r.Lead, r.MoveLeader)
	slices.Sort(all)
	return strings.Join(all, ",")
}
