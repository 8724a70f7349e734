package staticpod

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	for urls, want := range map[string]string{
		"": "",
		"https://10.0.0.1:2379,https://127.0.0.1:2379":  "https://127.0.0.1:2379",
		"https://[fd00::1]:2379,https://[::1]:2379":     "https://[::1]:2379",
		"https://10.0.0.1:2379,https://[fd00::1]:2379":  "https://10.0.0.1:2379",
		"https://[::]:2379":                             "https://[::1]:2379",
		"https://0.0.0.0:12379":                         "https://127.0.0.1:12379",
		"https://10.0.0.1:2379, http://localhost:2379":  "http://localhost:2379",
		"https://etcd.example.com:2379":                 "https://etcd.example.com:2379",
		"unix:///run/etcd.sock,https://127.0.0.1:2379,": "https://127.0.0.1:2379",
	} {
		if got := nearest(urls); got != want {
			t.Errorf("%q: %s, want %s", urls, got, want)
		}
	}
}

const etcdText = `kind: Pod
metadata: {name: etcd}
spec:
  containers:
  - command: [etcd, --name=m1, --twice=1, "--listen-client-urls=https://[::1]:2379,https://[fd00::1]:2379"]
    args: [--data-dir=/data/etcd, --twice=2, --word, w, --bare, --other, --trusted-ca-file=/mine/ca.crt]
  volumes:
  - {name: etcd-certs, hostPath: {path: /certificates/etcd}}
`

// TestManifest: what a manifest says, of flags as a program takes them.
func TestManifest(t *testing.T) {
	p, err := Parse([]byte(etcdText))
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"name": "m1", "data-dir": "/data/etcd", "data": "", "twice": "2", "word": "w", "bare": ""} {
		if got := Flag(p, flag); got != want {
			t.Errorf("--%s: %q, want %q", flag, got, want)
		}
	}
	if got := Certificates(nil, p); got != "/certificates" {
		t.Errorf("certificates are in %s", got)
	}
	if got := Certificates(nil, nil); got != "/etc/kubernetes/pki" {
		t.Errorf("without a manifest certificates are in %s", got)
	}
	want := Member{"https://[::1]:2379", "/mine/ca.crt", "/certificates/etcd/healthcheck-client.crt",
		"/certificates/etcd/healthcheck-client.key", "/data/etcd"}
	if got := MemberOf(p, "/other"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	p, err = Parse([]byte(strings.NewReplacer("listen-client-urls", "advertise-client-urls", "etcd-certs", "x").Replace(etcdText)))
	if err != nil {
		t.Fatal(err)
	}
	if got := MemberOf(p, "/other"); got.URL != want.URL || got.Cert != "/other/etcd/healthcheck-client.crt" {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{"{", "kind: Pod", "- a"} {
		if p, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is a manifest: %v", text, p)
		}
	}
}
