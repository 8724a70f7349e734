package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/drift"
)

// Objects are the specs of a Machine and of what it refers to, as they are in JSON. Of templates of machines they are those in the
// templates.
type Objects struct {
	Machine, Bootstrap, Infrastructure map[string]any
	// BootstrapKind is the kind of the bootstrap object; empty where there is none.
	BootstrapKind string
}

// Verdict says what of a change can be made in place.
type Verdict struct {
	// Machine and Bootstrap are what of their specs is changed in place, as JSON merge patches of the specs; nil: nothing.
	Machine, Bootstrap map[string]any
	// Replacing says of each other change which field it is about, and why it needs another machine.
	Replacing []string
}

// CanUpdate compares what machines were made from with what is wanted now.
func CanUpdate(current, desired Objects) Verdict {
	c := comparison{}
	machine := c.machine(current.Machine, desired.Machine)
	may := never
	if current.BootstrapKind == "KubeadmConfig" || current.BootstrapKind == "KubeadmConfigTemplate" {
		may = canChange
	}
	if current.BootstrapKind != desired.BootstrapKind {
		c.replace(fmt.Sprintf("the bootstrap object is a %s and a %s is wanted", orNone(current.BootstrapKind), orNone(desired.BootstrapKind)))
	}
	c.kind = orNone(desired.BootstrapKind)
	bootstrap := c.object("spec", current.Bootstrap, desired.Bootstrap, may)
	c.kind = "infrastructure machine"
	c.object("spec", current.Infrastructure, desired.Infrastructure, never)
	return Verdict{Machine: machine, Bootstrap: bootstrap, Replacing: c.replacing}
}

func orNone(kind string) string {
	if kind == "" {
		return "none"
	}
	return kind
}

// comparison gathers what cannot be changed in place.
type comparison struct {
	kind      string
	replacing []string
}

func (c *comparison) replace(reason string) { c.replacing = append(c.replacing, reason) }

// machine compares the specs of Machines.
func (c *comparison) machine(was, want map[string]any) map[string]any {
	c.kind = "Machine"
	was, want = without(was, ignoredFields), without(want, ignoredFields)
	from, to := text(was["version"]), text(want["version"])
	var patch map[string]any
	if from != to {
		if reason := drift.CannotUpgrade(from, to); reason != "" {
			c.replace(fmt.Sprintf("Machine: spec.version: %s to %s: %s", orNone(from), orNone(to), reason))
		} else {
			patch = map[string]any{"version": to}
		}
	}
	version := []string{"version"}
	c.object("spec", without(was, version), without(want, version), never)
	return patch
}

// text is a string of JSON; empty where there is none.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// without returns an object without some of its members.
func without(object map[string]any, names []string) map[string]any {
	out := maps.Clone(object)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// object returns the merge patch for what of an object may be changed in place; nil where that is nothing.
func (c *comparison) object(field string, was, want map[string]any, may func(string) bool) map[string]any {
	var patch map[string]any
	for _, name := range union(was, want) {
		value, changes := c.member(field+"."+name, was[name], want[name], may)
		if changes {
			if patch == nil {
				patch = map[string]any{}
			}
			patch[name] = value
		}
	}
	return patch
}

// member returns what a merge patch says of one member, and whether it says anything.
func (c *comparison) member(field string, was, want any, may func(string) bool) (any, bool) {
	if reflect.DeepEqual(was, want) {
		return nil, false
	}
	before, wasObject := asObject(was)
	after, isObject := asObject(want)
	if may(field) {
		if was != nil && want != nil && wasObject && isObject {
			return c.object(field, before, after, may), true
		}
		return want, true
	}
	if !wasObject || !isObject {
		c.replace(c.kind + ": " + field)
		return nil, false
	}
	refused := len(c.replacing)
	patch := c.object(field, before, after, may)
	switch {
	case want == nil && len(c.replacing) == refused:
		return nil, true // all that was in it goes
	case was == nil && len(after) == 0:
		return map[string]any{}, true // it becomes an empty one
	}
	return patch, patch != nil
}

// asObject reports whether a value can be seen as an object. None is an empty one.
func asObject(v any) (map[string]any, bool) {
	if v == nil {
		return nil, true
	}
	object, ok := v.(map[string]any)
	return object, ok
}

// union are the names of the members of both, sorted.
func union(a, b map[string]any) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// Patch is a merge patch of a whole object for the patch of a spec, which lies at a path such as "spec" or "spec.template.spec". Nil for
// nothing.
func Patch(path string, spec map[string]any) []byte {
	if spec == nil {
		return nil
	}
	var whole any = spec
	names := strings.Split(path, ".")
	slices.Reverse(names)
	for _, name := range names {
		whole = map[string]any{name: whole}
	}
	data, err := json.Marshal(whole)
	if err != nil {
		panic(fmt.Sprintf("a patch of plain data as JSON: %v", err))
	}
	return data
}
