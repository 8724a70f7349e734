package observe

import (
	"slices"
	"strconv"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
)

// TestKeepNames: of many names those are kept that a new machine could get next: names with dates, or made up, do not push them out.
func TestKeepNames(t *testing.T) {
	names := []string{"demo-4", "demo-7", "other", "demo-x"}
	for day := range 2 * mostNames {
		names = append(names, "demo-"+strconv.Itoa(20261101+day))
	}
	turn := &Observer{View: &View{Facts: plan.Observed{Want: plan.Want{NameFormat: "demo-%s"}}}}
	wants{turn.View}.keepNames(names)
	kept := turn.Facts.Cluster.Names
	if !slices.Contains(kept, "demo-4") || !slices.Contains(kept, "demo-7") || len(kept) != mostNames || !slices.IsSorted(kept) {
		t.Errorf("kept %q", kept)
	}
	if n := plan.HighestNumber(turn.Facts); n != 7 {
		t.Errorf("the highest number is %d, want 7", n)
	}
}
