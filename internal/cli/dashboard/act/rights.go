package act

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/actions"
)

// missing asks the API server which rights the user lacks that orders need: to patch each object, and, for an approval, the verb for which
// admission asks.
func (a *Actor) missing(ctx context.Context, name actions.Name, orders []command.Order) (missing []actions.Right, err error) {
	verbs := []string{"patch"}
	if name == actions.Approve {
		verbs = append(verbs, controlplanev1.ApproveVerb)
	}
	for _, o := range orders {
		kind := o.Object.GroupVersionKind()
		mapping, err := a.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil, fmt.Errorf("looking up the resource of %s: %w", kind.Kind, err)
		}
		for _, verb := range verbs {
			right := actions.Right{Verb: verb, Group: mapping.Resource.Group, Resource: mapping.Resource.Resource,
				Namespace: o.Object.GetNamespace(), Name: o.Object.GetName()}
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: right.Group, Version: mapping.Resource.Version,
					Resource: right.Resource, Namespace: right.Namespace, Name: right.Name},
			}}
			if err := a.client.Create(ctx, review); err != nil {
				return nil, fmt.Errorf("asking for the right to %s: %w", right, err)
			}
			if !review.Status.Allowed {
				missing = append(missing, right)
			}
		}
	}
	return missing, nil
}
