package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Parse reads the objects of a manifest of one or more YAML or JSON documents,
// in their order. source names it in errors. Kinds that this package knows
// are read strictly: a misspelt field is an error, not something left out.
func Parse(r io.Reader, source string) ([]*unstructured.Unstructured, error) {
	scheme := Scheme()
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(r))
	var objects []*unstructured.Unstructured
	for n := 1; ; n++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", source, err)
		}
		where := fmt.Sprintf("%s, document %d", source, n)
		found, err := parseDocument(doc, where)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if err := parseStrictly(strict, scheme, o, where); err != nil {
				return nil, err
			}
		}
		objects = append(objects, found...)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s has no object: must have at least one Kubernetes object", source)
	}
	return objects, nil
}

// parseDocument is the object of one document, or those of a List; none for a document of comments.
func parseDocument(doc []byte, where string) ([]*unstructured.Unstructured, error) {
	raw, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, fmt.Errorf("%s is not YAML: %w", where, err)
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, fmt.Errorf("%s is not an object: %w", where, err)
	}
	if len(content) == 0 {
		return nil, nil
	}
	o := &unstructured.Unstructured{Object: content}
	if !o.IsList() {
		return []*unstructured.Unstructured{o}, complete(o, where)
	}
	var items []*unstructured.Unstructured
	err = o.EachListItem(func(item runtime.Object) error {
		items = append(items, item.(*unstructured.Unstructured))
		return complete(items[len(items)-1], where)
	})
	return items, err
}

func complete(o *unstructured.Unstructured, where string) error {
	for field, value := range map[string]string{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata.name": o.GetName()} {
		if value == "" {
			return fmt.Errorf("%s has no %s", where, field)
		}
	}
	return nil
}

func parseStrictly(strict runtime.Decoder, scheme *runtime.Scheme, o *unstructured.Unstructured, where string) error {
	if !scheme.Recognizes(o.GroupVersionKind()) {
		return nil
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if _, _, err := strict.Decode(raw, nil, nil); err != nil {
		return fmt.Errorf("%s (%s %s): %w", where, o.GetKind(), o.GetName(), err)
	}
	return nil
}

// Write prints the documents as YAML, each with its explanation above it and without fields that only a server sets.
func Write(w io.Writer, docs []Document) error {
	for _, d := range docs {
		o, err := Generic(d)
		if err != nil {
			return err
		}
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		var out bytes.Buffer
		out.WriteString("---\n")
		for _, line := range strings.Split(d.About, "\n") {
			out.WriteString("# " + line + "\n")
		}
		out.Write(raw)
		if _, err := w.Write(out.Bytes()); err != nil {
			return fmt.Errorf("writing manifests: %w", err)
		}
	}
	return nil
}

// Generic is a document's object without its Go type and without fields that only a server sets.
func Generic(d Document) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d.Object)
	if err != nil {
		return nil, fmt.Errorf("converting %s %s: %w", d.Object.GetObjectKind().GroupVersionKind().Kind, d.Object.GetName(), err)
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}
