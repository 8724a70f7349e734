package upgrader

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/pki/inventory"
)

// pairPEM is a certificate and its key.
func pairPEM(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

// nodeWith is a node with files.
func nodeWith(t *testing.T, files map[string][]byte) nodeFiles {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return nodeFiles{layout{root: root}}
}

// TestCertificates: the files of kubeadm and the kubelet are told with their public parts, and nothing private is.
func TestCertificates(t *testing.T) {
	cert, key := pairPEM(t)
	in := base64.StdEncoding.EncodeToString
	config := fmt.Appendf(nil, "users: [{user: {client-certificate-data: %s, client-key-data: %s, token: my-token}}]", in(cert), in(key))
	l := nodeWith(t, map[string][]byte{
		"/etc/kubernetes/pki/ca.crt": cert, "/etc/kubernetes/pki/ca.key": key, "/etc/kubernetes/pki/etcd/server.crt": cert,
		"/etc/kubernetes/pki/mine.pem": []byte("not PEM"), "/etc/kubernetes/pki/huge.crt": make([]byte, mostCertificateFile+1),
		"/etc/kubernetes/pki/a/b/c/d/deep.crt": cert, "/etc/kubernetes/pki/notes.txt": cert,
		"/etc/kubernetes/admin.conf": config, "/var/lib/kubelet/pki/kubelet.crt": cert,
		"/var/lib/kubelet/pki/kubelet-client-2026.pem": slices.Concat(cert, key),
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink("kubelet-client-2026.pem", filepath.Join(l.root, "/var/lib/kubelet/pki/kubelet-client-current.pem")))
	must(os.Symlink("nowhere", filepath.Join(l.root, "/etc/kubernetes/pki/broken.crt")))
	must(syscall.Mkfifo(filepath.Join(l.root, "/etc/kubernetes/pki/pipe.key"), 0o600))
	told, err := l.certificates()
	must(err)
	var got []string
	for _, f := range told.Files {
		certs, keys := strings.Count(f.Certificates, "BEGIN"), strings.Count(f.PrivateKeys, "BEGIN")
		got = append(got, fmt.Sprintf("%s %s %d %d %s", f.Path, f.Name, certs, keys, strings.Join(f.Unread, "; ")))
	}
	want := []string{
		"/etc/kubernetes/admin.conf admin.conf 1 1 ",
		"/etc/kubernetes/pki/broken.crt other 0 0 cannot be opened: no such file or directory",
		"/etc/kubernetes/pki/ca.crt ca 1 0 ",
		"/etc/kubernetes/pki/ca.key ca 0 1 ",
		"/etc/kubernetes/pki/etcd/server.crt etcd-server 1 0 ",
		"/etc/kubernetes/pki/huge.crt other 0 0 has 1048577 bytes: at most 1048576 are read",
		"/etc/kubernetes/pki/mine.pem other 0 0 holds no PEM block",
		"/etc/kubernetes/pki/pipe.key other 0 0 is no plain file",
		"/var/lib/kubelet/pki/kubelet-client-current.pem kubelet-client 1 1 ",
		"/var/lib/kubelet/pki/kubelet.crt kubelet-server 1 0 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text, err := json.Marshal(told)
	must(err)
	block, _ := pem.Decode(key)
	for _, private := range []string{"EC PRIVATE", "my-token", in(block.Bytes)[:40]} {
		if strings.Contains(string(text), private) {
			t.Errorf("%q is told", private)
		}
	}
	read, err := inventory.FilesOf("m", text, true)
	if err != nil || len(read) != len(want) {
		t.Errorf("%d files are read, %v", len(read), err)
	}
}

// TestCertificatesElsewhere: kubeadm's folder is the one that the manifests name, and the kubelet's that of its flag. A worker may have
// none.
func TestCertificatesElsewhere(t *testing.T) {
	cert, _ := pairPEM(t)
	manifest := "spec:\n  containers: [{name: kube-apiserver, command: [kube-apiserver]}]\n" +
		"  volumes: [{name: k8s-certs, hostPath: {path: /srv/certs}}]\n"
	l := nodeWith(t, map[string][]byte{
		"/etc/kubernetes/manifests/kube-apiserver.yaml": []byte(manifest), "/srv/certs/apiserver.crt": cert,
		"/var/lib/kubelet/kubeadm-flags.env": []byte(`KUBELET_KUBEADM_ARGS="--cert-dir=/srv/kubelet"`), "/srv/kubelet/kubelet.crt": cert,
	})
	for at, want := range map[*nodeFiles]string{&l: "/srv/certs/apiserver.crt /srv/kubelet/kubelet.crt", {layout{root: t.TempDir()}}: ""} {
		told, err := at.certificates()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range told.Files {
			got = append(got, f.Path)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("found %s, want %s", got, want)
		}
	}
}
