package guest

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzBoot reads what the host hands over.
func FuzzBoot(f *testing.F) {
	f.Add([]byte(`{"name":"one","address":"172.30.1.1","disk":"/d","overlays":[{"lower":"/usr"}],"binds":[{"source":"/a","readOnly":true}],` +
		`"cgroups":{"unified":true,"procs":["/x"]}}`))
	f.Add([]byte(`{"overlays":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), BootFile)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := readBoot(path); (b == nil) == (err == nil) {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

// FuzzEnvironmentFile reads files of NAME="value" lines, which kubeadm and users write.
func FuzzEnvironmentFile(f *testing.F) {
	f.Add([]byte("# x\nKUBELET_EXTRA_ARGS=\"--a=b --c\"\nOTHER='x\n"))
	f.Add([]byte("KUBELET_EXTRA_ARGS=\"\nKUBELET_EXTRA_ARGS='"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "env")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if value, err := environmentFile(path, "KUBELET_EXTRA_ARGS"); err != nil && value != "" {
			t.Errorf("%q, %v", value, err)
		}
	})
}

// FuzzLoadService reads unit files, which etcdadm and users write.
func FuzzLoadService(f *testing.F) {
	f.Add([]byte("[Unit]\nDescription=etcd\n[Service]\nEnvironmentFile=-/none\n" +
		"ExecStart=/opt/bin/etcd\nType=notify\nRestart=on-failure\nRestartSec=5s\n"))
	f.Add([]byte("[Service]\nExecStart=\nExecStart=/a b\nEnvironment=\"A=1\"\nRestartSec=1min 5s\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "etcd.service")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := loadService(path, "/run/x"); err == nil && (len(s.argv) == 0 || s.delay < 0) {
			t.Errorf("%+v", s)
		}
	})
}
