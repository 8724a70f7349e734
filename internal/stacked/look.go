package stacked

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/plan"
)

// Look implements group.Kind.
func (k *Kind) Look(ctx context.Context, t *group.Turn) error {
	k.observeInit(ctx, t)
	if err := k.observeKubeadm(ctx, t); err != nil {
		return err
	}
	k.observeExpiries(ctx, t)
	return nil
}

// filesBehind is what was said of kubeadm's files in the cluster, for which spec, and when.
type filesBehind struct {
	behind KubeadmBehind
	of     string
	read   time.Time
}

// observeKubeadm finds out whether kubeadm's files in the cluster are behind. They are
// asked for when a machine is outdated or missing, when the spec has changed, and now and then.
func (k *Kind) observeKubeadm(ctx context.Context, t *group.Turn) error {
	o, m := &t.Facts, memoryOf(t.Memory)
	if !o.Group.Initialized || o.Group.Deleting || o.Group.Paused || !o.Cluster.Reachable || len(o.Uncontrolled) > 0 {
		return nil
	}
	from := fmt.Sprint(of(t).UID, of(t).Generation)
	moving := len(o.Machines) != o.Want.Replicas || slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return m.Outdated != "" })
	age := group.SlowTime
	switch {
	case moving, m.files.behind.Config != "", m.files.behind.Addons != "", m.files.behind.Permissions != "":
		age = filesAge
	case m.files.behind != KubeadmBehind{}, o.Etcd.Managed && !t.Memory.Surveys.Last.Known:
		age = group.SurveyAgeAtRest // a person mends it, or permissions are missing to reach etcd: neither shall wait for long
	}
	if m.files.of != from || o.Now.Sub(m.files.read) >= age {
		behind, err := k.kubeadm(t).Behind(ctx, buildable(t), t.Cluster)
		if err != nil && moving {
			// Machines that join with an old configuration would be as old themselves.
			return fmt.Errorf("looking at kubeadm's files in cluster %s: %w", t.Cluster.Name, err)
		}
		if err == nil {
			m.files = filesBehind{behind: behind, of: from, read: o.Now}
		}
	}
	b := m.files.behind
	o.Cluster.Kubeadm, o.Cluster.Addons, o.Cluster.Permissions = b.Config, b.Addons, b.Permissions
	o.Cluster.KubeadmUnusable, o.Cluster.AddonsRefused = b.ConfigUnusable, b.AddonsRefused
	return nil
}

// observeInit finds out whether the first machine has initialised the cluster. It never turns back.
func (k *Kind) observeInit(ctx context.Context, t *group.Turn) {
	o := &t.Facts
	if o.Group.Initialized || o.Group.Deleting || o.Group.Paused || !o.Cluster.Reachable {
		return
	}
	// A machine that is deleted while it initialises takes the cluster with it; those that
	// others made may have others beside them.
	if o.Group.New && !slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return !m.Deleting }) {
		return
	}
	missing, err := k.kubeadm(t).Initialised(ctx, of(t), t.Cluster)
	if err != nil {
		// An API server that has just come up may fail yet; the next turn asks again.
		missing = err.Error()
	}
	o.Cluster.Initializing = missing
	if missing == "" {
		o.Group.Initialized, o.Group.New = true, false
	}
}

// filesAge is how long kubeadm's files in the cluster are believed while machines join or the files are behind.
// What we write ourselves is read again at once.
const filesAge = 10 * time.Second
