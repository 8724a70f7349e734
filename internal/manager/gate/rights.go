package gate

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// How long an answer about the manager's rights counts. A right that was granted is noticed after missingFor.
const (
	grantedFor = 5 * time.Minute
	missingFor = 30 * time.Second
	// askTimeout limits one question to the API server.
	askTimeout = 5 * time.Second
)

// needed are the rights without which a cache of a kind never fills.
var needed = []string{"get", "list", "watch"}

// AggregationLabel is the label by which a ClusterRole of a provider adds to the manager's rights: upstream's, so that providers need
// nothing of Quorate's.
const AggregationLabel = "kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager"

// mayWatch returns a *machine.RefusedError that names the rights which the manager lacks to keep a kind in its cache.
func (c *Client) mayWatch(ctx context.Context, gvk schema.GroupVersionKind) error {
	mapping, err := c.mapping(gvk)
	if err != nil {
		return fmt.Errorf("looking for the resource of %s: %w", gvk, err)
	}
	missing, err := c.lacking(ctx, mapping.Resource)
	if err != nil || len(missing) == 0 {
		return err
	}
	return &machine.RefusedError{GroupKind: gvk.GroupKind(), Why: fmt.Sprintf(
		"the manager may not %s %s; grant get, list and watch (for the control plane provider by a ClusterRole with the label %s: \"true\")",
		strings.Join(missing, ", "), mapping.Resource.GroupResource(), AggregationLabel)}
}

// lacking returns the needed rights that are missing. No lock is held while the API server is asked.
func (c *Client) lacking(ctx context.Context, resource schema.GroupVersionResource) ([]string, error) {
	if known, ok := c.missing.get(resource, time.Now()); ok {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	missing, err := c.askRights(ctx, resource)
	if err != nil {
		return nil, fmt.Errorf("asking for the rights on %s: %w", resource.GroupResource(), err)
	}
	counts := grantedFor
	if len(missing) > 0 {
		counts = missingFor
	}
	c.missing.put(resource, missing, time.Now().Add(counts))
	return missing, nil
}

// askRights asks the API server which of the needed rights are missing.
func (c *Client) askRights(ctx context.Context, resource schema.GroupVersionResource) (missing []string, err error) {
	for _, verb := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: c.options.Namespace, Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
			},
		}}
		answer, err := c.options.Reviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !answer.Status.Allowed {
			missing = append(missing, verb)
		}
	}
	return missing, nil
}
