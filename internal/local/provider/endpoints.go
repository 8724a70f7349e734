package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/local/balancer"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// endpoints has one balancer process for each endpoint: a LocalCluster has that of its API, and one of etcd while it has machines of that.
// The processes outlive this one.
type endpoints struct {
	state      string
	nodeBinary string
	addresses  addresses
	// ended is called with the key of a LocalCluster whose process has ended.
	ended func(client.ObjectKey)

	mu      sync.Mutex
	watched map[client.ObjectKey]bool
}

// addresses has the host answer for the endpoints' addresses.
type addresses interface {
	add(ctx context.Context, a netip.Addr) error
	remove(a netip.Addr) error
}

func endpointsFolder(state string) string { return filepath.Join(state, "endpoints") }

// EndpointConfig is the configuration file of a LocalCluster's endpoint in a state folder; package balancer says which other
// files belong to it.
func EndpointConfig(state string, cluster client.ObjectKey) string {
	// Dots in names would be taken for those before the files' extensions; no name has an underscore.
	name := cluster.Namespace + "." + strings.ReplaceAll(cluster.Name, ".", "_")
	return filepath.Join(endpointsFolder(state), name+".json")
}

// etcdSuffix follows the name of a LocalCluster in the key of its second endpoint, that of etcd. No object's name has it.
const etcdSuffix = "~etcd"

// ofEtcd is the key of a LocalCluster's endpoint of etcd.
func ofEtcd(cluster client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + etcdSuffix}
}

// clusterOf is the LocalCluster that an endpoint belongs to.
func clusterOf(endpoint client.ObjectKey) client.ObjectKey {
	endpoint.Name = strings.TrimSuffix(endpoint.Name, etcdSuffix)
	return endpoint
}

// serve has a process take connections on want.Listen for the backends. It may be repeated.
func (e *endpoints) serve(ctx context.Context, key client.ObjectKey, want balancer.Config) error {
	file := EndpointConfig(e.state, key)
	have, err := balancer.Load(file)
	if err == nil && have.Listen != want.Listen {
		// A process cannot change where it listens.
		if err := e.stop(ctx, key); err != nil {
			return err
		}
	}
	if err := e.prepare(ctx, file, want); err != nil {
		return err
	}
	if _, ok := balancer.Running(file); !ok {
		if err := balancer.Start(ctx, e.nodeBinary, file); err != nil {
			return err
		}
	}
	e.watch(ctx, key)
	return nil
}

// backends are those that an endpoint leads to now.
func (e *endpoints) backends(key client.ObjectKey) []balancer.Backend {
	have, err := balancer.Load(EndpointConfig(e.state, key))
	if err != nil {
		return nil // there is no such endpoint yet
	}
	return have.Backends
}

// prepare has the address on the host and the configuration in its file.
func (e *endpoints) prepare(ctx context.Context, file string, want balancer.Config) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := os.MkdirAll(endpointsFolder(e.state), 0o700); err != nil {
		return fmt.Errorf("making the folder of endpoints: %w", err)
	}
	listen, err := netip.ParseAddrPort(want.Listen)
	if err != nil {
		return fmt.Errorf("endpoint address %q: %w", want.Listen, err)
	}
	if err := e.addresses.add(ctx, listen.Addr()); err != nil {
		return err
	}
	if have, err := balancer.Load(file); err == nil && reflect.DeepEqual(have, want) {
		return nil
	}
	return want.Save(file)
}

// watch calls ended once the process has ended, also if an earlier life of this one started it.
func (e *endpoints) watch(ctx context.Context, key client.ObjectKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watched[key] {
		return
	}
	e.watched[key] = true
	ctx = context.WithoutCancel(ctx) // it goes on after the call
	go func() {
		err := balancer.Wait(ctx, EndpointConfig(e.state, key))
		e.mu.Lock()
		delete(e.watched, key)
		e.mu.Unlock()
		if err == nil {
			e.ended(clusterOf(key))
		}
	}()
}

// stop ends the process and removes its files and the address.
func (e *endpoints) stop(ctx context.Context, key client.ObjectKey) error {
	file := EndpointConfig(e.state, key)
	if err := balancer.Stop(ctx, file); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// The configuration tells which address it was, even if the object says another by now.
	if config, err := balancer.Load(file); err == nil {
		if err := e.release(file, config.Listen); err != nil {
			return err
		}
	}
	return removeFiles(file)
}

// release removes the address of an endpoint unless another endpoint has it too.
func (e *endpoints) release(file, listen string) error {
	address := netip.MustParseAddrPort(listen).Addr()
	files, err := configFiles(e.state)
	if err != nil {
		return err
	}
	for _, other := range files {
		config, err := balancer.Load(other)
		if err == nil && other != file && netip.MustParseAddrPort(config.Listen).Addr() == address {
			return nil
		}
	}
	return e.addresses.remove(address)
}

// drained reports whether waiting for connections to a backend to end has an end itself.
func (e *endpoints) drained(key client.ObjectKey, backend string) bool {
	file := EndpointConfig(e.state, key)
	if _, ok := balancer.Running(file); !ok {
		return true
	}
	status, err := balancer.ReadStatus(file)
	return err != nil || status.Drained(backend)
}

// Teardown ends all endpoint processes of a state folder and removes their files. Addresses go with the bridge. It needs
// nothing but the files, and may be repeated.
func Teardown(ctx context.Context, state string) error {
	files, err := configFiles(state)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := balancer.Stop(ctx, file); err != nil {
			return err
		}
		if err := removeFiles(file); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(endpointsFolder(state)); err != nil {
		return fmt.Errorf("removing the folder of endpoints: %w", err)
	}
	return nil
}

// configFiles are the configuration files of all endpoints, also those of which only the process's own file is left. Sorted.
func configFiles(state string) ([]string, error) {
	entries, err := os.ReadDir(endpointsFolder(state))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}
	var files []string
	for _, entry := range entries {
		// namespace.name.json, namespace.name.status.json, ...
		if parts := strings.Split(entry.Name(), "."); len(parts) == 3 && (parts[2] == "json" || parts[2] == "pid") {
			files = append(files, filepath.Join(endpointsFolder(state), parts[0]+"."+parts[1]+".json"))
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// removeFiles removes the configuration last: as long as it is there, the rest is found again.
func removeFiles(file string) error {
	for _, f := range []string{balancer.StatusFile(file), balancer.LogFile(file), balancer.PIDFile(file), file} {
		if err := atomicfile.Remove(f); err != nil {
			return fmt.Errorf("removing the files of an endpoint: %w", err)
		}
	}
	return nil
}
