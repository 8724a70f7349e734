package gate

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// subResource guards writes to a part of an object.
type subResource struct {
	client.SubResourceClient
	of *Client
}

// Create implements client.SubResourceClient.
func (s *subResource) Create(ctx context.Context, o, part client.Object, options ...client.SubResourceCreateOption) error {
	if err := s.of.mayWrite(ctx, o); err != nil {
		return err
	}
	return s.SubResourceClient.Create(ctx, o, part, options...)
}

// Update implements client.SubResourceClient.
func (s *subResource) Update(ctx context.Context, o client.Object, options ...client.SubResourceUpdateOption) error {
	if err := s.of.mayWrite(ctx, o); err != nil {
		return err
	}
	return s.SubResourceClient.Update(ctx, o, options...)
}

// Patch implements client.SubResourceClient.
func (s *subResource) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if err := s.of.mayWrite(ctx, o); err != nil {
		return err
	}
	return s.SubResourceClient.Patch(ctx, o, patch, options...)
}

// Apply implements client.SubResourceClient.
func (s *subResource) Apply(ctx context.Context, o runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	if err := s.of.mayApply(ctx, o); err != nil {
		return err
	}
	return s.SubResourceClient.Apply(ctx, o, options...)
}
