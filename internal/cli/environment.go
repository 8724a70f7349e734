package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/embed"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/internal/sandbox"
)

// loadEnvironment reads the environment of --state.
func (a *app) loadEnvironment() (embed.Environment, error) {
	e, err := embed.Load(a.state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, host(fmt.Errorf("there is no environment in %s: `quorate up` makes one", a.state))
	case errors.Is(err, fs.ErrPermission):
		return e, host(fmt.Errorf("%s belongs to root: run this as root, for example with sudo", a.state))
	}
	return e, err
}

// management connects to the management plane, which must run.
func (a *app) management() (client.Client, error) {
	if _, err := a.loadEnvironment(); err != nil {
		return nil, err
	}
	if _, running := embed.Running(a.state); !running {
		return nil, host(fmt.Errorf("the daemon of %s does not run: `quorate up` starts it again, and `quorate logs --daemon` shows its end", a.state))
	}
	return a.connect()
}

// connect makes a client of the management plane, without asking whether that runs.
func (a *app) connect() (client.Client, error) {
	config, err := embed.RESTConfig(a.state)
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management plane: %w", err)
	}
	return c, nil
}

// machines opens the machines of the environment.
func (a *app) machines() (*sandbox.Host, error) {
	e, err := a.loadEnvironment()
	if err != nil {
		return nil, err
	}
	return sandbox.Open(a.state, e.Network, e.NodeBinary)
}

// list returns all clusters.
func list(ctx context.Context, c client.Client) ([]client.ObjectKey, error) {
	keys, err := facts.List(ctx, c)
	if starting(err) {
		return nil, host(errors.New("the management plane does not answer; it may be starting, and `quorate logs --daemon` shows how far it is"))
	}
	return keys, err
}

// starting says whether an error is what a management plane answers that does not serve all kinds yet.
func starting(err error) bool {
	var undiscovered *apiutil.ErrResourceDiscoveryFailed
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		errors.As(err, &undiscovered) || meta.IsNoMatchError(err) || apierrors.IsServiceUnavailable(err)
}

// choose finds the cluster that the arguments name; none: the only one there is.
func (a *app) choose(ctx context.Context, c client.Client, args []string) (client.ObjectKey, error) {
	keys, err := list(ctx, c)
	if err != nil {
		return client.ObjectKey{}, err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	key, err := facts.Choose(name, keys)
	return key, usage(err)
}

// look reads everything about one cluster but its next decision.
func (a *app) look(ctx context.Context, c client.Client, key client.ObjectKey) (facts.Seen, error) {
	h, err := a.machines()
	if err != nil {
		return facts.Seen{}, err
	}
	return facts.See(ctx, c, h, key)
}

// nodeBinary finds quorate-node: beside this program, else in PATH.
func nodeBinary() (string, error) {
	const name = "quorate-node"
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program's own file: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("finding this program's own file: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", host(fmt.Errorf("%s is neither beside %s nor in PATH: `make build` makes it, and it must be installed with quorate", name, self))
	}
	return filepath.Abs(path)
}

// complete offers names for an argument; those that were given already are left out.
func (a *app) complete(most int, names func(context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		var found []string
		for _, n := range names(ctx) {
			if strings.HasPrefix(n, prefix) && !contains(args, n) {
				found = append(found, n)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// clusterNames are for completion: what cannot be found out is left out.
func (a *app) clusterNames(ctx context.Context) []string {
	c, err := a.management()
	if err != nil {
		return nil
	}
	keys, err := facts.List(ctx, c)
	if err != nil {
		return nil
	}
	return strings.Split(facts.Names(keys), ", ")
}

// machineNames are for completion: what cannot be found out is left out.
func (a *app) machineNames(context.Context) []string {
	h, err := a.machines()
	if err != nil {
		return nil
	}
	list, err := h.List()
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}
