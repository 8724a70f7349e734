package admission

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// place is a field of a kind that has a value of its own: no other fields.
type place struct {
	name    string
	special bool // it has values of its own in valuesOf
	typ     reflect.Type
	reach   func(root reflect.Value) reflect.Value
}

// set gives the field a value, and makes what is on the way there.
func (p *place) set(object, value any) {
	at := p.reach(reflect.ValueOf(object).Elem())
	if value == nil {
		at.SetZero()
		return
	}
	v := reflect.ValueOf(value)
	if at.Kind() == reflect.Pointer && v.Kind() != reflect.Pointer {
		at.Set(reflect.New(at.Type().Elem()))
		at = at.Elem()
	}
	at.Set(v.Convert(at.Type()))
}

// valuesOf are values of fields that decide something, by the end of their name. Some are valid, some are not, and each pair is a change.
var valuesOf = map[string][]any{
	"metadata.annotations": {
		map[string]string{"a": "b"},
		map[string]string{"controlplane.cluster.x-k8s.io/skip-coredns": ""},
		map[string]string{"controlplane.cluster.x-k8s.io/in-place-upgrade-needed": "v1.37.0"},
	},
	"metadata.labels": {map[string]string{"a": "b"}, map[string]string{"a b": "c"},
		map[string]string{"cluster.x-k8s.io/cluster-name": "demo"}},
	"spec.replicas": {nil, int32(-1), int32(0), int32(1), int32(2), int32(3), int32(4), int32(5), int32(7), int32(8), int32(9), int32(11)},
	"spec.version": {
		"", "v1", "1.36.3", "vv1.36.3", "v1.36.3", "v1.36.4", "v1.36.99999", "v1.35.4", "v1.34.0", "v1.37.0", "v1.38.0", "v2.0.0", "v1.37.0-rc.1",
		"v1.36.3+build.1", "v1.37.0-alpha.0.734_ba502ee555924a", "v1.36.03", "latest",
	},
	"machineNaming.template": {
		"", "x", "x-{{ .random }}", "{{ .random }}-{{ .random }}", "{{ .cluster.name }}-{{ .kubeadmControlPlane.name }}-{{ .random }}",
		"x{{ if false }}{{ .random }}{{ end }}", "{{ .cluster.id }}{{ .random }}", "{{ .random }", "A_{{ .random }}", strings.Repeat("x", 300) +
			"{{ .random }}",
	},
	"maxSurge": {
		nil, intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromString("0"), intstr.FromString("1"),
		intstr.FromString("50%"), intstr.FromString("x"),
	},
	"rollout.strategy.type": {"", "RollingUpdate", "foo"},
	"imageTag": {"", "v1.9.3", "1.10.1", "v1.6.6_foobar.1", "v99.99.99", "v0.20.0+invalid", "1-7", "latest",
		"v3.6.16-0"},
	"certificateValidityPeriodDays":           {int32(0), int32(1), int32(100), int32(4000)},
	"caCertificateValidityPeriodDays":         {int32(0), int32(50), int32(5000)},
	"certificatesExpiryDays":                  {int32(0), int32(7), int32(100), int32(200)},
	"controlPlaneComponentHealthCheckSeconds": {nil, int32(0), int32(60)},
	"format":                          {"", "cloud-config", "ignition"},
	"kubeadmConfigSpec.files[0].path": {"", "/a"},
	"advertiseAddress":                {"", "10.0.0.1", "::1", "0.0.0.0", "{{ ds.meta_data.local_ipv4 }}"},
	"infrastructureRef.kind":          {"", "LocalMachineTemplate", "Machine", "Secret"},
	"infrastructureRef.apiGroup":      {"", "infrastructure.cluster.x-k8s.io", "apps", "cluster.x-k8s.io"},
	"managedExternalEtcdRef.kind":     {"", "EtcdCluster", "Secret"},
	"managedExternalEtcdRef.apiGroup": {"", "etcdcluster.cluster.x-k8s.io", "apps"},
	"managedExternalEtcdRef.name":     {"", "a", "b"},
	"etcd.external.endpoints":         {[]string{"https://10.0.0.1:2379"}, []string{}},
	"taints[0].key":                   {"", "a.io/b", "node-role.kubernetes.io/control-plane", "a b"},
	"taints[0].effect":                {"", "NoSchedule", "foo"},
	"tableType":                       {"", "gpt", "mbr"},
	"encoding":                        {"", "base64", "gzip", "gzip+base64"},
	"percentage":                      {int32(0), int32(50), int32(101)},
	"inPlace.policy":                  {"", "Disabled", "External", "Preferred", "Only"},
}

// values are what the field is set to.
func (p *place) values() []any {
	for _, end := range slices.Sorted(maps.Keys(valuesOf)) {
		if p.name == end || strings.HasSuffix(p.name, "."+end) {
			return valuesOf[end]
		}
	}
	typ := p.typ
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.String:
		return []any{"a", "b c"}
	case reflect.Bool:
		return []any{true, false}
	case reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Int:
		return []any{1, 2}
	case reflect.Slice, reflect.Map:
		if typ.Elem().Kind() != reflect.String {
			return []any{reflect.New(typ).Elem().Interface(), empty(typ)}
		}
		if typ.Kind() == reflect.Map {
			return []any{map[string]string{"a": "b"}, map[string]string{"a": "c"}, map[string]string{}}
		}
		return []any{list(typ, "a"), list(typ, "b", "c"), list(typ)}
	}
	switch reflect.New(typ).Interface().(type) {
	case *metav1.Time:
		return []any{metav1.NewTime(time.Unix(1e9, 0)), metav1.NewTime(time.Unix(2e9, 0))}
	case *metav1.Duration:
		return []any{metav1.Duration{Duration: time.Second}, metav1.Duration{Duration: time.Hour}}
	}
	return []any{reflect.New(typ).Elem().Interface()} // no more than that it is there
}

func empty(typ reflect.Type) any {
	if typ.Kind() == reflect.Map {
		return reflect.MakeMap(typ).Interface()
	}
	return reflect.MakeSlice(typ, 0, 0).Interface()
}

func list(typ reflect.Type, of ...string) any {
	all := reflect.MakeSlice(typ, 0, len(of))
	for _, text := range of {
		all = reflect.Append(all, reflect.ValueOf(text).Convert(typ.Elem()))
	}
	return all.Interface()
}

// fieldsOf lists the fields of a kind in the order of their declaration.
func fieldsOf[T any]() []place {
	var all []place
	walk(reflect.TypeFor[T](), "", func(root reflect.Value) reflect.Value { return root }, func(p place) {
		for end := range valuesOf {
			p.special = p.special || p.name == end || strings.HasSuffix(p.name, "."+end)
		}
		all = append(all, p)
	})
	return all
}

func walk(typ reflect.Type, name string, reach func(reflect.Value) reflect.Value, found func(place)) {
	inner := typ
	if typ.Kind() == reflect.Pointer {
		inner = typ.Elem()
	}
	switch {
	case isLeaf(inner):
		found(place{name: name, typ: typ, reach: reach})
	case typ.Kind() == reflect.Pointer:
		found(place{name: name, typ: typ, reach: reach})
		walk(inner, name, func(root reflect.Value) reflect.Value {
			at := reach(root)
			if at.IsNil() {
				at.Set(reflect.New(inner))
			}
			return at.Elem()
		}, found)
	case typ.Kind() == reflect.Struct:
		walkStruct(typ, name, reach, found)
	case typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map:
		found(place{name: name, typ: typ, reach: reach})
		if typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct {
			walk(typ.Elem(), name+"[0]", func(root reflect.Value) reflect.Value {
				at := reach(root)
				if at.Len() == 0 {
					at.Set(reflect.Append(at, reflect.New(typ.Elem()).Elem()))
				}
				return at.Index(0)
			}, found)
		}
	default:
		panic(fmt.Sprintf("%s: no values for a %s", name, typ))
	}
}

func walkStruct(typ reflect.Type, name string, reach func(reflect.Value) reflect.Value, found func(place)) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		// What the API server writes is no question. The kind's own name is none either.
		if !f.IsExported() || tag == "managedFields" || f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		inside := strings.TrimPrefix(name+"."+tag, ".")
		if tag == "" {
			inside = name
		}
		walk(f.Type, inside, func(root reflect.Value) reflect.Value { return reach(root).Field(i) }, found)
	}
}

func isLeaf(typ reflect.Type) bool {
	switch reflect.New(typ).Interface().(type) {
	case *metav1.Time, *metav1.Duration, *intstr.IntOrString:
		return true
	}
	switch typ.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Int:
		return true
	}
	return false
}
