package plan_test

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/plan/rows"
)

// TestPlainData: what is observed and decided holds no clients, no interfaces,
// no pointers and no functions, and a step can be compared.
func TestPlainData(t *testing.T) {
	for _, v := range []any{plan.Observed{}, plan.Decision{}, plan.Verdict{}} {
		plain(t, reflect.TypeOf(v), reflect.TypeOf(v).Name())
	}
}

// Steps and decisions can be compared, or this does not compile.
var (
	_ = map[plan.Step]bool{}
	_ = map[plan.Decision]bool{}
)

func plain(t *testing.T, typ reflect.Type, path string) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Struct:
		if typ == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() || f.Tag.Get("json") == "" {
				t.Errorf("%s.%s would be lost when it is written as JSON", path, f.Name)
			}
			plain(t, f.Type, path+"."+f.Name)
		}
	case reflect.Slice:
		plain(t, typ.Elem(), path+"[]")
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.String:
	default:
		t.Errorf("%s is a %s: not plain data", path, typ.Kind())
	}
}

// TestOrderDecidesNothing: whatever order the facts come in, the decision, its
// message and what the rules say are the same.
func TestOrderDecidesNothing(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	text := func(o plan.Observed) string {
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, file := range []string{"testdata/next.txt", "testdata/explain.txt", "../check/testdata/check.txt"} {
		rows.Answer(t, file, *update, func(o plan.Observed, below []string) []string {
			want, said := plan.Next(o), plan.Explain(o)
			for range 8 {
				shuffle(random, o.Machines)
				for i := range o.Machines {
					shuffle(random, o.Machines[i].Components)
				}
				shuffle(random, o.Etcd.Members)
				shuffle(random, o.Want.Domains)
				shuffle(random, o.Workers)
				shuffle(random, o.Cluster.Names)
				shuffle(random, o.Uncontrolled)
				before := text(o)
				if got := plan.Next(o); got != want {
					t.Errorf("got %s, and %s when shuffled", want, got)
				}
				if got := plan.Explain(o); !reflect.DeepEqual(got, said) {
					t.Errorf("got %v, and %v when shuffled", said, got)
				}
				if text(o) != before {
					t.Errorf("deciding changed what was observed")
				}
			}
			return below
		})
	}
}

func shuffle[T any](random *rand.Rand, list []T) {
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}
