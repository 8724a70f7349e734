package observe

import (
	"context"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group/inplace"
)

// noUpgrader is the reason of a plan that waits for an upgrader image.
const noUpgrader = "NoUpgraderImage"

// upgraderSeen is what was found of the upgrader image for a version.
type upgraderSeen struct {
	version, missing string
	read             time.Time
}

// addUpgrader adds that no image can upgrade nodes in place to the wanted version. It looks before the first machine is touched: an update
// that has begun has an image, or reports by itself that it has none.
func (t *Observer) addUpgrader(ctx context.Context) error {
	if t.Upgraders == nil || !t.needsUpgrader() {
		return nil
	}
	version := t.Own.Updates.Goal(t.View).Version
	seen, believed := &t.Memory.upgrader, SlowTime
	if seen.missing != "" {
		believed = SlowMissing
	}
	if seen.version != version || !t.Facts.Now.Before(seen.read.Add(believed)) {
		image, err := t.Upgraders.Of(ctx, t.Object.GetNamespace(), version)
		if err != nil {
			return err
		}
		*seen = upgraderSeen{version: version, read: t.Facts.Now}
		if image == "" {
			seen.missing = t.Upgraders.Missing(t.Object.GetNamespace(), version)
		}
	}
	t.Facts.Group.NoUpgrader = seen.missing
	return nil
}

// addReportedUpgrader adds what the manager reported of a missing image for the wanted version. The command line does not see the manager's
// flag.
func (t once) addReportedUpgrader() {
	p := t.Kind.Status(t.Object).Plan
	if p.Reason != noUpgrader || !t.needsUpgrader() {
		return
	}
	if at := strings.Index(p.Message, "no upgrader image for "+t.Own.Updates.Goal(t.View).Version+":"); at >= 0 {
		t.Facts.Group.NoUpgrader = p.Message[at:]
	}
}

// unseenUpgrader returns the wanted version if the manager needs an upgrader image for it, and nothing that is seen reports whether it has
// one. It looks for a report of
// the manager, an upgrade that it began, and the ConfigMap in the cluster's namespace, which some users may not read.
func (t once) unseenUpgrader(ctx context.Context, from client.Reader) string {
	if t.Facts.Group.NoUpgrader != "" || !t.needsUpgrader() {
		return ""
	}
	version := t.Own.Updates.Goal(t.View).Version
	if slices.ContainsFunc(t.Updates.Nodes, func(u inplace.NodeUpgrade) bool { return u.Spec.KubernetesVersion == version }) {
		return ""
	}
	images := inplace.Upgraders{Reader: from}
	if image, err := images.Of(ctx, t.Object.GetNamespace(), version); err == nil && image != "" {
		return ""
	}
	return version
}

// needsUpgrader reports whether Quorate's own upgrader is to update a machine in place that it has not begun with.
func (t *Observer) needsUpgrader() bool {
	if !t.Facts.Policy.InPlace.Ours() || t.ByExtension() || t.Facts.Group.Deleting || t.Facts.Group.Paused {
		return false
	}
	for _, m := range t.Machines {
		if t.IsAsked(m) && m.Facts.NeedsReplacement == "" {
			return true
		}
	}
	return false
}
