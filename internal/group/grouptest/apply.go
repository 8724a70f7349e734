// Package grouptest is for tests of what takes turns.
package grouptest

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StatusPatch is for interceptor.Funcs.SubResourcePatch of a fake client: conditions of Machines that are applied are set one by one, as an
// API server does. The fake client knows no list by keys, and would drop all others.
func StatusPatch(
	ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption,
) error {
	if p.Type() != types.ApplyPatchType {
		return c.SubResource(sub).Patch(ctx, o, p, options...)
	}
	raw, err := p.Data(o)
	if err != nil {
		return err
	}
	var applied clusterv1.Machine
	if err := json.Unmarshal(raw, &applied); err != nil {
		return err
	}
	live := &clusterv1.Machine{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
		return err
	}
	after := live.DeepCopy()
	for _, condition := range applied.Status.Conditions {
		conditions.Set(after, condition)
	}
	if err := c.SubResource(sub).Patch(ctx, after, client.MergeFrom(live)); err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(after)
	if u, ok := o.(*unstructured.Unstructured); ok && err == nil {
		u.Object = content
		u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	}
	return err
}
