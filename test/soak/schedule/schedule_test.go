package schedule

import (
	"fmt"
	"reflect"
	"testing"
)

func names(of string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(of, i))
	}
	return all
}

// TestDrawIsAFunctionOfTheSeed: a seed repeats its rounds, another one draws others, and more rounds continue fewer.
func TestDrawIsAFunctionOfTheSeed(t *testing.T) {
	o, f := names("o", 7), names("f", 7)
	first := Draw(3, 60, o, f)
	if again := Draw(3, 60, o, f); !reflect.DeepEqual(first, again) {
		t.Error("the same seed gave other rounds")
	}
	if other := Draw(4, 60, o, f); reflect.DeepEqual(first, other) {
		t.Error("another seed gave the same rounds")
	}
	if fewer := Draw(3, 20, o, f); !reflect.DeepEqual(first[:20], fewer) {
		t.Error("fewer rounds are not the first of more")
	}
	if !reflect.DeepEqual(o, names("o", 7)) || !reflect.DeepEqual(f, names("f", 7)) {
		t.Error("the names that were given were changed")
	}
}

// TestDrawMeetsEachPair: each pair once in a cycle, and each name in as many rounds as there are names.
func TestDrawMeetsEachPair(t *testing.T) {
	for _, size := range [][2]int{{7, 7}, {8, 7}, {6, 9}, {1, 4}, {4, 1}, {8, 4}, {1, 1}} {
		o, f := names("o", size[0]), names("f", size[1])
		for seed := range uint64(50) {
			met, early := map[string]int{}, map[string]bool{}
			for i, r := range Draw(seed, size[0]*size[1], o, f) {
				met[r.Operation+r.Fault]++
				if i < max(size[0], size[1]) {
					early[r.Operation], early[r.Fault] = true, true
				}
				if r.Delay < 0 || r.Delay >= longestDelay || r.Lasts < shortestFault || r.Lasts >= longestFault {
					t.Errorf("seed %d: %+v is out of bounds", seed, r)
				}
			}
			if len(met) != size[0]*size[1] {
				t.Errorf("%v, seed %d: %d pairs were met", size, seed, len(met))
			}
			if len(early) != size[0]+size[1] {
				t.Errorf("%v, seed %d: only %v are met early", size, seed, early)
			}
		}
	}
	if got := Draw(1, 5, nil, names("f", 2)); got != nil {
		t.Errorf("without operations there is nothing to draw, not %v", got)
	}
}
