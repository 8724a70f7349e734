package embed

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestPKI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Now()
	if err := ensurePKI(dir, now); err != nil {
		t.Fatal(err)
	}
	checkMode(t, dir, 0o700)
	before := contents(t, dir)
	for name := range before {
		checkMode(t, filepath.Join(dir, name), 0o600)
	}
	for authority, issued := range leaves {
		for _, l := range issued {
			checkLeaf(t, dir, authority, l)
		}
	}

	if err := ensurePKI(dir, now.Add(leafLife-renewBefore-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if changed := difference(before, contents(t, dir)); len(changed) > 0 {
		t.Errorf("changed while everything was good: %v", changed)
	}

	if err := os.Remove(filepath.Join(dir, "admin.crt")); err != nil {
		t.Fatal(err)
	}
	if err := ensurePKI(dir, now); err != nil {
		t.Fatal(err)
	}
	if got, want := difference(before, contents(t, dir)), []string{"admin.crt", "admin.key"}; !slices.Equal(got, want) {
		t.Errorf("changed after a certificate was lost: %v, want %v", got, want)
	}

	if err := ensurePKI(dir, now.Add(leafLife-renewBefore+time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "ca.key", "etcd-ca.crt", "etcd-ca.key", "service-accounts.key", "service-accounts.pub"} {
		if !bytes.Equal(before[name], contents(t, dir)[name]) {
			t.Errorf("%s was replaced when certificates expired", name)
		}
	}
	for _, name := range []string{"apiserver.crt", "etcd-client.crt", "controllers.crt"} {
		if bytes.Equal(before[name], contents(t, dir)[name]) {
			t.Errorf("%s was not renewed", name)
		}
	}
}

// checkLeaf verifies a pair as the one who is shown it does.
func checkLeaf(t *testing.T, dir, authority string, l leaf) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, l.file+".crt"), filepath.Join(dir, l.file+".key"))
	if err != nil {
		t.Errorf("%s: %v", l.file, err)
		return
	}
	ca, err := readCert(filepath.Join(dir, authority+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	o := x509.VerifyOptions{Roots: roots, KeyUsages: l.usage}
	if l.server {
		o.DNSName = "127.0.0.1"
	}
	if _, err := pair.Leaf.Verify(o); err != nil {
		t.Errorf("%s: %v", l.file, err)
	}
	if pair.Leaf.Subject.CommonName != l.user || !slices.Equal(pair.Leaf.Subject.Organization, l.groups) {
		t.Errorf("%s is of %v, want %s %v", l.file, pair.Leaf.Subject, l.user, l.groups)
	}
	if isServer := slices.Contains(pair.Leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth); isServer != l.server {
		t.Errorf("%s may be a server's: %t, want %t", l.file, isServer, l.server)
	}
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if out[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func difference(a, b map[string][]byte) []string {
	var out []string
	for name, data := range b {
		if !bytes.Equal(a[name], data) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	if err := ensurePKI(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := writeKubeconfig(path, dir, "controllers", "https://127.0.0.1:1234"); err != nil {
		t.Fatal(err)
	}
	checkMode(t, path, 0o600)
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	all := contents(t, dir)
	if cfg.Host != "https://127.0.0.1:1234" || !bytes.Equal(cfg.CAData, all["ca.crt"]) ||
		!bytes.Equal(cfg.CertData, all["controllers.crt"]) || !bytes.Equal(cfg.KeyData, all["controllers.key"]) {
		t.Errorf("it leads to %s with other keys than those of the folder", cfg.Host)
	}
}
