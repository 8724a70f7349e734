package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/local/sandbox/guest"
	"github.com/quorate/quorate/internal/program/process"
)

// launched is a machine's first process that waits for leave to go on.
type launched struct {
	process.ID
	report *bufio.Reader
	ends   []*os.File
	leave  *os.File
}

// launch starts a machine's first process in new namespaces; it does nothing yet.
func (h *Host) launch(ctx context.Context, f folder) (*launched, error) {
	if h.node == "" {
		return nil, fmt.Errorf("starting a machine: the path of quorate-node is not known")
	}
	log, err := f.openLog("init.log")
	if err != nil {
		return nil, fmt.Errorf("starting a machine: %w", err)
	}
	defer func() { _ = log.Close() }()
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a machine: %w", err)
	}
	defer func() { _ = reportWrite.Close() }()
	leaveRead, leaveWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a machine: %w", errors.Join(err, reportRead.Close()))
	}
	defer func() { _ = leaveRead.Close() }()
	l := &launched{report: bufio.NewReader(reportRead), ends: []*os.File{reportRead, leaveWrite}, leave: leaveWrite}
	cmd := exec.CommandContext(ctx, h.node, "launch", f.boot())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{reportWrite, leaveRead}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		l.close()
		return nil, fmt.Errorf("starting %s: %w", h.node, err)
	}
	_ = reportWrite.Close()
	if err := l.first(cmd); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// first reads the process's number and waits for the launcher's end: on cgroup v2 the machine's own group
// must be empty before its controllers can be handed on.
func (l *launched) first(cmd *exec.Cmd) error {
	line, _ := l.report.ReadString('\n')
	if err := cmd.Wait(); err != nil {
		rest, _ := io.ReadAll(l.report)
		return fmt.Errorf("starting the first process: %s%s", strings.TrimPrefix(line+string(rest), "error: "), ending(err))
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return fmt.Errorf("starting the first process: its number is %q", line)
	}
	l.ID, err = process.Identify(pid)
	return err
}

func ending(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return ""
	}
	return " (" + err.Error() + ")"
}

// release lets the first process go on, and returns when it has its own root, or why it could not get it.
func (l *launched) release() error {
	if _, err := l.leave.Write([]byte{1}); err != nil {
		return fmt.Errorf("letting the first process go on: %w", err)
	}
	reason, err := io.ReadAll(l.report)
	if err != nil {
		return fmt.Errorf("waiting for the first process: %w", err)
	}
	if len(reason) > 0 {
		return fmt.Errorf("starting the machine: %s", strings.TrimPrefix(string(reason), "error: "))
	}
	return nil
}

// close ends what leads to the first process, which ends if it was not released.
func (l *launched) close() {
	for _, f := range l.ends {
		_ = f.Close()
	}
}

// tellAddresses adds what a machine is told about its addresses and those of its pods.
func (h *Host) tellAddresses(b *guest.Boot, s Spec) {
	b.Address = s.Addresses()[0].String()
	if s.HasIPv4() {
		b.Address4 = s.Address.String()
	}
	if s.Address6.IsValid() {
		b.Address6 = s.Address6.String()
	}
	for _, p := range s.podRanges() {
		pods := guest.Pods{Range: p.String(), Network: h.network.String(), Gateway: h.Gateway().String()}
		if p.Addr().Is6() {
			pods.Network, pods.Gateway = Network6(h.network).String(), Address6(h.network, h.Gateway()).String()
		}
		b.Pods = append(b.Pods, pods)
	}
}

// bootOf is what a machine's first process is told.
func (h *Host) bootOf(f folder, r *record, cgroups guest.Cgroups) guest.Boot {
	b := guest.Boot{
		Name: r.Spec.Name, Disk: f.disk(), Cgroups: cgroups,
		Containers: r.Spec.Artifacts.Machine != "",
		Binds: []guest.Bind{
			{Source: h.node, Target: filepath.Join(guest.ProgramDir, "quorate-node"), ReadOnly: true},
			{Source: f.logs(), Target: guest.LogDir},
			{Source: f.shared(), Target: guest.SharedDir},
		},
	}
	h.tellAddresses(&b, r.Spec)
	b.Overlays = f.overlays(r.Spec)
	if etcd := r.Spec.Artifacts.Etcd; etcd != "" {
		b.Binds = append(b.Binds, guest.Bind{Source: filepath.Join(etcd, "bin", "etcdadm"), Target: filepath.Join(guest.ProgramDir, "etcdadm"),
			ReadOnly: true})
	}
	if r.Spec.Artifacts.Store == "" {
		for _, archive := range r.Spec.Artifacts.Images {
			b.Binds = append(b.Binds, guest.Bind{Source: archive, Target: filepath.Join(guest.ImageDir, filepath.Base(archive)), ReadOnly: true})
		}
	}
	return b
}
