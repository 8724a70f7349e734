package command

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
)

// Agrees asks a person a question, and reports whether the answer is yes.
func (a *Invocation) Agrees(question string) bool {
	a.NewScreen().Printf("\n%s Type yes to go on: ", question)
	answer, _ := bufio.NewReader(a.In).ReadString('\n')
	return strings.TrimSpace(answer) == "yes"
}

// Annotation is one by which a command asks the manager of a group for something.
type Annotation struct {
	Of *facts.Group
	// Name is the annotation's, and Manager owns it.
	Name, Manager string
	// Value is what the annotation is to say, from what it says now; empty: it goes. An error is one of wrong usage.
	Value func(now string) (string, error)
}

// Plan forecasts what the group of an object does once the annotation is written. Nothing is written.
func (n Annotation) Plan(ctx context.Context, a *Invocation, c client.Client, cluster client.ObjectKey, object client.Object,
) (report.Plan, error) {
	value, err := n.Value(object.GetAnnotations()[n.Name])
	if err != nil {
		return report.Plan{}, Usage(err)
	}
	asked := &unstructured.Unstructured{}
	asked.SetGroupVersionKind(n.Of.Kind.Type().GroupVersionKind)
	asked.SetNamespace(n.Of.Key.Namespace)
	asked.SetName(n.Of.Key.Name)
	change := Change{Object: asked, Manager: n.Manager, Patch: map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{n.Name: value}},
	}}
	if err := change.Try(ctx, c); err != nil {
		return report.Plan{}, err
	}
	plans, err := facts.Plans(ctx, c, c.Scheme(), cluster, []*unstructured.Unstructured{change.Object})
	if err != nil {
		return report.Plan{}, err
	}
	a.SettlePlans(plans)
	for _, p := range plans {
		if p.Group == facts.Title(n.Of) {
			return p, nil
		}
	}
	return report.Plan{}, fmt.Errorf("%s is gone", facts.Title(n.Of))
}

// Write changes the annotation. What others write there meanwhile is read again, and nothing of it is lost.
func (n Annotation) Write(ctx context.Context, c client.Client) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(n.Of.Kind.Type().GroupVersionKind)
		if err := c.Get(ctx, n.Of.Key, object); err != nil {
			return err
		}
		value, err := n.Value(object.Annotations[n.Name])
		if err != nil {
			return Usage(err)
		}
		before := object.DeepCopy()
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, n.Name, value)
		if value == "" {
			delete(object.Annotations, n.Name)
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		return c.Patch(ctx, object, patch, client.FieldOwner(n.Manager))
	})
	if err != nil {
		return fmt.Errorf("changing the annotation %s of %s: %w", n.Name, facts.Title(n.Of), err)
	}
	return nil
}
