package drift

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// path is where a field stands.
type path struct {
	// field is for people: spec.kubeadmConfigSpec.files[/etc/motd].owner.
	field string
	// pattern is for the rules: kubeadmConfigSpec.files[].owner.
	pattern string
	// hidden: this, or what it is part of, is never shown.
	hidden bool
	// foreign: it is in an object of a provider, of which no fields are known.
	foreign bool
}

// node is the path of initConfiguration or joinConfiguration.
func (p path) node(part string) path {
	return path{field: p.field + "." + part, pattern: "node"}
}

// member is the path of a field of an object.
func (p path) member(name string) path {
	next := path{field: p.field + "." + name, pattern: p.pattern + "." + name, foreign: p.foreign}
	next.hidden = p.hidden || secret(name) || ruleOf(next.pattern).hidden || p.foreign && containsAny(name, foreignSecretWords)
	return next
}

// element is the path of an element of a list.
func (p path) element(name string) path {
	return path{field: p.field + "[" + name + "]", pattern: p.pattern + "[]", hidden: p.hidden, foreign: p.foreign}
}

// tree returns a struct as the object that it is in JSON. The structs of the API
// hold nothing that JSON cannot say.
func tree(v any) map[string]any {
	var out map[string]any
	if err := json.Unmarshal(encode(v), &out); err != nil {
		panic(fmt.Sprintf("%T from JSON: %v", v, err))
	}
	return out
}

// encode returns a value as JSON, with sorted keys. What is not plain data is a
// defect of the caller.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T as JSON: %v", v, err))
	}
	return data
}

// compare returns the differences of two values of JSON, in a fixed order.
func compare(p path, was, want any) []Difference {
	r := ruleOf(p.pattern)
	was, want = r.settled(was), r.settled(want)
	if r.ignored || r.filled && want == nil {
		return nil
	}
	switch anyOf(was, want).(type) {
	case map[string]any:
		return compareObjects(p, was, want)
	case []any:
		return compareLists(p, r, was, want)
	}
	if was == want {
		return nil
	}
	return []Difference{difference(p.field, redact(p, was), redact(p, want))}
}

// anyOf returns the first value that is set.
func anyOf(was, want any) any {
	if was != nil {
		return was
	}
	return want
}

// compareObjects compares member by member. An object that is not set is one
// whose members are not set.
func compareObjects(p path, was, want any) []Difference {
	a, _ := was.(map[string]any)
	b, _ := want.(map[string]any)
	var found []Difference
	for _, name := range union(a, b) {
		found = append(found, compare(p.member(name), a[name], b[name])...)
	}
	return found
}

// compareLists compares lists in the way that the rule says.
func compareLists(p path, r rule, was, want any) []Difference {
	a, _ := was.([]any)
	b, _ := want.([]any)
	switch {
	case len(a)+len(b) == 0 && (was == nil) != (want == nil):
		return []Difference{difference(p.field, was, want)}
	case len(r.key) > 0:
		return compareNamed(p, r, a, b)
	case r.unordered:
		if slices.Equal(set(a), set(b)) {
			return nil
		}
		return []Difference{difference(p.field, redact(p, was), redact(p, want))}
	}
	return compareSequences(p, a, b)
}

// set returns plain values as a set: neither order nor repetition means anything.
func set(list []any) []string {
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// compareSequences compares lists by position, once what they begin and end
// with alike is left aside: one element more is one difference.
func compareSequences(p path, a, b []any) []Difference {
	start := 0
	for len(a) > 0 && len(b) > 0 && same(p, a[:1], b[:1]) {
		a, b, start = a[1:], b[1:], start+1
	}
	for len(a) > 0 && len(b) > 0 && same(p, a[len(a)-1:], b[len(b)-1:]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return compareElements(p, strconv.Itoa(start), a, b)
}

// compareElements compares what stands under one name or position.
func compareElements(p path, name string, a, b []any) []Difference {
	switch {
	case same(p, a, b):
		return nil
	case len(a) == 1 && len(b) == 1:
		return compare(p.element(name), a[0], b[0])
	}
	return []Difference{difference(p.element(name).field, bundle(p, a), bundle(p, b))}
}

// same reports whether lists have the same elements.
func same(p path, a, b []any) bool {
	return slices.EqualFunc(a, b, func(x, y any) bool { return len(compare(p.element(""), x, y)) == 0 })
}

// compareNamed compares lists whose elements have names, and then their order,
// if it means something.
func compareNamed(p path, r rule, a, b []any) []Difference {
	was, wasOrder := named(r, a)
	want, wantOrder := named(r, b)
	var found []Difference
	for _, name := range union(was, want) {
		found = append(found, compareElements(p, name, was[name], want[name])...)
	}
	if len(found) == 0 && !r.unordered && !slices.Equal(wasOrder, wantOrder) {
		return []Difference{difference(p.field, wasOrder, wantOrder)}
	}
	return found
}

// named sorts the elements of a list by their names, and returns the names in
// the order of the list.
func named(r rule, list []any) (byName map[string][]any, order []any) {
	byName = map[string][]any{}
	for _, element := range list {
		object, _ := element.(map[string]any)
		var parts []string
		for _, key := range r.key {
			part, _ := object[key].(string)
			parts = append(parts, part)
		}
		name := strings.Join(parts, ":")
		byName[name] = append(byName[name], r.essence(object))
		order = append(order, name)
	}
	return byName, order
}

// essence returns what there is to compare under an element's name: of a name
// with a value the value, which may be empty but is set.
func (r rule) essence(object map[string]any) any {
	value, has := object[r.value]
	switch {
	case r.value == "" || len(object) > 2 || len(object) == 2 && !has:
		return object
	case !has:
		return ""
	}
	return value
}

// union returns the keys of both maps, sorted.
func union[V any](a, b map[string]V) []string {
	all := slices.Collect(maps.Keys(a))
	all = slices.AppendSeq(all, maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
