package admission

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	upstream "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	"sigs.k8s.io/cluster-api/feature"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/conversion"
)

// question is a write that Cluster API's own webhook and Quorate's are both asked about. before is nil for a new object.
type question[T any] struct {
	name          string
	before, after T
	isNew         bool
}

// tally counts answers.
type tally struct {
	asked, equal, purpose int
	different             map[string]int // by reason; an answer may have several
}

func (c *tally) String() string {
	return fmt.Sprintf("asked %d, equal %d, different on purpose %d, for %d reasons", c.asked, c.equal, c.purpose, len(c.different))
}

// judge compares two answers. An answer that differs must have a listed reason.
func (c *tally) judge(t *testing.T, name string, theirs, ours error, reasons []string) {
	t.Helper()
	c.asked++
	if (theirs == nil) == (ours == nil) {
		c.equal++
		return
	}
	if len(reasons) == 0 {
		t.Errorf("%s: Cluster API answers %v, Quorate %v: no listed difference has this case", name, theirs, ours)
		return
	}
	c.purpose++
	for _, reason := range reasons {
		c.different[reason]++
	}
}

// finish prints the count, and fails for a listed difference that nothing showed or that docs/compatibility.md lacks.
func (c *tally) finish(t *testing.T, listed []string) {
	t.Helper()
	t.Log(c)
	page, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range listed {
		if c.different[name] == 0 {
			t.Errorf("difference %q is listed, and no question shows it", name)
		}
		if !strings.Contains(string(page), "| "+name+" |") {
			t.Errorf("docs/compatibility.md has no row %q", name)
		}
	}
}

// gate sets feature gates of Cluster API for a test.
func gate(t *testing.T, on bool) {
	t.Helper()
	set := func(on bool) {
		if err := feature.MutableGates.SetFromMap(map[string]bool{
			string(feature.KubeadmBootstrapFormatIgnition): on, string(feature.MachineTaintPropagation): on,
		}); err != nil {
			t.Fatal(err)
		}
	}
	set(on)
	t.Cleanup(func() { set(false) })
}

// A KubeadmControlPlane is accepted and refused as by Cluster API's own webhook, which is asked beside Quorate's about each field that
// is set, changed and unset, and about random pairs of fields. Each other answer has a reason in docs/compatibility.md.
func TestAsUpstream(t *testing.T) {
	c := &tally{different: map[string]int{}}
	all := fieldsOf[controlplanev1.KubeadmControlPlane]()
	t.Logf("fields: %d", len(all))
	for _, on := range []bool{false, true} {
		gate(t, on)
		for name, base := range bases(t) {
			fields := all
			if name != "stacked" || !on { // the rest is asked once
				fields = slices.DeleteFunc(slices.Clone(all), func(f place) bool { return !f.special })
			}
			for _, q := range single(name, base, fields) {
				askControlPlane(t, c, q)
			}
			for _, q := range pairs(name, base, all, 1500) {
				askControlPlane(t, c, q)
			}
		}
	}
	c.finish(t, titles(controlPlaneDifferences))
}

// askControlPlane asks both webhooks, and returns Cluster API's answer.
func askControlPlane(t *testing.T, c *tally, q question[controlplanev1.KubeadmControlPlane]) error {
	t.Helper()
	sameDefaults(t, q.name, &q.after)
	their, our := &upstream.KubeadmControlPlane{}, &KubeadmControlPlane{}
	ctx, before, after := t.Context(), conversion.PlainControlPlane(&q.before), conversion.PlainControlPlane(&q.after)
	var theirs, ours error
	was := &q.before
	if q.isNew {
		was = nil
		_, theirs = their.ValidateCreate(ctx, after)
		_, ours = our.ValidateCreate(ctx, &q.after)
	} else {
		_, theirs = their.ValidateUpdate(ctx, before, after)
		_, ours = our.ValidateUpdate(ctx, &q.before, &q.after)
	}
	c.judge(t, q.name, theirs, ours, reasonsFor(controlPlaneDifferences, was, &q.after, ours != nil))
	if q.isNew {
		_, deleted := their.ValidateDelete(ctx, after)
		_, ours = our.ValidateDelete(ctx, &q.after)
		c.judge(t, q.name+", deleted", deleted, ours, nil)
	}
	return theirs
}

// sameDefaults compares the defaults that both webhooks set.
func sameDefaults(t *testing.T, name string, after *controlplanev1.KubeadmControlPlane) {
	t.Helper()
	defaulted, plain := after.DeepCopy(), conversion.PlainControlPlane(after)
	if err := (&KubeadmControlPlane{}).Default(t.Context(), defaulted); err != nil {
		t.Errorf("%s: setting defaults: %v", name, err)
	}
	if err := (&upstream.KubeadmControlPlane{}).Default(t.Context(), plain); err != nil {
		t.Errorf("%s: Cluster API, setting defaults: %v", name, err)
	}
	if !equality.Semantic.DeepEqual(plain, conversion.PlainControlPlane(defaulted)) {
		t.Errorf("%s: other defaults", name)
	}
}

// A KubeadmControlPlaneTemplate likewise.
func TestTemplateAsUpstream(t *testing.T) {
	c := &tally{different: map[string]int{}}
	for _, on := range []bool{false, true} {
		gate(t, on)
		fields := fieldsOf[controlplanev1.KubeadmControlPlaneTemplate]()
		for _, q := range single("template", template(), fields) {
			askTemplate(t, c, q)
		}
		for _, q := range pairs("template", template(), fields, 1500) {
			askTemplate(t, c, q)
		}
	}
	c.finish(t, titles(templateDifferences))
}

// askTemplate asks both webhooks, and returns Cluster API's answer.
func askTemplate(t *testing.T, c *tally, q question[controlplanev1.KubeadmControlPlaneTemplate]) error {
	t.Helper()
	their, our := &upstream.KubeadmControlPlaneTemplate{}, &KubeadmControlPlaneTemplate{}
	ctx := t.Context()
	var theirs, ours error
	was := &q.before
	if q.isNew {
		was = nil
		_, theirs = their.ValidateCreate(ctx, conversion.PlainTemplate(&q.after))
		_, ours = our.ValidateCreate(ctx, &q.after)
	} else {
		_, theirs = their.ValidateUpdate(ctx, conversion.PlainTemplate(&q.before), conversion.PlainTemplate(&q.after))
		_, ours = our.ValidateUpdate(ctx, &q.before, &q.after)
	}
	c.judge(t, q.name, theirs, ours, reasonsFor(templateDifferences, was, &q.after, ours != nil))
	if q.isNew {
		_, deleted := their.ValidateDelete(ctx, conversion.PlainTemplate(&q.after))
		_, ours = our.ValidateDelete(ctx, &q.after)
		c.judge(t, q.name+", deleted", deleted, ours, nil)
	}
	return theirs
}

// copied is what the kinds have in common here.
type copied[T any] interface {
	*T
	DeepCopy() *T
}

// single returns questions about each field alone: it is created with each value, and goes from each value to each other.
func single[T any, P copied[T]](name string, base P, fields []place) []question[T] {
	var all []question[T]
	for _, f := range fields {
		made := []P{base.DeepCopy()}
		texts := []string{"as it was"}
		for _, v := range f.values() {
			object := P(base.DeepCopy())
			f.set(object, v)
			made = append(made, object)
			texts = append(texts, fmt.Sprintf("%#v", v))
		}
		for i, after := range made {
			all = append(all, question[T]{name: name + ", " + f.name + " " + texts[i] + ", created", after: *after.DeepCopy(), isNew: true})
			for j, before := range made {
				all = append(all, question[T]{
					name:   name + ", " + f.name + " from " + texts[j] + " to " + texts[i],
					before: *before.DeepCopy(), after: *after.DeepCopy(),
				})
			}
		}
	}
	return all
}

// pairs returns questions about two fields at once, chosen by a fixed seed: created, and set one after the other.
func pairs[T any, P copied[T]](name string, base P, fields []place, number int) []question[T] {
	random := rand.New(rand.NewPCG(1, 2))
	var all []question[T]
	for range number / 2 {
		one, two := &fields[random.IntN(len(fields))], &fields[random.IntN(len(fields))]
		if random.IntN(2) == 0 { // fields with values of their own are few, and what is checked most
			two = special(random, fields)
		}
		first, second := P(base.DeepCopy()), P(nil)
		v, w := pick(random, one.values()), pick(random, two.values())
		one.set(first, v)
		second = first.DeepCopy()
		two.set(second, w)
		text := fmt.Sprintf("%s, %s %#v and %s %#v", name, one.name, v, two.name, w)
		all = append(all, question[T]{name: text + ", created", after: *second.DeepCopy(), isNew: true},
			question[T]{name: text + ", updated", before: *first.DeepCopy(), after: *second.DeepCopy()})
	}
	return all
}

func pick(random *rand.Rand, values []any) any { return values[random.IntN(len(values))] }

func special(random *rand.Rand, fields []place) *place {
	for {
		if f := &fields[random.IntN(len(fields))]; f.special {
			return f
		}
	}
}
