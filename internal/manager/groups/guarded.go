package groups

import (
	"fmt"

	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager/gate"
)

// Guarded returns a client of the manager that follows references only where package gate lets it. A turn that waits for a cache to fill
// gives its slot away meanwhile. namespace is the only one that the manager works in; empty: all.
func Guarded(below client.Client, cfg *rest.Config, o client.Options, namespace string) (client.Client, error) {
	informers, is := o.Cache.Reader.(cache.Informers)
	if !is {
		return nil, fmt.Errorf("%T has no informers", o.Cache.Reader)
	}
	reviews, err := authorizationv1.NewForConfigAndClient(cfg, o.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("preparing questions about the manager's rights: %w", err)
	}
	return gate.New(below, gate.Options{
		Informers: informers, Direct: o.Cache.DisableFor, Namespace: namespace, Aside: observe.Aside, Reviews: reviews.SelfSubjectAccessReviews(),
	}), nil
}
