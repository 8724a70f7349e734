package drift

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// leaf is one field that holds a value: where it is, in Go and in JSON.
type leaf struct {
	steps   []int // Indices of fields; what is between, pointers, lists and maps, has one element.
	path    string
	pattern string
}

// leaves lists all fields of a type that hold a value, down to the last.
func leaves(typ reflect.Type, steps []int, path, pattern string) []leaf {
	switch {
	case typ == reflect.TypeFor[metav1.Time](), typ == reflect.TypeFor[resource.Quantity](),
		typ == reflect.TypeFor[bootstrapv1.BootstrapTokenString]():
		return []leaf{{slices.Clone(steps), path, pattern}}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return leaves(typ.Elem(), steps, path, pattern)
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return []leaf{{slices.Clone(steps), path, pattern}}
		}
		return leaves(typ.Elem(), steps, path, pattern+"[]")
	case reflect.Map:
		return leaves(typ.Elem(), steps, path, pattern+".*")
	case reflect.Struct:
		var all []leaf
		for i := range typ.NumField() {
			field := typ.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			next, nextPattern := path+"."+name, pattern+"."+name
			if name == "" {
				next, nextPattern = path, pattern // Inlined.
			}
			all = append(all, leaves(field.Type, append(steps, i), next, nextPattern)...)
		}
		return all
	}
	return []leaf{{slices.Clone(steps), path, pattern}}
}

// at returns what stands at a leaf, and makes whatever is missing on the way.
// A map is handed over as a whole.
func at(v reflect.Value, steps []int) reflect.Value {
	for {
		switch {
		case v.Kind() == reflect.Pointer:
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			if len(steps) == 0 && v.Elem().Kind() != reflect.Slice {
				return v
			}
			v = v.Elem()
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
			v = v.Index(0)
		case len(steps) == 0:
			return v
		default:
			v, steps = v.Field(steps[0]), steps[1:]
		}
	}
}

// put writes a value that says which leaf it is of, and which of two values.
func put(v reflect.Value, l leaf, second bool) {
	text, number := "a:"+l.path, int64(len(l.path)*2)
	if second {
		text, number = "b:"+l.path, number+1
	}
	switch target := v.Addr().Interface().(type) {
	case *metav1.Time:
		*target = metav1.NewTime(time.Unix(number, 0))
		return
	case *resource.Quantity:
		*target = *resource.NewQuantity(number, resource.DecimalSI)
		return
	case *bootstrapv1.BootstrapTokenString:
		target.ID, target.Secret = "abcdef", strings.Repeat(map[bool]string{false: "a", true: "b"}[second], 16)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		put(v.Elem(), l, second)
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(!second)
	case reflect.Int32, reflect.Int64:
		v.SetInt(number)
	case reflect.Slice:
		v.SetBytes([]byte(text))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		put(value, l, second)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("Key"), value)
	default:
		panic("a field of kind " + v.Kind().String() + ": " + l.path)
	}
}

// full returns a spec in which every field is set, those of init and join to
// different values.
func full(all []leaf) *bootstrapv1.KubeadmConfigSpec {
	spec := &bootstrapv1.KubeadmConfigSpec{}
	for _, l := range all {
		put(at(reflect.ValueOf(spec).Elem(), l.steps), l, false)
	}
	return spec
}

// patternOf is a leaf's path as the rules see it.
func patternOf(l leaf) string {
	pattern := strings.TrimPrefix(l.pattern, ".")
	for _, part := range []string{initPart, joinPart} {
		if rest, ok := strings.CutPrefix(pattern, part); ok {
			return "node" + rest
		}
	}
	return pattern
}

// ignored reports whether a rule above a leaf ignores it.
func ignored(pattern string) bool {
	for part := pattern; part != ""; part = part[:max(strings.LastIndex(part, "."), 0)] {
		if ruleOf(strings.TrimSuffix(part, "[]")).ignored {
			return true
		}
	}
	return false
}

// TestEveryField: each field of the KubeadmConfigSpec that Cluster API has,
// changed or taken away, is a difference, and named; but for those that the rules
// ignore.
func TestEveryField(t *testing.T) {
	all := leaves(reflect.TypeFor[bootstrapv1.KubeadmConfigSpec](), nil, "", "")
	if len(all) < 200 {
		t.Fatalf("only %d fields were found", len(all))
	}
	skipped := map[string]int{}
	for _, l := range all {
		pattern := patternOf(l)
		kcp := controlPlane()
		kcp.Spec.KubeadmConfigSpec = *full(all)
		m := made(kcp, strings.HasPrefix(l.path, "."+initPart))
		want := reflect.ValueOf(&kcp.Spec.KubeadmConfigSpec).Elem()
		if d := Of(kcp, m, now); d.Outdated() {
			t.Fatalf("nothing was changed, and it says %s", d)
		}

		for _, change := range []string{"changed", "taken away"} {
			kcp.Spec.KubeadmConfigSpec = *full(all)
			target := at(want, l.steps)
			put(target, l, true)
			if change == "taken away" {
				target.SetZero()
			}
			d := Of(kcp, m, now)
			switch rule := ruleOf(pattern); {
			case ignored(pattern):
				skipped[l.path]++
				if d.Outdated() {
					t.Errorf("%s is to be ignored; %s, it says %s", l.path, change, d)
				}
			case change == "taken away" && (rule.filled || rule.assumed == true):
				if d.Outdated() {
					t.Errorf("%s is filled in, or was as assumed; %s, it says %s", l.path, change, d)
				}
			case !names(d, l):
				t.Errorf("%s %s, and it says %q", l.path, change, d)
			}
		}
	}
	t.Logf("%d fields, %d of them ignored", len(all), len(skipped))
}

// elements are the names of list elements in a path.
var elements = regexp.MustCompile(`\[[^\]]*\]`)

// names reports whether a drift is about a leaf, or the whole element of a list
// that holds it, and about nothing else.
func names(d Drift, l leaf) bool {
	about := func(one Difference) bool {
		field := strings.TrimPrefix(elements.ReplaceAllString(one.Field, ""), "spec.kubeadmConfigSpec")
		return strings.HasPrefix(l.path, field) || strings.HasPrefix(field, l.path)
	}
	return len(d.Reasons) > 0 && !slices.ContainsFunc(d.Reasons, func(one Difference) bool { return !about(one) })
}

// TestEveryRule: each line of the table is about a field that there is, and says why.
func TestEveryRule(t *testing.T) {
	known := map[string]bool{}
	for _, l := range leaves(reflect.TypeFor[bootstrapv1.KubeadmConfigSpec](), nil, "", "") {
		pattern := strings.Replace("kubeadmConfigSpec."+patternOf(l), "featureGates.*", "featureGates.ControlPlaneKubeletLocalMode", 1)
		for part := pattern; part != ""; part = part[:max(strings.LastIndex(part, "."), 0)] {
			for end := strings.TrimSuffix(part, "[]"); ; {
				known[end] = true
				_, rest, more := strings.Cut(end, ".")
				if !more {
					break
				}
				end = rest
			}
		}
	}
	var blind []string
	for pattern, rule := range rules {
		if rule.ignored || rule.filled {
			blind = append(blind, pattern)
		}
		if !known[pattern] {
			t.Errorf("there is no field %s", pattern)
		}
		if rule.why == "" {
			t.Errorf("%s is an exception without a reason", pattern)
		}
	}
	slices.Sort(blind)
	if got := strings.Join(blind, " "); got != "clusterConfiguration.controlPlaneEndpoint clusterConfiguration.dns node.bootstrapTokens "+
		"node.discovery node.timeouts.controlPlaneComponentHealthCheckSeconds" {
		t.Errorf("not compared are %s", got)
	}
}
