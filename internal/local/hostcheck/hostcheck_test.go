package hostcheck

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// fit is a host that lacks nothing.
func fit() facts {
	return facts{
		os: "linux", arch: "amd64", release: [2]int{6, 1}, overlay: true, cgroup: 2, kmsg: true,
		controls: []string{"cpuset", "cpu", "io", "memory", "pids"},
		programs: map[string]string{"runc": "/usr/sbin/runc", "nft": "/usr/sbin/nft", "mount": "/bin/mount", "losetup": "/sbin/losetup",
			"cp": "/bin/cp"},
		runc: "runc version 1.1.5\nlibseccomp: 2.5.4\n",
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*facts)
		want   []string // what is lacking
		fix    string   // part of the first one's fix
	}{
		{"nothing", func(*facts) {}, nil, ""},
		{"other system", func(f *facts) { f.os = "darwin" }, []string{"Linux on amd64 or arm64"}, "Linux host"},
		{"other processor", func(f *facts) { f.arch = "riscv64" }, []string{"Linux on amd64 or arm64"}, "Linux host"},
		{"a user, whatever else is lacking", func(f *facts) { f.user, f.programs = 1000, nil }, []string{"root"}, "sudo"},
		{"root without power", func(f *facts) { f.lostCaps = []string{"CAP_SYS_ADMIN"} }, []string{"root's capabilities CAP_SYS_ADMIN"},
			"--privileged"},
		{"no runc, so its seccomp is not asked for", func(f *facts) { delete(f.programs, "runc"); f.runc = "" }, []string{"runc"},
			"apt-get install runc"},
		{"no nft", func(f *facts) { delete(f.programs, "nft") }, []string{"nft"}, "apt-get install nftables"},
		{"no losetup", func(f *facts) { delete(f.programs, "losetup") }, []string{"losetup"}, "apt-get install mount"},
		{"runc without seccomp", func(f *facts) { f.runc = "runc version 1.5.2\ngo: go1.26\n" }, []string{"a runc with seccomp"}, "reinstall"},
		{"just too old", func(f *facts) { f.release = [2]int{5, 12} }, []string{"Linux 5.13 or later"}, "upgrade"},
		{"just new enough", func(f *facts) { f.release = [2]int{5, 13} }, nil, ""},
		{"major before minor", func(f *facts) { f.release = [2]int{4, 19} }, []string{"Linux 5.13 or later"}, "upgrade"},
		{"no namespaces", func(f *facts) { f.namespaces = "operation not permitted" }, []string{"namespaces"}, "kernel"},
		{"no overlayfs", func(f *facts) { f.overlay = false }, []string{"overlayfs"}, "modprobe overlay"},
		{"no links", func(f *facts) { f.links = "operation not supported" }, []string{"bridges and veth links"}, "modprobe -a bridge veth"},
		{"no nf_tables", func(f *facts) { f.nft = "Operation not supported" }, []string{"nf_tables"}, "modprobe nf_tables"},
		{"no kmsg", func(f *facts) { f.kmsg = false }, []string{"/dev/kmsg"}, "mknod"},
		{"firewall on bridges", func(f *facts) { f.filtered = []Lack{{What: "an open bridge", Why: "it drops", Fix: "open it"}} },
			[]string{"an open bridge"}, "open it"},
		{"no cgroups", func(f *facts) { f.cgroup, f.controls = 0, nil }, []string{"control groups"}, "mount -t cgroup2"},
		{"v2 without memory", func(f *facts) { f.controls = []string{"cpuset", "cpu", "pids"} }, []string{"the cgroup controllers memory " +
			"(cgroups v2)"}, "command line"},
		{"v1 needs more of them", func(f *facts) { f.cgroup = 1 }, []string{"the cgroup controllers cpuacct, devices, freezer (cgroups v1)"},
			"mount them"},
		{"all that is lacking is told at once", func(f *facts) { f.overlay = false; delete(f.programs, "nft") }, []string{"nft", "overlayfs"},
			"nftables"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := fit()
			test.change(&f)
			var what []string
			lacks := judge(f)
			for _, l := range lacks {
				what = append(what, l.What)
				if l.Why == "" || l.Fix == "" {
					t.Errorf("%q has no reason or no remedy", l.What)
				}
			}
			if !slices.Equal(what, test.want) {
				t.Fatalf("lacking %q, want %q", what, test.want)
			}
			if len(lacks) > 0 && !strings.Contains(lacks[0].Fix, test.fix) {
				t.Errorf("fix %q does not say %q", lacks[0].Fix, test.fix)
			}
		})
	}
}

func TestLostCapabilities(t *testing.T) {
	all := uint64(1)<<41 - 1
	for _, test := range []struct {
		name      string
		effective uint64
		want      []string
	}{
		{"all", all, nil},
		{"Docker's", 0x00000000a80425fb, []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN"}},
		{"one missing that is not needed", all &^ (1 << unix.CAP_SYS_RESOURCE), nil},
		{"none", 0, []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SYS_CHROOT"}},
	} {
		if got := lost(test.effective); !slices.Equal(got, test.want) {
			t.Errorf("%s: lost %v, want %v", test.name, got, test.want)
		}
	}
}

func TestLegacyCgroups(t *testing.T) {
	for _, test := range []struct {
		name, mounts string
		version      int
		want         []string
	}{
		{"none", "/dev/vda / ext4 rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n", 0, nil},
		{"shared and single", "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n", 1,
			[]string{"rw", "cpu", "cpuacct", "rw", "pids"}},
	} {
		version, got := legacyCgroups(test.mounts)
		if version != test.version || !slices.Equal(got, test.want) {
			t.Errorf("%s: version %d with %v, want %d with %v", test.name, version, got, test.version, test.want)
		}
	}
}

func TestOverlaps(t *testing.T) {
	ours := netip.MustParsePrefix("172.30.0.0/16")
	for network, want := range map[string]bool{
		"172.30.0.1/16":  true,
		"172.30.5.0/24":  true,
		"172.16.0.0/12":  true,
		"172.29.0.0/16":  false,
		"172.31.0.0/16":  false,
		"0.0.0.0/0":      false,
		"128.0.0.0/1":    false,
		"172.30.7.9/32":  true,
		"192.168.0.0/16": false,
	} {
		address, parsed, err := net.ParseCIDR(network)
		if err != nil {
			t.Fatal(err)
		}
		parsed.IP = address
		if got := overlaps(ours, parsed); got != want {
			t.Errorf("%s overlaps %s: %v, want %v", network, ours, got, want)
		}
	}
}

// A range that a bridge of another environment uses is told with that environment.
func TestLinkName(t *testing.T) {
	for want, l := range map[string]linkName{
		"eth0": {name: "eth0"},
		"qrt-0a1b2c (quorate's environment in /var/lib/quorate)": {"qrt-0a1b2c", "quorate's environment in /var/lib/quorate"},
	} {
		if got := l.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestInUse(t *testing.T) {
	what, err := InUse(netip.MustParsePrefix("127.0.0.0/8"), "")
	if err != nil || !strings.Contains(what, "interface lo has the address 127.0.0.1") {
		t.Errorf("loopback: %q, %v", what, err)
	}
	if what, err = InUse(netip.MustParsePrefix("127.0.0.0/8"), "lo"); err != nil || what != "" {
		t.Errorf("loopback as our own: %q, %v", what, err)
	}
	if what, err = InUse(netip.MustParsePrefix("198.51.100.0/24"), ""); err != nil || what != "" {
		t.Errorf("a range for documentation: %q, %v", what, err)
	}
	lacks := Check(Plan{Network: netip.MustParsePrefix("127.0.0.0/8")})
	if !slices.ContainsFunc(lacks, func(l Lack) bool { return strings.Contains(l.Why, "interface lo") }) {
		t.Errorf("a plan for a range that is in use: %v", lacks)
	}
}

func TestPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddrPort(listener.Addr().String())
	if !PortInUse(address) {
		t.Errorf("%s has a listener and counts as free", address)
	}
	_ = listener.Close()
	if PortInUse(address) {
		t.Errorf("%s has no listener and counts as used", address)
	}
}

func TestRoom(t *testing.T) {
	if lacks := space("/proc/there/is/nothing"); len(lacks) != 1 || !strings.Contains(lacks[0].What, "0 bytes free of 8.0 GiB needed") {
		t.Errorf("on a file system without room: %v", lacks)
	}
	for _, test := range []struct {
		machines  int
		available uint64
		lacking   bool
	}{{3, 4 * gib, false}, {3, 4*gib - 1, true}, {1, 2 * gib, false}, {5, 4 * gib, true}, {3, 0, false}} {
		if got := len(memory(test.machines, test.available)) > 0; got != test.lacking {
			t.Errorf("%d machines with %d bytes: lacking %v, want %v", test.machines, test.available, got, test.lacking)
		}
	}
	if available() < 1<<20 {
		t.Errorf("this host has %d bytes of memory available", available())
	}
}

// What is tried out must leave nothing behind.
func TestTryingLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	before, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, l := range Check(Plan{State: filepath.Join(folder, "state")}) {
		t.Logf("this host lacks %s", l)
	}
	if lacks := overlay(filepath.Join(folder, "state")); len(lacks) > 0 {
		t.Logf("this host lacks %v", lacks)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	if _, err := netlink.LinkByName("qrt-try"); err == nil {
		t.Error("the bridge was left behind")
	}
	if nft, ok := Find("nft"); ok {
		if output, err := exec.Command(nft, "list", "tables").Output(); err != nil || strings.Contains(string(output), "table ip quorate\n") {
			t.Errorf("tables left behind: %s %v", output, err)
		}
	}
	after, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(after), folder) {
		t.Errorf("mounts changed from\n%s\nto\n%s", before, after)
	}
}

// overlay's own complaint: an overlay's upper layer cannot lie in /proc.
func TestOverlayTellsWhy(t *testing.T) {
	lacks := overlay("/proc/self/state")
	if len(lacks) != 1 || lacks[0].Fix == "" {
		t.Errorf("a state folder below /proc: %v", lacks)
	}
}

func TestInstallScriptKnowsTheSamePackages(t *testing.T) {
	script, err := os.ReadFile("../../../hack/install-packages.sh")
	if err != nil {
		t.Fatal(err)
	}
	var there, want []string
	for _, match := range regexp.MustCompile(`(?m)^([a-z]+:[a-z]+)$`).FindAllStringSubmatch(string(script), -1) {
		there = append(there, match[1])
	}
	for _, p := range packages {
		want = append(want, p.program+":"+p.name)
	}
	if !slices.Equal(there, want) {
		t.Errorf("the script installs %v, this package asks for %v", there, want)
	}
	if got := Packages(); !slices.Equal(got, []string{"runc", "nftables", "mount", "coreutils"}) {
		t.Errorf("packages: %v", got)
	}
}
