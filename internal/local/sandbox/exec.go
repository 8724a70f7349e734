package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster/staticpod"
	"github.com/quorate/quorate/internal/local/sandbox/guest"
)

// adminConfig is where kubeadm leaves the administrator's access on a control plane machine.
const adminConfig = "/etc/kubernetes/admin.conf"

// Exec runs a command in a machine, in all its namespaces and its cgroup, and returns its exit code. An error
// means that the command could not be run. The command ends with ctx.
func (h *Host) Exec(ctx context.Context, name string, argv []string, stdio Stdio) (int, error) {
	if err := checkName(name); err != nil {
		return 0, err
	}
	if len(argv) == 0 {
		return 0, fmt.Errorf("running a command in %s: no command is given", name)
	}
	r, groups, err := h.enterable(name)
	if err != nil {
		return 0, err
	}
	args := guest.EnterArgs(r.Process.PID, groups.entrances(name), h.folder(name).environment(argv), stdio.TTY, argv)
	cmd := exec.CommandContext(ctx, h.node, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdio.In, stdio.Out, stdio.Err
	reason, err := runReporting(cmd)
	if reason != "" {
		return 0, fmt.Errorf("running %s in %s: %s", argv[0], name, reason)
	}
	code, err := exitCode(ctx, err)
	if err != nil {
		return 0, fmt.Errorf("running %s in %s: %w", argv[0], name, err)
	}
	return code, nil
}

// enterable returns the record and the cgroups of a machine that a command can be run in: it runs and is not paused.
func (h *Host) enterable(name string) (*record, *cgroups, error) {
	r, err := h.folder(name).load()
	if err != nil {
		return nil, nil, err
	}
	if !r.Process.Alive() {
		return nil, nil, fmt.Errorf("machine %s does not run", name)
	}
	groups, err := hostCgroups(h.ID())
	if err != nil {
		return nil, nil, err
	}
	// A process that joins a frozen group is frozen with it, and cannot even be killed.
	frozen, err := groups.frozen(name)
	if err != nil {
		return nil, nil, err
	}
	if frozen {
		return nil, nil, fmt.Errorf("machine %s is paused", name)
	}
	return r, groups, nil
}

// exitCode returns the exit code of a command that ended with err. An error means that it has none: it could not be run, or ctx ended
// first.
func exitCode(ctx context.Context, err error) (int, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// runReporting runs quorate-node and returns what it says on descriptor 3.
func runReporting(cmd *exec.Cmd) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return "", err
	}
	reason, reading := io.ReadAll(r)
	return string(reason), errors.Join(cmd.Wait(), reading)
}

// entrances are the cgroup.procs files through which a process becomes one of the machine's.
func (c *cgroups) entrances(name string) []string {
	var all []string
	for _, dir := range c.dirs(name) {
		if c.unified {
			dir = filepath.Join(dir, guest.Leaf)
		}
		all = append(all, filepath.Join(dir, "cgroup.procs"))
	}
	return all
}

// etcdSetting is a variable by which etcdctl asks the machine's own member, and the flag in whose place it stands.
type etcdSetting struct{ variable, flag, value string }

// etcdSettings are those of the machine's member, as the client that kubeadm makes for health checks, as the manifest of etcd says; none:
// the machine has no member.
func (f folder) etcdSettings() []etcdSetting {
	manifest := func(component string) *corev1.Pod {
		// What the machine itself wrote there may be no manifest.
		data, err := f.read(manifests + component + ".yaml")
		if err != nil {
			return nil
		}
		p, err := staticpod.Parse(data)
		if err != nil {
			return nil
		}
		return p
	}
	etcd := manifest("etcd")
	if etcd == nil {
		return nil
	}
	m := staticpod.MemberOf(etcd, staticpod.Certificates(manifest("kube-apiserver"), etcd))
	for _, file := range []string{m.CA, m.Cert, m.Key} {
		if !f.has(file) {
			return nil
		}
	}
	return []etcdSetting{
		{"ETCDCTL_CACERT", "--cacert", m.CA},
		{"ETCDCTL_CERT", "--cert", m.Cert},
		{"ETCDCTL_KEY", "--key", m.Key},
		{"ETCDCTL_ENDPOINTS", "--endpoints", m.URL},
	}
}

// manifests is the folder of a machine's static pods.
const manifests = "/etc/kubernetes/manifests/"

// etcdEnvironment are the settings for a command. etcdctl refuses a variable beside its flag, so that those are left out that the
// command gives itself.
func (f folder) etcdEnvironment(argv []string) []string {
	var env []string
	command := strings.Join(argv, " ")
	for _, s := range f.etcdSettings() {
		if !strings.Contains(command, s.flag) {
			env = append(env, s.variable+"="+s.value)
		}
	}
	return env
}

// environment is what commands get beside the machine's own: the terminal's kind, ctr's namespace of the kubelet's containers, and
// the access of kubectl and etcdctl, where there is one.
func (f folder) environment(argv []string) []string {
	var env []string
	for _, name := range []string{"TERM", "COLORTERM"} {
		if value := os.Getenv(name); value != "" && !strings.ContainsRune(value, 0) {
			env = append(env, name+"="+value)
		}
	}
	if f.has(adminConfig) {
		env = append(env, "KUBECONFIG="+adminConfig)
	}
	env = append(env, "CONTAINERD_NAMESPACE=k8s.io")
	return append(env, f.etcdEnvironment(argv)...)
}
