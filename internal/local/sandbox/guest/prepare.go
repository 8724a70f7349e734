package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// runDir is the folder of sockets and of what lives as long as the machine is powered on.
const runDir = "/run/quorate"

// kubeletSysctls are settings of the whole host that a kubelet insists on. The machine sees them as the kubelet wants
// them; the host's own are left alone.
var kubeletSysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// prepare sets what does not outlive a power-off, inside the machine's own root.
func prepare(b *Boot) error {
	if err := unix.Sethostname([]byte(b.Name)); err != nil {
		return fmt.Errorf("setting the host name %s: %w", b.Name, err)
	}
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", runDir, err)
	}
	// /run/lock is where /var/lock leads.
	if err := os.MkdirAll("/run/lock", 0o777); err != nil {
		return fmt.Errorf("making /run/lock: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("letting pods' packets through: %w", err)
	}
	if b.Address6 != "" {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0); err != nil {
			return fmt.Errorf("letting pods' IPv6 packets through: %w", err)
		}
	}
	raiseFiles()
	return shieldSysctls(filepath.Join(runDir, "sysctl"))
}

// raiseFiles lets the machine's programs open as many files as the host permits: a shell's usual limit of 1024
// is too small for containerd.
func raiseFiles() {
	wanted := unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &wanted) == nil {
		return
	}
	var have unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &have) == nil {
		have.Cur = have.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &have)
	}
}

func shieldSysctls(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	for name, value := range kubeletSysctls {
		file, target := filepath.Join(dir, strings.ReplaceAll(name, "/", ".")), filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("shielding %s: %w", target, err)
		}
	}
	return nil
}
