package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/manager"
)

// Bundle is what QUORATE_BUNDLE, QUORATE_BUNDLE_KEY and QUORATE_BUNDLE_SHA256 name; nil: nothing.
func (a *Invocation) Bundle() *artifacts.Bundle {
	from := a.Environment("QUORATE_BUNDLE")
	if from == "" {
		return nil
	}
	return &artifacts.Bundle{From: from, KeyFile: a.Environment("QUORATE_BUNDLE_KEY"), SHA256: a.Environment("QUORATE_BUNDLE_SHA256"),
		Warn: a.Warn}
}

// Warn writes a warning to standard error.
func (a *Invocation) Warn(text string) {
	_, _ = fmt.Fprintf(a.Err, "warning: %s\n", text)
}

// LoadEnvironment reads the environment of --state.
func (a *Invocation) LoadEnvironment() (embed.Environment, error) {
	e, err := embed.Load(a.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, HostLacks(fmt.Errorf("there is no environment in %s: `quorate up` makes one", a.State))
	case errors.Is(err, fs.ErrPermission):
		return e, HostLacks(fmt.Errorf("%s belongs to root: run this as root, for example with sudo", a.State))
	}
	return e, err
}

// AddManagementTo gives a command the flags that name a management cluster of the user's own. It may use nothing else of the environment.
func (a *Invocation) AddManagementTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.Kubeconfig, "kubeconfig", "",
		"a kubeconfig of a management cluster, to look at that instead of this host's environment")
	cmd.Flags().StringVar(&a.Context, "context", "", "the same, by a context of your kubeconfig")
}

// asPlugin reports whether the program was started by kubectl, and so is about the cluster that kubectl is about.
func (a *Invocation) asPlugin() bool { return a.Environment("QUORATE_KUBECTL") != "" }

// Management connects to the management plane, which must run, or to the management cluster that is named.
func (a *Invocation) Management() (client.Client, error) {
	if !a.IsOwnManagement() {
		config, err := kubeconfig.Own(a.Kubeconfig, a.Context)
		if err != nil {
			return nil, err
		}
		return clientOf(config)
	}
	if _, err := a.LoadEnvironment(); err != nil {
		return nil, err
	}
	if _, running := embed.Running(a.State); !running {
		return nil, HostLacks(fmt.Errorf("the daemon of %s does not run: `quorate up` starts it again, and `quorate logs --daemon` shows its end",
			a.State))
	}
	return a.Connect()
}

// IsOwnManagement reports whether Management is the management plane of quorate up, and not one of somebody else's that a kubeconfig names.
func (a *Invocation) IsOwnManagement() bool {
	return a.Kubeconfig == "" && a.Context == "" && !a.asPlugin()
}

// SettlePlans drops from plans what only another environment needs: the manager of quorate up has an upgrader image for each version.
func (a *Invocation) SettlePlans(plans []report.Plan) {
	if !a.IsOwnManagement() {
		return
	}
	for i := range plans {
		plans[i].NotKnown = ""
	}
}

// Connect makes a client of the management plane, without asking whether that runs.
func (a *Invocation) Connect() (client.Client, error) {
	config, err := embed.RESTConfig(a.State)
	if err != nil {
		return nil, err
	}
	return clientOf(config)
}

// clientOf makes a client of a management plane. Its requests are limited by how many are made at once, and by the API server. client-go
// would allow five a second, with which a look at a control plane of seven takes several seconds.
func clientOf(config *rest.Config) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management plane: %w", err)
	}
	return c, nil
}

// Machines opens the machines of the environment.
func (a *Invocation) Machines() (*sandbox.Host, error) {
	e, err := a.LoadEnvironment()
	if err != nil {
		return nil, err
	}
	return sandbox.Open(a.State, e.Network, e.NodeBinary)
}

// OwnMachines opens the machines of the environment, if Management is its management plane; nil: it is another one.
func (a *Invocation) OwnMachines() (*sandbox.Host, error) {
	if !a.IsOwnManagement() {
		return nil, nil
	}
	return a.Machines()
}

// Clusters returns all clusters.
func Clusters(ctx context.Context, c client.Reader) ([]client.ObjectKey, error) {
	keys, err := facts.List(ctx, c)
	if starting(err) {
		return nil, HostLacks(
			errors.New("the management plane does not answer; it may be starting, and `quorate logs --daemon` shows how far it is"))
	}
	return keys, err
}

// starting reports whether an error is what a management plane answers that does not serve all kinds yet.
func starting(err error) bool {
	var undiscovered *apiutil.ErrResourceDiscoveryFailed
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		errors.As(err, &undiscovered) || meta.IsNoMatchError(err) || apierrors.IsServiceUnavailable(err)
}

// Choose finds the cluster that the arguments name, by its own name or that of its control plane; none: the only one there is.
func (a *Invocation) Choose(ctx context.Context, c client.Reader, args []string) (client.ObjectKey, error) {
	keys, err := Clusters(ctx, c)
	if err != nil {
		return client.ObjectKey{}, err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	key, err := facts.Choose(name, keys)
	if name != "" && errors.Is(err, facts.ErrNoCluster) {
		if of, failure := facts.OfControlPlane(ctx, c, name); failure == nil && len(of) == 1 {
			return of[0], nil
		}
	}
	return key, Usage(err)
}

// Cluster is the cluster that the arguments name, or the only one, and the client of its management cluster.
func (a *Invocation) Cluster(ctx context.Context, args []string) (client.Client, client.ObjectKey, error) {
	c, err := a.Management()
	if err != nil {
		return nil, client.ObjectKey{}, err
	}
	key, err := a.Choose(ctx, c, args)
	return c, key, err
}

// Look reads everything about one cluster but its next decision.
func (a *Invocation) Look(ctx context.Context, c client.Client, key client.ObjectKey) (facts.Seen, error) {
	h, err := a.Machines()
	if err != nil {
		return facts.Seen{}, err
	}
	return facts.See(ctx, c, h, key)
}

// NodeBinary finds quorate-node: beside this program, else in PATH.
func NodeBinary() (string, error) {
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
		return "", HostLacks(fmt.Errorf("%s is neither beside %s nor in PATH: `make build` makes it, and it must be installed with quorate", name,
			self))
	}
	return filepath.Abs(path)
}

// Complete offers names for an argument; those that were given already are left out.
func (a *Invocation) Complete(most int, names func(context.Context) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		var found []string
		for _, n := range names(ctx) {
			if strings.HasPrefix(n, prefix) && !slices.Contains(args, n) {
				found = append(found, n)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// ClusterNames are for completion: what cannot be found out is left out.
func (a *Invocation) ClusterNames(ctx context.Context) []string {
	c, err := a.Management()
	if err != nil {
		return nil
	}
	keys, err := facts.List(ctx, c)
	if err != nil {
		return nil
	}
	return strings.Split(facts.Names(keys), ", ")
}

// MachineNames are for completion: what cannot be found out is left out.
func (a *Invocation) MachineNames(context.Context) []string {
	h, err := a.Machines()
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

// GlobQuote makes a pattern that a name alone matches.
func GlobQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
