package steps

import (
	"strings"
	"testing"
)

// TestHeldFile: which files are left to those who write them or read them once.
func TestHeldFile(t *testing.T) {
	for file, want := range map[string]string{
		"/etc/kubernetes/audit.yaml":               "",
		"/etc/kubernetes/manifests-of-mine/a.yaml": "",
		"/etc/default/kubelet":                     "",
		"/etc/kubernetes/encryption/config.yaml":   "",
		"/home/me/.ssh/authorized_keys":            "",
		"/etc/kubernetes/manifests/a.yaml":         "kubeadm writes it",
		"/etc/kubernetes/pki/etcd/ca.crt":          "certificates",
		"/etc/kubernetes/admin.conf":               "kubeadm writes it",
		"/var/lib/kubelet/config.yaml":             "the kubelet's",
		"/var/lib/quorate-upgrade/state.json":      "the upgrader's",
		"/etc/containerd/config.toml":              "the runtime reads it",
		"/etc/sysctl.d/a.conf":                     "when the machine starts",
		"/run/kubeadm/a.yaml":                      "first boot",
		"/usr/local/bin/kubelet":                   "an upgrade replaces",
		"/usr/local/bin/my-tool":                   "",
		"/etc/.hidden":                             "with a dot",
		"/etc/../etc/a":                            "not absolute",
		"etc/a":                                    "not absolute",
		"/etc/a/":                                  "not absolute",
		"/":                                        "not absolute",
		"":                                         "not absolute",
	} {
		if got := HeldFile(file); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	if !Below("/a/b", "/a/") || !Below("/a", "/a") || Below("/ab", "/a") {
		t.Error("what is below a folder is not told from what begins alike")
	}
}
