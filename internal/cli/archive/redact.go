package archive

import (
	"reflect"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// redact takes secrets out of all texts of a value, which is changed. Fields that are not exported stay: no page and no data show them.
func redact(value any) { redactValue(reflect.ValueOf(value)) }

func redactValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			redactValue(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				redactValue(f)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			redactValue(v.Index(i))
		}
	case reflect.Map:
		redactMap(v)
	case reflect.String:
		if v.CanSet() {
			v.SetString(plaintext.Shown(v.String()))
		}
	}
}

// redactMap replaces keys and values, which cannot be changed where they are.
func redactMap(m reflect.Value) {
	for _, key := range m.MapKeys() {
		name, value := reflect.New(key.Type()).Elem(), reflect.New(m.Type().Elem()).Elem()
		name.Set(key)
		value.Set(m.MapIndex(key))
		redactValue(name)
		redactValue(value)
		// A value may be secret by its name alone.
		if pair := key.String() + ": " + value.String(); value.Kind() == reflect.String && plaintext.Redact(pair) != pair {
			value.SetString("<secret>")
		}
		m.SetMapIndex(key, reflect.Value{})
		m.SetMapIndex(name, value)
	}
}
