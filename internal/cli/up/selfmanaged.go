package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/selfmanaged"
)

// checkSelfManaged looks for what --self-managed cannot be combined with.
func (u *up) checkSelfManaged() error {
	if !u.given("self-managed") {
		return nil
	}
	if u.given("filename") {
		return errors.New("--self-managed and -f exclude each other: make the cluster first, and name it with --name afterwards")
	}
	if !u.wait {
		return errors.New("--self-managed and --wait=false exclude each other: providers are installed in a cluster that is up")
	}
	if keeper, kept := selfmanaged.Keeper(u.State); kept && keeper.Key() != u.targets()[0] {
		return fmt.Errorf("--self-managed: cluster %s is the management cluster of this environment; `quorate up --name %s --self-managed=false` gives its Clusters back first", keeper, keeper.Name)
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
		return selfmanaged.GiveBack(ctx, o)
	}
	var err error
	if o.Manager, err = b.managerBinary(); err != nil {
		return err
	}
	return selfmanaged.Take(ctx, o)
}
