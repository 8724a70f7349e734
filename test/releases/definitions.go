package releases

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/config/crd"
)

// structurals are the schemas of today's definitions of Quorate's own kinds, by kind and version.
var structurals = sync.OnceValue(func() map[schema.GroupVersionKind]*structuralschema.Structural {
	found := map[schema.GroupVersionKind]*structuralschema.Structural{}
	err := fs.WalkDir(crd.Files, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path, "cluster.x-k8s.io_") {
			return err
		}
		raw, err := crd.Files.ReadFile(path)
		if err != nil {
			return err
		}
		return addDefinition(found, raw)
	})
	if err != nil {
		panic(fmt.Sprintf("reading the definitions that are built in: %v", err))
	}
	return found
})

// addDefinition adds the schemas of one definition.
func addDefinition(to map[schema.GroupVersionKind]*structuralschema.Structural, raw []byte) error {
	var of apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(raw, &of); err != nil {
		return err
	}
	for _, v := range of.Spec.Versions {
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return err
		}
		structural, err := structuralschema.NewStructural(&props)
		if err != nil {
			return err
		}
		to[schema.GroupVersionKind{Group: of.Spec.Group, Version: v.Name, Kind: of.Spec.Names.Kind}] = structural
	}
	return nil
}

// Default fills in the defaults of today's definition, as an API server does with what it reads from its store. It returns the fields that
// the definition does not know and that the API server would drop. Objects of kinds that are not Quorate's stay as they are.
func Default(o *unstructured.Unstructured) (unknown []string) {
	structural := structurals()[o.GroupVersionKind()]
	if structural == nil {
		return nil
	}
	unknown = pruning.PruneWithOptions(o.Object, structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(o.Object, structural)
	return unknown
}

// Definitions are what Cluster API's contract wants to know of the kinds of a recording: which version is used.
func Definitions(r *Recording) []client.Object {
	var all []client.Object
	known := map[schema.GroupKind]bool{}
	for _, o := range r.Objects {
		gvk := o.GroupVersionKind()
		if known[gvk.GroupKind()] || gvk.Group == "" {
			continue
		}
		known[gvk.GroupKind()] = true
		name := strings.ToLower(gvk.Kind) + "s." + gvk.Group
		all = append(all, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"cluster.x-k8s.io/v1beta2": gvk.Version}}})
	}
	return all
}

// DefaultTyped is Default of an object of a kind of Quorate's, as tests make it without an API server. A field that the definition does not
// know is an error.
func DefaultTyped(o client.Object, gvk schema.GroupVersionKind) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("defaulting %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	generic := &unstructured.Unstructured{Object: raw}
	generic.SetGroupVersionKind(gvk)
	if unknown := Default(generic); len(unknown) > 0 {
		return fmt.Errorf("defaulting %s %s: the definition does not know %s", gvk.Kind, o.GetName(), strings.Join(unknown, ", "))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(generic.Object, o); err != nil {
		return fmt.Errorf("defaulting %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	return nil
}
