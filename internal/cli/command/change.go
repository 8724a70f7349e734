package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Change is a change of one object that a person asks for.
type Change struct {
	// Object is what is applied, or, with a Patch, what that changes. It is afterwards as the API server has it.
	Object *unstructured.Unstructured
	// Patch is a merge patch; nil: the whole object is applied.
	Patch map[string]any
	// Manager owns the fields that it sets.
	Manager string
}

// Try asks the API server what the change would make of the object, and writes nothing. What it refuses is a usage error. A kind that it
// does not know is an error for which meta.IsNoMatchError holds.
func (c Change) Try(ctx context.Context, to client.Client) error { return c.send(ctx, to, true) }

// Write carries the change out.
func (c Change) Write(ctx context.Context, to client.Client) error {
	err := c.send(ctx, to, false)
	if meta.IsNoMatchError(err) {
		return Usagef("%s %s: %w", c.Object.GetKind(), c.Object.GetName(), err)
	}
	return err
}

func (c Change) send(ctx context.Context, to client.Client, trial bool) error {
	if c.Patch == nil {
		return c.apply(ctx, to, trial)
	}
	raw, err := json.Marshal(c.Patch)
	if err != nil {
		return fmt.Errorf("changing %s %s: %w", c.Object.GetKind(), c.Object.GetName(), err)
	}
	options := []client.PatchOption{client.FieldOwner(c.Manager)}
	if trial {
		options = append(options, client.DryRunAll)
	}
	return c.refusal(to.Patch(ctx, c.Object, client.RawPatch(types.MergePatchType, raw), options...))
}

func (c Change) apply(ctx context.Context, to client.Client, trial bool) error {
	namespaced, err := to.IsObjectNamespaced(c.Object)
	switch {
	case meta.IsNoMatchError(err):
		return err
	case err != nil:
		return fmt.Errorf("looking up the kind %s: %w", c.Object.GetKind(), err)
	}
	if namespaced && c.Object.GetNamespace() == "" {
		c.Object.SetNamespace("default")
	}
	options := []client.ApplyOption{client.FieldOwner(c.Manager), client.ForceOwnership}
	if trial {
		options = append(options, client.DryRunAll)
	}
	return c.refusal(to.Apply(ctx, client.ApplyConfigurationFromUnstructured(c.Object), options...))
}

// refusal tells what the management plane refuses, which is the user's, from what fails.
func (c Change) refusal(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsConflict(err):
		return Usage(&refused{text: fmt.Sprintf("%s %s: %s", c.Object.GetKind(), c.Object.GetName(), reasons(err)), err: err})
	}
	return fmt.Errorf("applying %s %s: %w", c.Object.GetKind(), c.Object.GetName(), err)
}

// refused is what the management plane refuses, in short. It wraps the answer, which says of what kind it is.
type refused struct {
	text string
	err  error
}

// Error is the short text.
func (r *refused) Error() string { return r.text }

// Unwrap is the answer.
func (r *refused) Unwrap() error { return r.err }

// reasons are the causes in the server's answer, which is long-winded otherwise.
func reasons(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return err.Error()
	}
	var parts []string
	for _, c := range status.Status().Details.Causes {
		part := c.Message
		if c.Field != "" {
			part = c.Field + ": " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
