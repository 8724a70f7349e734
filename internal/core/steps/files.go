package steps

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// File is a file of the user's that a node is to have. What it is to hold is handed over apart: it may be a secret.
type File struct {
	// Path is absolute.
	Path string `json:"path"`
	// Owner is a user, or user:group, by name or number. Defaults to root:root.
	Owner string `json:"owner,omitempty"`
	// Permissions are octal, such as 0640. Defaults to 0644.
	Permissions string `json:"permissions,omitempty"`
}

// FilesDir is where the pod of an upgrade has what the files are to hold.
const FilesDir = "/quorate-files"

// FileKey is the name of what the i-th file is to hold, in FilesDir and in the secret that is mounted there.
func FileKey(i int) string { return strconv.Itoa(i) }

// heldFiles are folders, and files, in which no file of the user's is changed on a live node, and why.
var heldFiles = []struct{ path, why string }{
	{"/etc/kubernetes/manifests", "kubeadm writes it"},
	{"/etc/kubernetes/pki", "certificates are renewed there"},
	{"/etc/kubernetes/admin.conf", "kubeadm writes it"},
	{"/etc/kubernetes/super-admin.conf", "kubeadm writes it"},
	{"/etc/kubernetes/controller-manager.conf", "kubeadm writes it"},
	{"/etc/kubernetes/scheduler.conf", "kubeadm writes it"},
	{"/etc/kubernetes/kubelet.conf", "kubeadm writes it"},
	{"/etc/kubernetes/bootstrap-kubelet.conf", "kubeadm writes it"},
	{"/var/lib/kubelet", "it is the kubelet's"},
	{"/var/lib/etcd", "it is etcd's"},
	{"/var/lib/quorate-upgrade", "it is the upgrader's"},
	{"/var/lib/containerd", "it is the runtime's"},
	{"/etc/containerd", "the runtime reads it when it starts"},
	{"/etc/crio", "the runtime reads it when it starts"},
	{"/etc/systemd", "it is read when the machine starts"},
	{"/usr/lib/systemd", "it is read when the machine starts"},
	{"/lib/systemd", "it is read when the machine starts"},
	{"/etc/modules-load.d", "it is read when the machine starts"},
	{"/etc/sysctl.d", "it is read when the machine starts"},
	{"/etc/sysctl.conf", "it is read when the machine starts"},
	{"/etc/fstab", "it is read when the machine starts"},
	{"/etc/cloud", "it is read when the machine starts"},
	{"/etc/netplan", "it is read when the machine starts"},
	{"/run", "it is gone when the machine restarts, and was used at its first boot"},
	{"/var/run", "it is gone when the machine restarts, and was used at its first boot"},
	{"/tmp", "it was used at the machine's first boot"},
	{"/proc", "it is no file of a disk"},
	{"/sys", "it is no file of a disk"},
	{"/dev", "it is no file of a disk"},
}

// HeldFile says why a file of the user's at a path is not changed on a live node; empty: it can be.
func HeldFile(file string) string {
	switch {
	case !path.IsAbs(file) || path.Clean(file) != file || file == "/":
		return "its path is not absolute, or not the shortest one"
	case strings.HasPrefix(path.Base(file), "."):
		return "its name begins with a dot"
	case slices.Contains([]string{"kubelet", "kubeadm", "kubectl"}, path.Base(file)) && strings.Contains(path.Dir(file), "bin"):
		return "an upgrade replaces the program"
	}
	for _, held := range heldFiles {
		if Below(file, held.path) {
			return held.why
		}
	}
	return ""
}

// Below reports whether a file is one at a path, or below it.
func Below(file, folder string) bool {
	rest, has := strings.CutPrefix(file, strings.TrimSuffix(folder, "/"))
	return has && (rest == "" || rest[0] == '/')
}
