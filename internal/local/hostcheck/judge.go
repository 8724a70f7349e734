package hostcheck

import (
	"fmt"
	"slices"
	"strings"
)

// facts are what was found on the host, and what came out when something was tried.
type facts struct {
	os, arch   string
	release    [2]int // of the kernel: 6, 18
	user       int
	lostCaps   []string          // capabilities that root should have and has not
	namespaces string            // why no process can be started in namespaces of its own; empty if one can
	overlay    bool              // the kernel has overlayfs
	links      string            // why no bridge and veth could be made; empty if they could
	nft        string            // why nft could not make rules; empty if it could or is missing
	cgroup     int               // 1, 2, or 0 if none is mounted
	controls   []string          // cgroup controllers that can be used
	programs   map[string]string // name -> path; missing ones are not in it
	runc       string            // what runc --version says
	kmsg       bool              // /dev/kmsg is there
	filtered   []Lack            // what is missing so that packets that stay on a bridge pass a firewall that drops by default
}

// oldestKernel is what kube-proxy's nftables mode needs.
var oldestKernel = [2]int{5, 13}

// controllers that the kubelet wants, by version of cgroups.
var controllers = map[int][]string{
	1: {"cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"},
	2: {"cpu", "cpuset", "memory", "pids"},
}

// judge says what is lacking. Without the right system or without root nothing else could be tried out, and is not told.
func judge(f facts) []Lack {
	if lacks := judgeBasics(f); len(lacks) > 0 {
		return lacks
	}
	lacks := judgePrograms(f)
	lacks = append(lacks, judgeKernel(f)...)
	return append(lacks, judgeCgroups(f)...)
}

func judgeBasics(f facts) []Lack {
	switch {
	case f.os != "linux" || (f.arch != "amd64" && f.arch != "arm64"):
		return []Lack{{
			What: "Linux on amd64 or arm64",
			Why:  fmt.Sprintf("machines are Linux namespaces, and this is %s on %s", f.os, f.arch),
			Fix:  "use a Linux host or virtual machine",
		}}
	case f.user != 0:
		return []Lack{{
			What: "root",
			Why:  "machines are made of namespaces, mounts and network links, which only root may make",
			Fix:  "run this as root, for example with sudo",
		}}
	case len(f.lostCaps) > 0:
		return []Lack{{
			What: "root's capabilities " + strings.Join(f.lostCaps, ", "),
			Why:  "machines are made of namespaces, mounts and network links, and this root may not make them",
			Fix:  "leave the container, or give it all capabilities (docker run --privileged)",
		}}
	}
	return nil
}

func judgePrograms(f facts) []Lack {
	var lacks []Lack
	for _, p := range packages {
		if f.programs[p.program] == "" {
			lacks = append(lacks, Lack{What: p.program, Why: p.why, Fix: install(p.name)})
		}
	}
	if f.programs["runc"] != "" && !strings.Contains(f.runc, "libseccomp") {
		lacks = append(lacks, Lack{
			What: "a runc with seccomp",
			Why:  fmt.Sprintf("kubeadm's pods ask for the default seccomp profile, and %s was built without it", f.programs["runc"]),
			Fix:  "use the distribution's runc: apt-get install --reinstall runc",
		})
	}
	return lacks
}

func judgeKernel(f facts) []Lack {
	var lacks []Lack
	add := func(lacking bool, what, why, fix string) {
		if lacking {
			lacks = append(lacks, Lack{What: what, Why: why, Fix: fix})
		}
	}
	const otherKernel = "use the distribution's own kernel, with its modules installed"
	old := slices.Compare(f.release[:], oldestKernel[:]) < 0
	add(old, fmt.Sprintf("Linux %d.%d or later", oldestKernel[0], oldestKernel[1]),
		fmt.Sprintf("kube-proxy's nftables mode needs it, and this is %d.%d", f.release[0], f.release[1]), "upgrade the kernel")
	add(f.namespaces != "", "namespaces", "machines are made of them, and making one failed: "+f.namespaces, otherKernel)
	add(!f.overlay, "overlayfs", "machines' file systems and container images are layers over one another", "modprobe overlay, or "+
		otherKernel)
	add(f.links != "", "bridges and veth links", "they are machines' network, and making one failed: "+f.links, "modprobe -a bridge veth, or "+
		otherKernel)
	add(f.nft != "", "nf_tables", "kube-proxy makes Services reachable with it, and nft failed: "+f.nft, "modprobe nf_tables, or "+otherKernel)
	add(!f.kmsg, "/dev/kmsg", "the kubelet does not start without it", "mknod /dev/kmsg c 1 11")
	return append(lacks, f.filtered...)
}

func judgeCgroups(f facts) []Lack {
	if f.cgroup == 0 {
		return []Lack{{
			What: "control groups",
			Why:  "the kubelet needs them, and nothing is mounted at /sys/fs/cgroup",
			Fix:  "mount -t cgroup2 none /sys/fs/cgroup",
		}}
	}
	var missing []string
	for _, c := range controllers[f.cgroup] {
		if !slices.Contains(f.controls, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	fix := "enable them on the kernel's command line (cgroup_enable=memory, for one), and restart"
	if f.cgroup == 1 {
		fix = "mount them below /sys/fs/cgroup, or " + fix
	}
	return []Lack{{
		What: fmt.Sprintf("the cgroup controllers %s (cgroups v%d)", strings.Join(missing, ", "), f.cgroup),
		Why:  "the kubelet does not start without them",
		Fix:  fix,
	}}
}
