package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/embed"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// machineLogs are the logs of a machine's own processes; all other components are containers.
var machineLogs = []string{"init", "bootstrap", "containerd", "kubelet"}

func (a *app) logsCommand() *cobra.Command {
	var component string
	var follow, daemon bool
	lines := -1
	cmd := &cobra.Command{
		Use:   "logs [MACHINE]",
		Short: "Show the log of a machine's component, or the daemon's",
		Long: `Show a log of a machine: of its first process (init), of the bootstrap data and kubeadm (bootstrap), of containerd, of the
kubelet, or of a container such as etcd or kube-apiserver. Without --component it is the kubelet's, or, while the machine is
not bootstrapped, the bootstrap's. The logs of machines that are stopped can be read as well.`,
		Example: `  quorate logs demo-cp-1
  quorate logs demo-cp-2 --component bootstrap
  quorate logs demo-cp-2 --component etcd --tail 50 -f
  quorate logs --daemon -f           # of the management plane`,
		ValidArgsFunction: a.complete(1, a.machineNames),
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case lines < -1:
				return fmt.Errorf("--tail is %d: 0 or more would be accepted, or -1 for all", lines)
			case daemon && (len(args) > 0 || component != ""):
				return errors.New("--daemon takes no machine and no --component")
			case !daemon && len(args) != 1:
				return errors.New("the name of one machine, or --daemon, would be accepted; `quorate machine list` lists machines")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var log logFile
			var err error
			if daemon {
				log, err = a.daemonLog()
			} else {
				log, err = a.machineLog(args[0], component)
			}
			if err != nil {
				return err
			}
			return a.copyLog(cmd.Context(), log, lines, follow)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&component, "component", "c", "", "init, bootstrap, containerd, kubelet, or a container: etcd, kube-apiserver, ...")
	f.BoolVarP(&follow, "follow", "f", false, "go on with what is written, until interrupted")
	f.IntVar(&lines, "tail", -1, "only the last lines, so many; -1 for all")
	f.BoolVar(&daemon, "daemon", false, "the log of the management plane's daemon")
	_ = cmd.RegisterFlagCompletionFunc("component", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(slices.Clone(machineLogs), sandbox.Components()...), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func (a *app) copyLog(ctx context.Context, log logFile, lines int, follow bool) error {
	err := log.copyTo(ctx, a.Out, lines, follow)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nothing was logged yet: %w", err)
	}
	return err
}

func (a *app) daemonLog() (logFile, error) {
	if _, err := a.loadEnvironment(); err != nil {
		return logFile{}, err
	}
	return logFile{current: there(embed.LogPath(a.state))}, nil
}

func there(path string) func() (string, error) {
	return func() (string, error) {
		_, err := os.Stat(path)
		return path, err
	}
}

func (a *app) machineLog(name, component string) (logFile, error) {
	h, err := a.machines()
	if err != nil {
		return logFile{}, err
	}
	m, err := h.Get(name)
	if err != nil {
		return logFile{}, a.noMachine(h, name, err)
	}
	if component == "" {
		component = "kubelet"
		if m.Bootstrap.Phase != sandbox.BootstrapSucceeded {
			component = "bootstrap"
		}
	}
	if slices.Contains(machineLogs, component) {
		return logFile{plain: withoutTokens, current: there(filepath.Join(h.Logs(name), component+".log"))}, nil
	}
	pods := filepath.Join(filepath.Dir(h.Logs(name)), "disk/var/log/pods")
	return logFile{plain: containerLine, current: func() (string, error) { return newestLog(pods, component) }}, nil
}

// token is a bootstrap token of kubeadm, which prints it when it is done: whoever has it may join for some minutes.
var token = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)

func withoutTokens(line []byte) []byte { return token.ReplaceAll(line, []byte("<token>")) }

// newestLog finds the newest log of a container by its name, below the kubelet's folder of logs
// (NAMESPACE_POD_UID/CONTAINER/N.log).
func newestLog(pods, container string) (string, error) {
	files, err := filepath.Glob(filepath.Join(pods, "*", globQuote(container), "*.log"))
	if err != nil {
		return "", fmt.Errorf("looking for logs of %s: %w", container, err)
	}
	newest, when := "", int64(0)
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			continue // rotated meanwhile
		}
		if t := info.ModTime().UnixNano(); newest == "" || t > when {
			newest, when = f, t
		}
	}
	if newest == "" {
		return "", fmt.Errorf("%w: there is no container %q; there is %s", fs.ErrNotExist, container, strings.Join(containers(pods), ", "))
	}
	return newest, nil
}

func globQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// containers are the names that have logs, after those of the machine itself.
func containers(pods string) []string {
	names := slices.Clone(machineLogs)
	folders, err := filepath.Glob(filepath.Join(pods, "*", "*"))
	if err != nil {
		return names
	}
	for _, f := range folders {
		if n := filepath.Base(f); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}
