package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/local/sandbox/guest"
	"golang.org/x/sys/unix"
)

// etcFiles are the files and folders of the host's /etc that a machine gets a copy of: what programs below /usr
// need in order to run. All else of the host's settings, and all its secrets, stay outside.
var etcFiles = []string{
	"alternatives", "bash.bashrc", "bindresvport.blacklist", "ca-certificates", "ca-certificates.conf", "crypto-policies",
	"debian_version", "default/useradd", "environment", "ethertypes", "gai.conf", "group", "host.conf", "inputrc", "iproute2",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "libaudit.conf", "localtime", "login.defs", "lsb-release", "magic", "mime.types",
	"modprobe.d", "netconfig", "nsswitch.conf", "os-release", "pam.conf", "pam.d", "passwd", "pki/ca-trust", "pki/tls", "profile",
	"protocols", "redhat-release", "rpc", "security", "services", "shells", "skel", "ssl/certs", "ssl/openssl.cnf", "system-release",
	"terminfo", "timezone", "xattr.conf",
}

// diskFolders are the folders of an empty disk.
var diskFolders = map[string]fs.FileMode{
	"etc": 0o755, "root": 0o700, "home": 0o755, "opt": 0o755, "srv": 0o755, "mnt": 0o755, "media": 0o755, "usr": 0o755,
	"boot": 0o755, "dev": 0o755, "proc": 0o755, "sys": 0o755, "run": 0o755, "tmp": 0o1777, "var/tmp": 0o1777,
	"var/lib": 0o755, "var/log": 0o755, "var/cache": 0o755, "var/spool": 0o755,
}

// systemFolders are shared with the host, each under an overlay. On hosts of today all but /usr are links into it.
var systemFolders = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// makeDisk makes the machine's disk. A disk of which only a part was made is made again.
func (h *Host) makeDisk(ctx context.Context, f folder, s Spec) error {
	if err := os.RemoveAll(f.disk()); err != nil {
		return fmt.Errorf("removing an unfinished disk: %w", err)
	}
	if err := f.makeDiskFolders(); err != nil {
		return err
	}
	if err := f.linkSystem(s); err != nil {
		return err
	}
	if err := f.copyEtc(); err != nil {
		return err
	}
	if err := h.writeSettings(ctx, f, s); err != nil {
		return err
	}
	if s.Artifacts.Store == "" {
		return nil
	}
	return linkStore(s.Artifacts.Store, filepath.Join(f.disk(), "var/lib/containerd"))
}

// makeDiskFolders makes the folders of an empty disk, and the links that every system has.
func (f folder) makeDiskFolders() error {
	for name, mode := range diskFolders {
		path := filepath.Join(f.disk(), name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
		if err := unix.Chmod(path, uint32(mode)); err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
	}
	for name, target := range map[string]string{"var/run": "/run", "var/lock": "/run/lock", "etc/mtab": "/proc/self/mounts"} {
		if err := os.Symlink(target, filepath.Join(f.disk(), name)); err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
	}
	return nil
}

// copyEtc copies what a machine gets of the host's /etc.
func (f folder) copyEtc() error {
	for _, name := range etcFiles {
		if err := copyTree(filepath.Join("/etc", name), filepath.Join(f.disk(), "etc", name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("making the disk's /etc: %w", err)
		}
	}
	return nil
}

// linkSystem repeats the host's links into /usr, and has systemctl answered by quorate-node.
func (f folder) linkSystem(s Spec) error {
	for _, name := range systemFolders {
		target, err := os.Readlink("/" + name)
		if err != nil {
			continue
		}
		if err := os.Symlink(target, filepath.Join(f.disk(), name)); err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
	}
	for _, l := range f.overlays(s) {
		for _, dir := range []string{l.Upper, l.Work} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("making the disk: %w", err)
			}
		}
	}
	return f.linkSystemctl()
}

// linkSystemctl puts quorate-node in the place of systemctl, wherever a program may look for it.
func (f folder) linkSystemctl() error {
	for _, path := range []string{
		filepath.Join(f.disk(), guest.ProgramDir, "systemctl"),
		filepath.Join(f.layers(), "usr", "upper", "bin", "systemctl"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("making the disk: %w", err)
		}
		if err := os.Symlink(filepath.Join(guest.ProgramDir, "quorate-node"), path); err != nil {
			return fmt.Errorf("making the disk: %w", err)
		}
	}
	return nil
}

// overlays are the folders that the machine shares with the host and may change for itself.
func (f folder) overlays(s Spec) []guest.Overlay {
	layer := func(name, lower, target string) guest.Overlay {
		dir := filepath.Join(f.layers(), name)
		return guest.Overlay{Lower: lower, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), Target: target}
	}
	var all []guest.Overlay
	for _, name := range systemFolders {
		if info, err := os.Lstat("/" + name); err == nil && info.IsDir() {
			all = append(all, layer(name, "/"+name, "/"+name))
		}
	}
	if s.Artifacts.Machine != "" {
		all = append(all, layer("machine", s.Artifacts.Machine, guest.MachineDir))
	}
	if s.Artifacts.Etcd != "" {
		// Other versions of etcd may be put beside these.
		all = append(all, layer("etcd", filepath.Join(s.Artifacts.Etcd, "cache"), "/var/cache/etcdadm"))
	}
	if s.Artifacts.CNI != "" {
		// Network plugins in pods put programs of their own beside these.
		all = append(all, layer("cni", s.Artifacts.CNI, "/opt/cni/bin"))
	}
	return all
}

// writeSettings writes what makes this machine different from others, and what containerd and kubelets need on
// this kind of machine.
func (h *Host) writeSettings(ctx context.Context, f folder, s Spec) error {
	files, err := settings(ctx, s)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(f.disk(), "etc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the disk's /etc: %w", err)
		}
		mode := fs.FileMode(0o644)
		if name == "shadow" {
			mode = 0o600
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			return fmt.Errorf("making the disk's /etc: %w", err)
		}
	}
	return f.enableUnits(s)
}

// settings are the files below /etc that writeSettings writes.
func settings(ctx context.Context, s Spec) (map[string]string, error) {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	files := map[string]string{
		"hostname":   s.Name + "\n",
		"hosts":      s.hosts(),
		"machine-id": hex.EncodeToString(id) + "\n",
		"shadow":     "root:*:::::::\n",
		"fstab":      "",
		// The host's profile sets a path of its own, without what only machines have.
		"profile.d/quorate.sh": "export PATH=" + guest.Path + "\n",
	}
	if s.Artifacts.Machine != "" {
		pause, err := pauseImage(ctx, s)
		if err != nil {
			return nil, err
		}
		files["containerd/config.toml"] = fmt.Sprintf(containerdConfig, pause)
		files["cni/net.d/10-quorate.conflist"] = s.cni()
		if text := s.kubeletArguments(); text != "" {
			files["default/kubelet"] = text
		}
		files[strings.TrimPrefix(guest.KubeletDropIns, "/etc/")+"/10-quorate.conf"] = kubeletDefaults(s.Artifacts.Kubernetes) +
			"providerID: local://" + s.Name + "\n"
		for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			files[strings.TrimPrefix(KubeadmPatches, "/etc/")+"/"+component+"+strategic.yaml"] = fmt.Sprintf(startupPatch, component)
		}
	}
	return files, nil
}

// enableUnits has the machine start containerd and the kubelet, where it has them.
func (f folder) enableUnits(s Spec) error {
	wants := filepath.Join(f.disk(), "etc/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return fmt.Errorf("making the disk's /etc: %w", err)
	}
	if s.Artifacts.Machine == "" {
		return nil
	}
	for _, unit := range []string{"containerd.service", "kubelet.service"} {
		if err := os.Symlink("/lib/systemd/system/"+unit, filepath.Join(wants, unit)); err != nil {
			return fmt.Errorf("making the disk's /etc: %w", err)
		}
	}
	return nil
}

const containerdConfig = `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '%s'
[plugins.'io.containerd.cri.v1.runtime']
  # A host may forbid to lower a score, and then no static pod starts.
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['/opt/cni/bin']
  conf_dir = '/etc/cni/net.d'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    SystemdCgroup = false
`

// Pods have point-to-point links. With a bridge, answers of a Service between pods of one machine would need a
// module of the host's kernel in order to pass the machine's own rules.
const cniConfig = `{
  "cniVersion": "1.0.0",
  "name": "quorate",
  "plugins": [
    {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [%s], "routes": [%s]}, "mtu": %d},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// KubeadmPatches is the folder of machines with patches for kubeadm. They are obeyed where its configuration names the folder as
// patches.directory.
const KubeadmPatches = "/etc/quorate/patches"

// startupPatch has the kubelet look every second whether a component has started, for as long as kubeadm would wait.
const startupPatch = `spec:
  containers:
    - name: %s
      startupProbe:
        initialDelaySeconds: 1
        periodSeconds: 1
        failureThreshold: 240
`

// kubeletConfig is laid over whatever configuration kubeadm writes. Machines have no systemd, share their host's
// disk and swap, and may run on cgroup v1. A pod of a manifest whose object the API server did not take, because it was just being
// restarted, is found again with the next look at all pods. That is after 2 to 3 s, not after 60 to 90. So are all pods of a machine that
// joins, as it registers its Node when they run. And that it is ready after all it tells within 2 s, not 10; what is as it was is told
// every 5 minutes, as always.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
resolvConf: /etc/resolv.conf
syncFrequency: 2s
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 5m
evictionHard:
  memory.available: "0%"
  nodefs.available: "0%"
  nodefs.inodesFree: "0%"
  imagefs.available: "0%"
  imagefs.inodesFree: "0%"
imageGCHighThresholdPercent: 100
`

// believedImages has the kubelet use every image that is there. Machines get images from their host. A kubelet that is started again while
// it tries in vain to pull one that is brought just then treats it as another's pull ever after. It asks a registry for leave that cannot
// be reached.
const believedImages = "imagePullCredentialsVerificationPolicy: NeverVerify\n"

// kubeletDefaults is kubeletConfig for a version of Kubernetes: older ones refuse to start with what they do not have.
func kubeletDefaults(kubernetes string) string {
	if v, err := version.Parse(kubernetes); err == nil && v.VerifiesPulls() {
		return kubeletConfig + believedImages
	}
	return kubeletConfig
}

// pauseImage asks kubeadm for the image that holds a pod's namespaces: no other is on the machine.
func pauseImage(ctx context.Context, s Spec) (string, error) {
	kubeadm := filepath.Join(s.Artifacts.Machine, "kubeadm")
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, kubeadm, "config", "images", "list", "--kubernetes-version", s.Artifacts.Kubernetes)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking kubeadm for its images: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	for _, image := range strings.Fields(string(out)) {
		if strings.Contains(image, "/pause:") {
			return image, nil
		}
	}
	return "", fmt.Errorf("asking kubeadm for its images: it names no pause image: %q", out)
}

// refresh writes what follows the host at each start: the name servers that the machine can reach.
func (f folder) refresh(gateway string) error {
	servers := nameServers(gateway, "/run/systemd/resolve/resolv.conf", "/etc/resolv.conf")
	if err := replaceFile(f.disk(), "etc/resolv.conf", servers, 0o644); err != nil {
		return fmt.Errorf("writing the machine's resolv.conf: %w", err)
	}
	return nil
}

// nameServers is the first of the files that names a server other than the host's own loopback, without that. CoreDNS
// forwards to these, and to itself, for ever, if one is a loopback address.
func nameServers(gateway string, files ...string) []byte {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if kept, usable := withoutLoopback(string(data)); usable {
			return []byte(kept)
		}
	}
	return []byte("nameserver " + gateway + "\n")
}

// withoutLoopback is a resolv.conf without the servers that are the host's own loopback, and whether it names another.
func withoutLoopback(resolvConf string) (kept string, usable bool) {
	for line := range strings.SplitSeq(strings.TrimSpace(resolvConf), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "nameserver" {
			if strings.HasPrefix(fields[1], "127.") || fields[1] == "::1" {
				continue
			}
			usable = true
		}
		kept += line + "\n"
	}
	return kept, usable
}

// copyTree copies files, folders and links, with mode and owner.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return copyEntry(path, target, e)
	})
}

// copyEntry copies one file, folder (without what is in it) or link; anything else is left out.
func copyEntry(from, to string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	switch {
	case e.IsDir():
		err = os.MkdirAll(to, 0o755)
	case e.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case e.Type().IsRegular():
		err = copyFile(from, to)
	default:
		return nil
	}
	if err == nil {
		err = keepOwner(to, info)
	}
	if err == nil {
		err = os.Chmod(to, info.Mode())
	}
	return err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closing := out.Close(); err == nil {
		err = closing
	}
	return err
}
