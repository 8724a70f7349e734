package releases

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LabelContracts gives all definitions of an API server the label that Cluster API's installation adds: which version follows its contract.
func LabelContracts(ctx context.Context, c client.Client) error {
	var all apiextensionsv1.CustomResourceDefinitionList
	if err := c.List(ctx, &all); err != nil {
		return err
	}
	for _, d := range all.Items {
		for _, v := range d.Spec.Versions {
			if !v.Storage {
				continue
			}
			label := fmt.Sprintf(`{"metadata":{"labels":{"cluster.x-k8s.io/v1beta2":%q}}}`, v.Name)
			if err := c.Patch(ctx, &d, client.RawPatch(types.MergePatchType, []byte(label))); err != nil {
				return err
			}
		}
	}
	return nil
}

// Renamed is a copy of an object in whose texts one word of each pair stands for the other.
func Renamed(o *unstructured.Unstructured, pairs ...string) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	other := &unstructured.Unstructured{}
	return other, other.UnmarshalJSON([]byte(strings.NewReplacer(pairs...).Replace(string(raw))))
}

// Make makes the objects of a recording of the Cluster demo under another name, in a namespace of that name, each after edit has changed
// it. Owners have the UIDs that the API server gave them.
func Make(
	ctx context.Context, c client.Client, objects []*unstructured.Unstructured, name string, edit func(*unstructured.Unstructured) error,
) error {
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	uids := map[types.UID]types.UID{}
	for _, o := range objects {
		o, err := Renamed(o, "demo", name, `"namespace":"default"`, `"namespace":"`+name+`"`)
		if err != nil {
			return err
		}
		owners, old, status := o.GetOwnerReferences(), o.GetUID(), o.Object["status"]
		for i := range owners {
			owners[i].UID = uids[owners[i].UID]
		}
		o.SetOwnerReferences(owners)
		if err := edit(o); err != nil {
			return err
		}
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("making %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if uids[old] == "" {
			uids[old] = o.GetUID()
		}
		if status == nil {
			continue
		}
		// A controller may have written the object meanwhile.
		patch, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			return err
		}
		if err := c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("writing the status of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
