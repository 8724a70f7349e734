package act

import (
	"context"
	"strconv"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// recordNumber writes down the highest number that anything in the cluster has in its name, where that is higher than the one on record: the
// record is older than the cluster. What has the name may be removed before the next machine is made, and the name is not free for that.
func (t *Writer) recordNumber(ctx context.Context) error {
	highest := plan.HighestNumber(t.Facts)
	if !t.Facts.Group.Initialized || t.Facts.Group.Deleting || highest <= observe.LastMachine(t.Object.GetAnnotations()) {
		return nil
	}
	return t.Annotate(ctx, map[string]string{controlplanev1.LastMachineAnnotation: strconv.Itoa(highest)})
}
