package act

import (
	"context"
	"time"

	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/group/observe"
)

// WriteKubeadm brings those of kubeadm's files up to date that are a chore's.
func (t *Writer) WriteKubeadm(ctx context.Context, chore string, want kubeadm.Wanted) error {
	t.Memory.Files = observe.FilesSeen{}
	if chore == observe.ChorePermissions {
		t.Memory.Surveys.At = time.Time{} // members that were out of reach may answer now
	}
	var err error
	observe.Aside(ctx, func() { err = t.Files().Write(ctx, t.Cluster, want, chore) })
	return err
}
