package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/manifest"
)

// fieldManager owns the fields that `quorate up` writes.
const fieldManager = "quorate-up"

// todo is what must be asked of the management plane for what is wanted to be
// there. It changes nothing; what is wrong with what is wanted is a usage error.
func (b *bringUp) todo(ctx context.Context, c client.Client) ([]manifest.Step, error) {
	if b.objects != nil {
		return b.todoFiles(ctx, c)
	}
	all, err := b.cluster.All()
	if err != nil {
		return nil, err
	}
	var existing []*unstructured.Unstructured
	for _, o := range all {
		found, err := get(ctx, c, o.GroupVersionKind(), client.ObjectKeyFromObject(o))
		if err != nil {
			return nil, err
		}
		if found != nil {
			existing = append(existing, found)
		}
	}
	steps, err := b.cluster.Steps(existing, b.given)
	return steps, command.Usage(err)
}

// todoFiles applies the user's objects, once it is known that whatever they refer to is there.
func (b *bringUp) todoFiles(ctx context.Context, c client.Client) ([]manifest.Step, error) {
	var failed error
	exists := func(r manifest.Reference) (there bool, err error) {
		there, err = exists(ctx, c, r)
		failed = errors.Join(failed, err)
		return there, err
	}
	if err := manifest.CheckObjects(b.objects, b.accepted(), exists); err != nil {
		if failed != nil {
			return nil, err // nobody knows yet whether the objects are good
		}
		return nil, command.Usage(err)
	}
	steps := make([]manifest.Step, 0, len(b.objects))
	for _, o := range b.objects {
		steps = append(steps, manifest.Step{What: o.GetKind() + " " + o.GetName() + " is applied", Object: o})
	}
	return steps, nil
}

// exists says whether an object that another refers to is there.
func exists(ctx context.Context, c client.Client, r manifest.Reference) (bool, error) {
	mapping, err := c.RESTMapper().RESTMapping(r.GroupKind)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	found, err := get(ctx, c, mapping.GroupVersionKind, r.ObjectKey)
	return found != nil, err
}

// get reads an object of any kind; nil when there is none.
func get(ctx context.Context, c client.Client, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	err := c.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, key.Name, err)
	}
	return o, nil
}

// apply asks the management plane for what is wanted, first for a trial: an
// object that it refuses is found before any is made.
func (b *bringUp) apply(ctx context.Context, c client.Client) (string, error) {
	steps, err := b.todo(ctx, c)
	if err != nil {
		return "", err
	}
	for _, trial := range []bool{true, false} {
		for _, s := range steps {
			if !trial {
				b.applied, b.changed = true, b.changed || b.objects == nil
			}
			if err := carryOut(ctx, c, s, trial); err != nil {
				return "", err
			}
		}
	}
	if len(steps) == 0 {
		return "nothing to change", nil
	}
	return summary(steps), nil
}

// summary names changes, and counts what is new.
func summary(steps []manifest.Step) string {
	var parts []string
	made := 0
	for _, s := range steps {
		if s.Patch == nil {
			made++
			continue
		}
		parts = append(parts, s.What)
	}
	if made > 0 {
		parts = append(parts, fmt.Sprintf("%d objects applied", made))
	}
	return strings.Join(parts, ", ")
}

func carryOut(ctx context.Context, c client.Client, s manifest.Step, trial bool) error {
	o := s.Object.DeepCopy()
	if s.Patch == nil {
		return applyObject(ctx, c, o, trial)
	}
	raw, err := json.Marshal(s.Patch)
	if err != nil {
		return fmt.Errorf("changing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	options := []client.PatchOption{client.FieldOwner(fieldManager)}
	if trial {
		options = append(options, client.DryRunAll)
	}
	return refusal(o, c.Patch(ctx, o, client.RawPatch(types.MergePatchType, raw), options...))
}

func applyObject(ctx context.Context, c client.Client, o *unstructured.Unstructured, trial bool) error {
	namespaced, err := c.IsObjectNamespaced(o)
	switch {
	case meta.IsNoMatchError(err) && trial:
		return nil // its kind may be among what is applied before it
	case meta.IsNoMatchError(err):
		return command.Usagef("%s %s: %w", o.GetKind(), o.GetName(), err)
	case err != nil:
		return fmt.Errorf("looking up the kind %s: %w", o.GetKind(), err)
	}
	if namespaced && o.GetNamespace() == "" {
		o.SetNamespace("default")
	}
	options := []client.ApplyOption{client.FieldOwner(fieldManager), client.ForceOwnership}
	if trial {
		options = append(options, client.DryRunAll)
	}
	return refusal(o, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), options...))
}

// refusal tells what the management plane refuses, which is the user's, from what fails.
func refusal(o *unstructured.Unstructured, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsConflict(err):
		return command.Usagef("%s %s: %s", o.GetKind(), o.GetName(), reasons(err))
	}
	return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
}

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

// isRefused says whether an error is about what was asked for.
func isRefused(err error) bool {
	var coded *command.ExitError
	return errors.As(err, &coded) && coded.Code == command.ExitUsage
}
