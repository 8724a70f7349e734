package provider

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/local/balancer"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// Revive has all endpoints served as their files say and, with booted, the machines of a cluster run unless they were stopped on purpose.
// It is for a cluster that has the objects of its own machines: they can only be read when it runs. Without booted, machines are left as
// they are: one that died by itself stays dead.
func Revive(ctx context.Context, o Options, cluster client.ObjectKey, booted bool) error {
	return revive(ctx, o.Host, &endpoints{state: o.State, nodeBinary: o.NodeBinary, addresses: hostAddresses{o.Host}}, cluster, booted)
}

func revive(ctx context.Context, host machines, served *endpoints, cluster client.ObjectKey, booted bool) error {
	files, err := configFiles(served.state)
	if err != nil {
		return err
	}
	var failures []error
	for _, file := range files {
		if err := served.again(ctx, file); err != nil {
			failures = append(failures, fmt.Errorf("serving the endpoint of %s: %w", file, err))
		}
	}
	if booted {
		failures = append(failures, startAll(ctx, host, cluster))
	}
	return errors.Join(failures...)
}

// again has an endpoint served as its file says. The controller of its LocalCluster watches the process.
func (e *endpoints) again(ctx context.Context, file string) error {
	config, err := balancer.Load(file)
	if err != nil {
		return err
	}
	if err := e.prepare(ctx, file, config); err != nil {
		return err
	}
	if _, ok := balancer.Running(file); ok {
		return nil
	}
	return balancer.Start(ctx, e.nodeBinary, file)
}

// startAll starts the machines of a cluster that should run and do not.
func startAll(ctx context.Context, host machines, cluster client.ObjectKey) error {
	all, err := host.List()
	if err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	var failures []error
	for _, s := range all {
		if s.Cluster != cluster.String() || s.State != sandbox.Dead {
			continue
		}
		if err := host.Ensure(ctx, s.Spec); err != nil {
			failures = append(failures, fmt.Errorf("starting machine %s: %w", s.Name, err))
		}
	}
	return errors.Join(failures...)
}
