package admission

import (
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// requests are the annotations by which people ask for something that needs no approval, each with the one that says who asked last.
var requests = []struct{ asks, by string }{
	{controlplanev1.ReplaceAnnotation, controlplanev1.ReplaceByAnnotation},
	{controlplanev1.EtcdRequestsAnnotation, controlplanev1.EtcdRequestsByAnnotation},
}

// isRequestRecord reports whether an annotation says who asked for something.
func isRequestRecord(name string) bool {
	return slices.ContainsFunc(requests, func(r struct{ asks, by string }) bool { return r.by == name })
}

// recordRequests puts who asked last, and when, beside each request. Who takes a part of a request away asks for nothing.
func (r *approvalRecorder) recordRequests(before, wanted map[string]string, user authenticationv1.UserInfo) {
	for _, of := range requests {
		switch value := wanted[of.asks]; {
		case value == "":
			continue
		case asksMore(before[of.asks], value):
			wanted[of.by] = r.approval(user)
		case before[of.by] != "":
			wanted[of.by] = before[of.by]
		}
	}
}

// asksMore reports whether a list of requests has one that it did not have before.
func asksMore(before, after string) bool {
	had := strings.Split(before, ",")
	return slices.ContainsFunc(strings.Split(after, ","), func(one string) bool { return !slices.Contains(had, one) })
}
