package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRecord reads damaged records: whatever is in one is an error or a machine that can be worked with.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"spec":{"name":"one","cluster":"default/demo","address":"172.31.77.2","podCIDR":"10.244.0.0/24"},"made":true,` +
		`"process":{"pid":1,"began":7,"boot":"x"}}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"spec":{"name":"two","address":"172.31.77.2"}}`))
	f.Add([]byte(`{"spec":{"name":"one","address":"fe80::1%eth0","podCIDR":"::/0"},"peers":{"10.0.0.0/8":"1.2.3.4"}}`))
	f.Add([]byte(`{"spec":{"name":"one","address":"172.31.77.2"},"stopped":true,"problem":"\u001b[2J"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Open(t.TempDir(), testNetwork, "")
		if err != nil {
			t.Fatal(err)
		}
		folder := h.folder("one")
		if err := os.MkdirAll(string(folder), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder.record(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := folder.load(); err == nil {
			_ = h.link(r.Spec.Address)
			if r.Spec.Name != "one" {
				t.Errorf("the record of %q is taken for that of one", r.Spec.Name)
			}
		}
		if s, err := h.Get("one"); err == nil && strings.ContainsRune(s.Bootstrap.Output+s.Problem, '\x1b') {
			t.Errorf("%+v", s)
		}
		if _, err := h.List(); err == nil {
			if _, err := filepath.Abs(h.Logs("one")); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzStatus reads what a machine says of itself.
func FuzzStatus(f *testing.F) {
	f.Add([]byte(`{"ready":true,"problem":"x","bootstrap":{"phase":"Failed","command":"kubeadm join --token ` +
		`abcdef.0123456789abcdef","output":"\u001b[31m"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		f := machineFolder(t)
		if err := os.WriteFile(f.in("status.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := f.status()
		if text := s.Problem + s.Bootstrap.Command + s.Bootstrap.Output + s.Bootstrap.Full + s.Kubelet; strings.ContainsAny(text, "\x1b\x00\r") {
			t.Errorf("%q", text)
		}
	})
}
