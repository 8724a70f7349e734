package upgrader

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
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// Where a node has its runtime's configuration, and the CNI plugins unless that says otherwise.
const (
	runtimeConfig  = "/etc/containerd/config.toml"
	defaultPlugins = "/opt/cni/bin"
)

// runtimeTimeout is how long containerd may take until it answers after a restart.
const runtimeTimeout = 60 * time.Second

// startPatience is how long the kubelet may take until it says that a step's container runs.
const startPatience = 10 * time.Second

// runtime stages what the image brings of the runtime, where that is newer than what the node has.
func (n *node) runtime(ctx context.Context) (string, error) {
	if err := n.checkBrings(); err != nil {
		return "", err
	}
	daemon := n.lookFor(steps.RuntimePrograms[0])
	if daemon == "" {
		return "", fmt.Errorf("looking for %s: none of %v has it", steps.RuntimePrograms[0], searchPath())
	}
	var wanted []string
	if steps.Newer(n.wanted.Brings.Containerd, n.version(ctx, daemon)) {
		if err := n.noteRuntime(daemon); err != nil {
			return "", err
		}
		wanted = append(wanted, steps.RuntimePrograms...)
	}
	if runc := n.lookFor(steps.RuncProgram); runc != "" && steps.Newer(n.wanted.Brings.Runc, n.version(ctx, runc)) {
		wanted = append(wanted, steps.RuncProgram)
	}
	staged := 0
	for _, name := range wanted {
		did, err := n.stageRuntime(name)
		if err != nil {
			return "", err
		}
		if did {
			staged++
		}
	}
	if staged == 0 {
		return "the node's are not older than those of the image", errSkipped
	}
	return fmt.Sprintf("%d programs will be exchanged", staged), nil
}

// stageRuntime stages a program of the runtime. What works without the node does not need: it looks at containers with a ctr of its own.
func (n *node) stageRuntime(name string) (bool, error) {
	there := n.lookFor(name)
	if there == "" && name == "ctr" {
		return false, nil
	}
	if there == "" {
		return false, fmt.Errorf("looking for %s: none of %v has it", name, searchPath())
	}
	return n.stageProgram(filepath.Join(n.image, "bin", name), there)
}

// plugins stages the CNI plugins that the image brings, where these are newer than those that the node has.
func (n *node) plugins(ctx context.Context) (string, error) {
	if err := n.checkBrings(); err != nil {
		return "", err
	}
	dir, err := n.pluginFolder()
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "the node has no folder " + dir, errSkipped
	}
	brought, err := os.ReadDir(filepath.Join(n.image, steps.PluginDir))
	if err != nil {
		return "", fmt.Errorf("looking for the CNI plugins of the image: %w", err)
	}
	staged := 0
	for _, plugin := range brought {
		did, err := n.stagePlugin(ctx, plugin.Name(), dir)
		if err != nil {
			return "", err
		}
		if did {
			staged++
		}
	}
	if staged == 0 {
		return "the node's are not older than those of the image", errSkipped
	}
	return fmt.Sprintf("%d plugins will be exchanged", staged), nil
}

// stagePlugin stages a plugin for a folder of the node. One that the node does not have is added: a newer version may need it.
func (n *node) stagePlugin(ctx context.Context, name, dir string) (bool, error) {
	target := filepath.Join(dir, name)
	if file, err := filepath.EvalSymlinks(target); err == nil {
		target = file
		if !steps.Newer(n.wanted.Brings.CNI, n.version(ctx, target)) {
			return false, nil
		}
	}
	return n.stageProgram(filepath.Join(n.image, steps.PluginDir, name), target)
}

// stageProgram stages a file of the image that takes the place of one of the node, and reports whether it differs.
func (n *node) stageProgram(source, target string) (bool, error) {
	staged := filepath.Join(n.stage(), target)
	if err := removeFile(staged); err != nil {
		return false, fmt.Errorf("staging %s: %w", target, err)
	}
	if equal, err := same(source, target); err != nil || equal {
		return false, err
	}
	if err := copyFile(source, staged); err != nil {
		return false, err
	}
	equal, err := same(source, staged)
	if err == nil && !equal {
		err = fmt.Errorf("checking the copy of %s: it differs from what was copied", source)
	}
	if err == nil {
		n.say("%s will be exchanged", target)
	}
	return err == nil, err
}

// checkBrings returns an error unless the image says that it brings what it was chosen for.
func (n *node) checkBrings() error {
	text, err := os.ReadFile(filepath.Join(n.image, steps.BringsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what the image brings: %w", err)
	}
	has, err := steps.ParseBrings(string(text))
	if err == nil && has != n.wanted.Brings {
		err = fmt.Errorf("the image brings %+v, and was said to bring %+v", has, n.wanted.Brings)
	}
	return err
}

// version is what a program says of its version; empty: nothing.
func (n *node) version(ctx context.Context, program string) string {
	said, err := run(ctx, nil, program, "--version")
	if err != nil {
		n.say("%v", err)
	}
	return said
}

// lookFor is the file of a program of the node; empty: it has none.
func (n *node) lookFor(name string) string {
	if n.find != nil {
		return n.find(name)
	}
	return installed(name)
}

// pluginFolder is where the runtime looks for CNI plugins.
func (n *node) pluginFolder() (string, error) {
	if n.pluginDir != "" {
		return n.pluginDir, nil
	}
	text, err := os.ReadFile(runtimeConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking for the CNI plugins: %w", err)
	}
	return pluginsOf(string(text)), nil
}

// pluginLine is the line of containerd's configuration that names the folder of plugins, or the first of several.
var pluginLine = regexp.MustCompile(`(?m)^\s*bin_dirs?\s*=\s*\[?\s*['"]([^'"]+)['"]`)

// pluginsOf is the folder of plugins that a configuration of containerd names.
func pluginsOf(config string) string {
	if found := pluginLine.FindStringSubmatch(config); found != nil {
		return found[1]
	}
	return defaultPlugins
}

// noteRuntime notes that the daemon of the runtime, a file of the node, is exchanged: it is to be restarted then.
func (l layout) noteRuntime(daemon string) error {
	if err := os.MkdirAll(l.work(), 0o700); err != nil {
		return fmt.Errorf("noting that the runtime is exchanged: %w", err)
	}
	return atomicfile.Write(l.runtimeNote(), []byte(daemon), 0o600)
}

// exchangesRuntime reports whether the daemon of the runtime is exchanged.
func (l layout) exchangesRuntime() (bool, error) {
	daemon, err := os.ReadFile(l.runtimeNote())
	if err == nil {
		_, err = os.Stat(filepath.Join(l.stage(), string(daemon)))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking whether the runtime is exchanged: %w", err)
	}
	return true, nil
}

// settle waits until a restart of the runtime cannot meet the start of the step's own container any more, which would then be told to have
// failed. A kubelet that cannot say so is not waited for: what is cut off is begun again.
func (n *node) settle(ctx context.Context) error {
	exchanges, err := n.exchangesRuntime()
	if err != nil || !exchanges {
		return err
	}
	if err := eventually(ctx, startPatience, n.started); err != nil && ctx.Err() == nil {
		n.say("it is not known whether the kubelet has the start of this container behind it: %v", err)
	}
	return ctx.Err()
}

// started returns an error unless the kubelet says that the container runs that exchanges the runtime.
func (n *node) started(ctx context.Context) error {
	a, err := n.ownAPI()
	if err != nil {
		return err
	}
	return containerRuns(ctx, a, n.wanted.Pod, string(steps.Exchange))
}

// containerRuns returns an error unless the kubelet says that a container of an upgrade's pod runs.
func containerRuns(ctx context.Context, a *api, pod, container string) error {
	var p corev1.Pod
	if err := a.get(ctx, "/api/v1/namespaces/kube-system/pods/"+pod, &p); err != nil {
		return err
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.Name == container && c.State.Running != nil {
			return nil
		}
	}
	return fmt.Errorf("the kubelet does not say that container %s of pod %s runs", container, pod)
}

// restartRuntime has the runtime run with the programs that are there now, where they are exchanged. Containers go on: each has its shim.
func (s service) restartRuntime(ctx context.Context) error {
	exchanges, err := s.at.exchangesRuntime()
	if err != nil || !exchanges {
		return err
	}
	// One that ended again and again would not be started any more; not every service manager knows that.
	if err := s.at.manage(ctx, "reset-failed", "containerd"); err != nil {
		s.say("%v", err)
	}
	if err := s.at.manage(ctx, "restart", "containerd"); err != nil {
		return err
	}
	version, err := s.at.ctr("version")
	if err != nil {
		return err
	}
	err = eventually(ctx, runtimeTimeout, func(ctx context.Context) error {
		_, err := run(ctx, nil, version...)
		return err
	})
	if err != nil {
		return err
	}
	return s.at.servesCRI(ctx)
}

// criPlugin is the plugin of containerd by which it serves the kubelet, of all its versions.
const criPlugin = "io.containerd.grpc.v1"

// servesCRI returns an error if containerd, which answers, does not serve the kubelet: its configuration may disable that, or have become
// invalid with a newer version. It has loaded its plugins before it answers, so that there is nothing to wait for.
func (l layout) servesCRI(ctx context.Context) error {
	plugins, err := l.ctr("plugins", "ls")
	if err != nil {
		return err
	}
	list, err := run(ctx, nil, plugins...)
	if err != nil {
		return err
	}
	switch status := pluginStatus(list, criPlugin, "cri"); status {
	case "ok":
		return nil
	case "":
		return fmt.Errorf("containerd serves without its CRI plugin, which the kubelet needs: remove cri from disabled_plugins in %s",
			runtimeConfig)
	default:
		return fmt.Errorf("the CRI plugin of containerd, which the kubelet needs, has status %s: must be ok; the log of containerd has the cause",
			status)
	}
}

// pluginStatus is the status of a plugin in ctr's list, whose columns are type, ID, platforms and status; empty: it is not there.
func pluginStatus(list, kind, id string) string {
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == kind && f[1] == id {
			return f[len(f)-1]
		}
	}
	return ""
}

// revert stops all, and puts the backup back. A new runtime that does not serve is put back first: without one nothing is known of the
// containers.
func (s service) revert(ctx context.Context, j steps.Journal) error {
	exchanges, err := s.at.exchangesRuntime()
	if err != nil {
		return err
	}
	if !exchanges {
		if err := s.stop(ctx, j); err != nil {
			return err
		}
		return s.putBack(j)
	}
	if err := s.at.manage(ctx, "stop", "kubelet"); err != nil {
		return err
	}
	if err := s.putBack(j); err != nil {
		return err
	}
	if err := s.restartRuntime(ctx); err != nil {
		return err
	}
	return s.stop(ctx, j)
}

// start starts the kubelet, after the runtime where that is exchanged.
func (s service) start(ctx context.Context) error {
	if err := s.restartRuntime(ctx); err != nil {
		return err
	}
	return s.at.manage(ctx, "start", "kubelet")
}
