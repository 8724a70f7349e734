package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// machineLogs are the logs of a machine's own processes; all other components are containers. A machine of etcd has no containers.
var machineLogs = []string{"init", "bootstrap", "containerd", "kubelet"}

func (a *app) logsCommand() *cobra.Command {
	var component string
	var follow, daemon bool
	lines := -1
	cmd := &cobra.Command{
		Use:   "logs [MACHINE]",
		Short: "Show the log of a machine's component, or the daemon's",
		Long: `Show a log of a machine: of its first process (init), of the bootstrap data and kubeadm (bootstrap), of containerd, of the
kubelet, or of a container such as etcd or kube-apiserver. Without --component it is the kubelet's, on a machine of an etcd
cluster etcd's, or, while the machine is not bootstrapped, the bootstrap's. The logs of machines that are stopped can be read as
well. Tokens, keys and what a terminal would act on are not shown.`,
		Example: `  quorate logs demo-cp-1
  quorate logs demo-cp-2 --component bootstrap
  quorate logs demo-cp-2 --component etcd --tail 50 -f
  quorate logs --daemon -f           # of the management plane`,
		ValidArgsFunction: a.Complete(1, a.MachineNames),
		Args: func(cmd *cobra.Command, args []string) error {
			if lines < -1 {
				return fmt.Errorf("invalid --tail \"%d\": must be 0 or more, or -1 for all", lines)
			}
			return checkLogSource(args, component, daemon)
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

// checkLogSource says why arguments and flags name no log: it is that of one machine, or of the daemon.
func checkLogSource(machines []string, component string, daemon bool) error {
	switch {
	case daemon && (len(machines) > 0 || component != ""):
		return errors.New("--daemon takes no machine and no --component")
	case !daemon && len(machines) != 1:
		return errors.New("expected the name of one machine, or --daemon; `quorate machine list` lists machines")
	}
	return nil
}

func (a *app) copyLog(ctx context.Context, log logFile, lines int, follow bool) error {
	err := log.copyTo(ctx, a.Out, lines, follow)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("nothing was logged yet: %w", err)
	}
	return err
}

func (a *app) daemonLog() (logFile, error) {
	if _, err := a.LoadEnvironment(); err != nil {
		return logFile{}, err
	}
	return daemonLog(a.State), nil
}

// daemonLog is the log of the management plane whose state folder is given.
func daemonLog(state string) logFile {
	var lines plaintext.Lines
	return logFile{plain: lines.Redact, current: there(embed.LogPath(state))}
}

// DaemonTail is the end of the log of the management plane whose state folder is given, as many lines, as `quorate logs --daemon` shows it.
func DaemonTail(ctx context.Context, state string, lines int) (string, error) {
	return daemonLog(state).tail(ctx, lines)
}

// Tail calls do with the end of each log that a machine of this host has, as many lines, as `quorate logs` shows them.
func Tail(ctx context.Context, h *sandbox.Host, name string, lines int, do func(component, text string)) error {
	m, err := h.Get(name)
	if err != nil {
		return fmt.Errorf("looking for the machine: %w", err)
	}
	for _, component := range containers(machineFiles{h, name}) {
		text, err := componentLog(h, m.Artifacts.Etcd != "", name, component).tail(ctx, lines)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		do(component, text)
	}
	return nil
}

func there(path string) func() (string, error) {
	return func() (string, error) {
		_, err := os.Stat(path)
		return path, err
	}
}

func (a *app) machineLog(name, component string) (logFile, error) {
	h, err := a.Machines()
	if err != nil {
		return logFile{}, err
	}
	m, err := h.Get(name)
	if err != nil {
		return logFile{}, a.noMachine(h, name, err)
	}
	ofEtcd := m.Artifacts.Etcd != ""
	if component == "" {
		own := ownLogs(ofEtcd)
		component = own[len(own)-1]
		if m.Bootstrap.Phase != sandbox.BootstrapSucceeded {
			component = "bootstrap"
		}
	}
	return componentLog(h, ofEtcd, name, component), nil
}

// ownLogs are the logs of the own processes of a machine, or of one of an etcd cluster.
func ownLogs(ofEtcd bool) []string {
	if ofEtcd {
		return []string{"init", "bootstrap", "etcd"}
	}
	return machineLogs
}

// componentLog is the log of one component of a machine.
func componentLog(h *sandbox.Host, ofEtcd bool, name, component string) logFile {
	var lines plaintext.Lines
	files := machineFiles{h, name}
	if slices.Contains(ownLogs(ofEtcd), component) {
		return logFile{plain: lines.Redact, open: files.open, current: func() (string, error) {
			path := filepath.Join("logs", component+".log")
			_, err := files.changed(path)
			return path, err
		}}
	}
	plain := func(line []byte) []byte { return lines.Redact(containerLine(line)) }
	return logFile{plain: plain, open: files.open, current: func() (string, error) { return newestLog(files, component) }}
}

// machineFiles are the files below a machine's folder, without those of the host that its links lead to.
type machineFiles struct {
	host *sandbox.Host
	name string
}

func (m machineFiles) open(path string) (*os.File, error) { return m.host.OpenFile(m.name, path) }

func (m machineFiles) glob(pattern string) ([]string, error) { return m.host.Glob(m.name, pattern) }

// changed is when a file was changed last.
func (m machineFiles) changed(path string) (time.Time, error) {
	f, err := m.open(path)
	if err != nil {
		return time.Time{}, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return time.Time{}, fmt.Errorf("looking at %s: %w", path, err)
	}
	return info.ModTime(), nil
}

// podLogs is the kubelet's folder of logs (NAMESPACE_POD_UID/CONTAINER/N.log) on a machine's disk.
const podLogs = "disk/var/log/pods"

// newestLog finds the newest log of a container by its name.
func newestLog(m machineFiles, container string) (string, error) {
	files, err := m.glob(filepath.Join(podLogs, "*", command.GlobQuote(container), "*.log"))
	if err != nil {
		return "", fmt.Errorf("looking for logs of %s: %w", container, err)
	}
	newest, when := "", time.Time{}
	for _, f := range files {
		t, err := m.changed(f)
		if err != nil {
			continue // rotated meanwhile
		}
		if newest == "" || t.After(when) {
			newest, when = f, t
		}
	}
	if newest == "" {
		return "", fmt.Errorf("%w: there is no container %q; there is %s", fs.ErrNotExist, container, strings.Join(containers(m), ", "))
	}
	return newest, nil
}

// containers are the names that have logs, after those of the machine itself.
func containers(m machineFiles) []string {
	names := slices.Clone(machineLogs)
	folders, err := m.glob(filepath.Join(podLogs, "*", "*"))
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
