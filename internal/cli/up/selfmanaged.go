package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/local/selfmanaged"
)

// checkSelfManaged looks for what --self-managed cannot be combined with.
func (u *up) checkSelfManaged() error {
	if !u.given("self-managed") {
		return nil
	}
	if u.given("filename") {
		return errors.New("--self-managed cannot be combined with -f: make the cluster first, and name it with --name afterwards")
	}
	if !u.wait {
		return errors.New("--self-managed cannot be combined with --wait=false: providers are installed in a cluster that is up")
	}
	if keeper, kept := selfmanaged.Keeper(u.State); kept && keeper.Key() != u.targets()[0] {
		return fmt.Errorf("--self-managed: cluster %s is the management cluster of this environment; `quorate up --name %s "+
			"--self-managed=false` gives its Clusters back first", keeper, keeper.Name)
	}
	return nil
}

// managerBinary finds quorate-manager, which runs in a cluster that keeps itself; empty where none is to.
func (b *bringUp) managerBinary() (string, error) {
	if !b.selfManaged {
		return "", nil
	}
	path := filepath.Join(filepath.Dir(b.nodeBinary), "quorate-manager")
	if _, err := os.Stat(path); err != nil {
		return "", command.HostLacks(fmt.Errorf("--self-managed: there is no %s, which runs in the cluster: `make build` makes it", path))
	}
	return path, nil
}

// keep makes the cluster the management cluster, or no longer, where that was asked for.
func (b *bringUp) keep(ctx context.Context) error {
	_, kept := selfmanaged.Keeper(b.State)
	if !b.given("self-managed") || !b.selfManaged && !kept {
		return nil
	}
	o := selfmanaged.Options{
		Daemon: b.options(b.nodeBinary), Cluster: b.targets()[0],
		Stage: func(name string, step func(func(string)) (string, error)) error {
			return command.Stage(b.screen, name, func() (string, error) {
				ticker := command.NewTicker(b.screen)
				defer ticker.Stop()
				return step(ticker.Say)
			})
		},
	}
	if !b.selfManaged {
		if err := selfmanaged.GiveBack(ctx, o); err != nil {
			return err
		}
		return b.moved(ctx)
	}
	var err error
	if o.Manager, err = b.managerBinary(); err != nil {
		return err
	}
	if err := selfmanaged.Take(ctx, o); err != nil {
		return err
	}
	return b.moved(ctx)
}

// moved waits until the status of the cluster says, where it was moved to, what it said before. A move leaves statuses behind, and a
// Cluster that is paused before they are written again has Machines without Nodes.
func (b *bringUp) moved(ctx context.Context) error {
	begun := time.Now()
	c, err := b.Connect()
	if err != nil {
		return err
	}
	w := &watcher{Watcher: command.Watcher{Invocation: b.Invocation, Screen: b.screen, Client: c, Key: b.targets()[0]}}
	last, err := b.watch(ctx, w, func(seen report.Cluster) (bool, error) {
		if up, err := w.up(seen); !up || err != nil || seen.ControlPlane.Inactive() {
			return up, err
		}
		var machines clusterv1.MachineList
		if err := c.List(ctx, &machines, client.InNamespace(w.Key.Namespace),
			client.MatchingLabels{clusterv1.ClusterNameLabel: w.Key.Name}); err != nil {
			return false, nil //nolint:nilerr // it is looked at again
		}
		return !slices.ContainsFunc(machines.Items, withoutNode), nil
	})
	if err == nil && !last.ControlPlane.Inactive() {
		b.ready(w.Key, time.Since(begun))
	}
	return err
}

// withoutNode reports whether a Machine is to have a Node, which those of an etcd cluster are not, and has none.
func withoutNode(m clusterv1.Machine) bool {
	_, worker := m.Labels[clusterv1.MachineDeploymentNameLabel]
	return (worker || util.IsControlPlaneMachine(&m)) && m.DeletionTimestamp.IsZero() && !m.Status.NodeRef.IsDefined()
}
