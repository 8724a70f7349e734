package hostcheck

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// observe looks at the host, and tries out, as root, what cannot be seen.
func observe() facts {
	f := facts{os: runtime.GOOS, arch: runtime.GOARCH, user: os.Geteuid(), release: kernelRelease(), programs: map[string]string{}}
	for _, p := range packages {
		if path, ok := Find(p.program); ok {
			f.programs[p.program] = path
		}
	}
	if f.user != 0 {
		return f
	}
	f.lostCaps = lostCapabilities()
	f.overlay = filesystem("overlay") || loads("overlay")
	f.namespaces = tryNamespaces()
	f.links = tryLinks()
	if nft, ok := f.programs["nft"]; ok {
		f.nft = tryNft(nft)
	}
	if runc, ok := f.programs["runc"]; ok {
		output, _ := exec.Command(runc, "--version").CombinedOutput()
		f.runc = string(output)
	}
	f.cgroup, f.controls = cgroups()
	_, err := os.Stat("/dev/kmsg")
	f.kmsg = err == nil
	f.filtered = Firewall4.missingOpen()
	return f
}

// Find returns the path of a program. It looks in PATH and in the administrators' folders, which the PATH of su and sudo may lack.
func Find(program string) (string, bool) {
	if path, err := exec.LookPath(program); err == nil {
		return path, true
	}
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		path := filepath.Join(folder, program)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

func kernelRelease() [2]int {
	var name unix.Utsname
	var release [2]int
	if err := unix.Uname(&name); err == nil {
		_, _ = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &release[0], &release[1])
	}
	return release
}

// lostCapabilities returns those of root's that machines cannot be made without and this process has not.
func lostCapabilities() []string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		hex, found := strings.CutPrefix(line, "CapEff:")
		if !found {
			continue
		}
		effective, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		if err != nil {
			return nil
		}
		return lost(effective)
	}
	return nil
}

func lost(effective uint64) []string {
	var names []string
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_SYS_CHROOT, "CAP_SYS_CHROOT"}} {
		if effective&(1<<c.bit) == 0 {
			names = append(names, c.name)
		}
	}
	return names
}

func filesystem(name string) bool {
	text, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 && words[len(words)-1] == name {
			return true
		}
	}
	return false
}

// loads reports whether the kernel would load a module when it is first used; it is not loaded now.
func loads(module string) bool {
	modprobe, ok := Find("modprobe")
	return ok && exec.Command(modprobe, "--dry-run", "--quiet", module).Run() == nil
}

const machineNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWCGROUP

// tryNamespaces runs a program that does nothing in namespaces like a machine's. It returns why that failed.
func tryNamespaces() string {
	nothing, ok := Find("true")
	if !ok {
		return ""
	}
	cmd := exec.Command(nothing)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: machineNamespaces}
	if err := cmd.Run(); err != nil {
		return err.Error()
	}
	return ""
}

// tryLinks makes a bridge and a pair of veths in a network namespace that ends with this call. It returns why that failed.
func tryLinks() string {
	result := make(chan error)
	go func() {
		// The thread stays locked to this goroutine and ends with it, and the namespace with the thread.
		runtime.LockOSThread()
		result <- makeLinks()
	}()
	if err := <-result; err != nil {
		return err.Error()
	}
	return ""
}

func makeLinks() error {
	handle, err := netns.New()
	if err != nil {
		return fmt.Errorf("making a network namespace: %w", err)
	}
	defer func() { _ = handle.Close() }() // the namespace ends with the thread
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "qrt-try"}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("making a bridge: %w", err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "qrt-a"}, PeerName: "qrt-b"}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("making a veth: %w", err)
	}
	if err := netlink.LinkSetMaster(veth, bridge); err != nil {
		return fmt.Errorf("attaching a veth to a bridge: %w", err)
	}
	return nil
}

// rules use what kube-proxy uses: address translation, masquerading, maps and connection tracking.
const rules = `add table ip quorate
add chain ip quorate services { type nat hook prerouting priority -100 ; }
add chain ip quorate out { type nat hook postrouting priority 100 ; }
add map ip quorate endpoints { type ipv4_addr . inet_proto . inet_service : verdict ; }
add rule ip quorate services ct state new ip daddr . meta l4proto . th dport vmap @endpoints
add rule ip quorate services ip daddr 192.0.2.1 tcp dport 443 dnat to numgen random mod 2 map { 0 : 192.0.2.2 . 6443, 1 : 192.0.2.3 . 6443 }
add rule ip quorate out masquerade fully-random
`

// tryNft makes rules in a network namespace that ends with the process. It returns why that failed.
func tryNft(nft string) string {
	cmd := exec.Command(nft, "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	output, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return strings.TrimSpace(line + " " + err.Error())
}

// cgroups returns the version in use, and the controllers that can be used with it. A host that has both uses version 1:
// its controllers are bound there.
func cgroups() (version int, names []string) {
	const root = "/sys/fs/cgroup"
	var stat unix.Statfs_t
	if err := unix.Statfs(root, &stat); err == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC {
		text, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		if err != nil {
			return 2, nil
		}
		return 2, strings.Fields(string(text))
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return 0, nil
	}
	return legacyCgroups(string(mounts))
}

// legacyCgroups reads the controllers of version 1 from the list of mounts.
func legacyCgroups(mounts string) (version int, names []string) {
	for line := range strings.Lines(mounts) {
		words := strings.Fields(line)
		if len(words) < 4 || words[2] != "cgroup" {
			continue
		}
		version = 1
		names = append(names, strings.Split(words[3], ",")...)
	}
	return version, names
}

// available returns the memory that programs can still get, in bytes; 0 if it is not known.
func available() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); err == nil {
			return kib * 1024
		}
	}
	return 0
}
