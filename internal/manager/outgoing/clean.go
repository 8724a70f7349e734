package outgoing

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// texts are the fields of a status that hold text for people, as Go has them, and JSON. A test compares them with the kinds' definitions.
var texts = map[string]bool{
	"Message": true, "FailureMessage": true, "NotSeen": true,
	"message": true, "failureMessage": true, "notSeen": true,
}

// clean cleans the messages in an object's status.
func clean(o client.Object) {
	if u, is := o.(*unstructured.Unstructured); is {
		cleanMap(u.Object["status"])
		return
	}
	if _, is := o.(*clusterv1.Machine); is {
		return // most of its conditions are those of others, and stay as they wrote them; group.Condition cleans ours
	}
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return
	}
	if s := v.Elem().FieldByName("Status"); s.IsValid() {
		cleanValue(s)
	}
}

// cleanMap cleans what is below a value of JSON.
func cleanMap(in any) {
	switch in := in.(type) {
	case map[string]any:
		for name, value := range in {
			if text, is := value.(string); is && texts[name] {
				in[name] = plaintext.Quote(text, longestMessage)
				continue
			}
			cleanMap(value)
		}
	case []any:
		for _, value := range in {
			cleanMap(value)
		}
	}
}

// cleanValue cleans what is below a Go value.
func cleanValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			cleanValue(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			cleanValue(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Field(i)
			if texts[v.Type().Field(i).Name] {
				cleanText(field)
			} else if field.CanSet() {
				cleanValue(field)
			}
		}
	}
}

// cleanText cleans a field that holds text, or points to it.
func cleanText(v reflect.Value) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		// Others may point to the same text.
		text := reflect.New(v.Type().Elem())
		text.Elem().Set(v.Elem())
		cleanText(text.Elem())
		v.Set(text)
		return
	}
	if v.Kind() == reflect.String && v.CanSet() {
		v.SetString(plaintext.Quote(v.String(), longestMessage))
	}
}
