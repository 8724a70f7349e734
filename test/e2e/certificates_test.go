//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// listedCertificate is what the test reads of an entry of `quorate certificates list`.
type listedCertificate struct {
	Name, Where, Machine, Location, Fingerprint, PublicKey, RenewedBy string

	Key      bool
	Warnings []struct{ Reason string }
}

// listedCertificates is what `quorate certificates list` prints.
type listedCertificates struct {
	Certificates []listedCertificate
	NotLookedAt  []struct{ Where, Machine, Location, Why string }
}

// mostListTime is how long the list of three nodes and a worker may take.
const mostListTime = 5 * time.Second

// mostNodesTime is how long it may take with the files of four nodes, with images there, on a busy host of two cores that runs all of them.
const mostNodesTime = 20 * time.Second

// mostPullTime is how long it may take where nodes lack the image: a kubelet asks for one that no registry has until it gives up.
const mostPullTime = 70 * time.Second

// certificates: `quorate certificates list` has each certificate that the machines' own files say their servers show, and those of the
// secrets. It takes no more than five seconds, also while a machine does not answer, and says what it could not look at.
func certificates(t *testing.T, e *environment) {
	const name = "sierra"
	e.up(t, name, "--replicas", "3", "--workers", "1")
	machines := e.machines(t, name)
	got := e.listCertificates(t, name, mostListTime)
	found := map[string]bool{}
	for _, c := range got.Certificates {
		found[c.Where+" "+c.Machine+" "+c.Fingerprint] = true
		if len(c.Warnings) > 0 {
			t.Errorf("%s at %s of %s: %+v", c.Name, c.Location, c.Machine, c.Warnings)
		}
	}
	wanted := 0
	want := func(where, machine, file, fingerprint string) {
		t.Helper()
		if wanted++; !found[where+" "+machine+" "+fingerprint] {
			t.Errorf("%s of %s is not listed as %s", file, machine, where)
		}
	}
	for _, m := range machines {
		for file, print := range e.fingerprints(t, m, "/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/pki/etcd/server.crt",
			"/etc/kubernetes/pki/etcd/peer.crt", "/var/lib/kubelet/pki/kubelet.crt") {
			want("Handshake", m, file, print)
		}
	}
	for file, print := range e.fingerprints(t, machines[0], "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/etcd/ca.crt",
		"/etc/kubernetes/pki/front-proxy-ca.crt") {
		want("Secret", "", file, print)
	}
	t.Logf("%d entries; %d certificates of files are among them; not looked at: %+v", len(got.Certificates), wanted, got.NotLookedAt)
	if !slices.ContainsFunc(got.Certificates, func(c listedCertificate) bool { return c.Name == "kubeconfig" && c.RenewedBy == "Manager" }) {
		t.Error("the kubeconfig is not listed")
	}
	e.certificatesInStatus(t, name)
	e.certificatesOfNodes(t, name)
	e.quorate(t, "certificates", "list", name, "--wide")
	e.quorate(t, "certificates", "list", "--all")

	e.quorate(t, "machine", "stop", machines[2])
	without := e.listCertificates(t, name, mostListTime)
	told := fmt.Sprint(without.NotLookedAt)
	if len(without.Certificates) >= len(got.Certificates) || strings.Count(told, machines[2]) < 4 {
		t.Errorf("with %s stopped %d certificates are listed, not looked at: %s", machines[2], len(without.Certificates), told)
	}
	e.takeDown(t, name)
}

// certificatesOfNodes: with --nodes each certificate and key is listed that lies in a file of kubeadm or the kubelet, of workers too. Nodes
// without the upgrader's image are told.
func (e *environment) certificatesOfNodes(t *testing.T, name string) {
	t.Helper()
	var all []string
	for _, m := range e.machinesWith(t, client.MatchingLabels{clusterv1.ClusterNameLabel: name}) {
		all = append(all, m.Name)
	}
	without := e.listCertificates(t, name, mostPullTime, "--nodes")
	if told := fmt.Sprint(without.NotLookedAt); strings.Count(told, "cannot be used on the node") != len(all) {
		t.Errorf("without the image, not looked at: %s", told)
	}
	set, err := artifacts.Ensure(context.Background(), artifacts.Options{}, artifacts.DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	upgrader := filepath.Join(filepath.Dir(e.binary), "quorate-upgrader")
	image, err := artifacts.EnsureUpgrader(context.Background(), artifacts.Options{}, set, upgrader)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		e.importImage(t, m, image)
	}
	got := e.listCertificates(t, name, mostNodesTime, "--nodes")
	listed := map[string]int{}
	for _, c := range got.Certificates {
		if c.Where == "File" {
			listed[c.Machine+" "+c.Location]++
		}
	}
	blocks, missing := 0, 0
	for _, m := range all {
		for file, want := range e.blocksOnNode(t, m) {
			blocks += want
			if listed[m+" "+file] != want {
				missing++
				t.Errorf("%s of %s holds %d certificates and keys, and %d are listed", file, m, want, listed[m+" "+file])
			}
		}
	}
	t.Logf("%d nodes: %d entries, of files %d; by hand %d, %d files differ", len(all), len(got.Certificates), len(listed), blocks, missing)
	if blocks < 25*3 {
		t.Errorf("only %d certificates and keys were found by hand: this test looks at the wrong place", blocks)
	}
	left, err := e.try("kubectl", name, "--", "-n", "kube-system", "get", "pods", "-o", "name", "-l",
		"app.kubernetes.io/name=quorate-certificates")
	if err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("pods are left: %s, %v", left, err)
	}
}

// importImage brings an image to a machine.
func (e *environment) importImage(t *testing.T, machine, image string) {
	t.Helper()
	file, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := exec.Command(e.binary, "shell", machine, "--", "ctr", "--namespace", "k8s.io", "images", "import", "--local", "-")
	c.Env, c.Stdin = append(os.Environ(), "QUORATE_STATE="+e.state), file
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("importing %s on %s: %v\n%s", image, machine, err, out)
	}
}

// blocksOnNode counts by hand how many certificates and keys each file of kubeadm and the kubelet holds on a machine. In a kubeconfig each
// is a value in base64.
func (e *environment) blocksOnNode(t *testing.T, machine string) map[string]int {
	t.Helper()
	found := map[string]int{}
	const count = `count() { p=$1; shift; for f in "$@"; do [ -f "$f" ] && echo "$f $(grep -c -e "$p" "$f")"; done; }
count -----BEGIN $(find /etc/kubernetes/pki -type f 2>/dev/null)
count 'certificate-authority-data:\|client-certificate-data:\|client-key-data:' /etc/kubernetes/*.conf
cd /var/lib/kubelet/pki && count -----BEGIN $PWD/kubelet.crt $PWD/kubelet.key $PWD/*-current.pem
true`
	for line := range strings.Lines(e.quorate(t, "shell", machine, "--", "sh", "-c", count)) {
		var file string
		var blocks int
		if _, err := fmt.Sscan(line, &file, &blocks); err != nil {
			t.Fatalf("counting on %s: %q", machine, line)
		}
		found[file] = blocks
	}
	return found
}

// listCertificates lists those of a cluster, and judges how long that takes.
func (e *environment) listCertificates(t *testing.T, name string, most time.Duration, more ...string) (got listedCertificates) {
	t.Helper()
	begun := time.Now()
	out := e.quorate(t, append([]string{"certificates", "list", name, "-o", "json"}, more...)...)
	took := time.Since(begun)
	t.Logf("certificates list %s: %.2f s", strings.Join(more, " "), took.Seconds())
	if took > most {
		t.Errorf("it took %s, at most %s is allowed", took, most)
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "PRIVATE KEY") {
		t.Error("a private key is printed")
	}
	return got
}

// fingerprints are the SHA-256 of the first certificates of files of a machine, as the files themselves have them.
func (e *environment) fingerprints(t *testing.T, machine string, files ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range files {
		block, _ := pem.Decode([]byte(e.quorate(t, "shell", machine, "--", "cat", file)))
		if block == nil {
			t.Fatalf("%s of %s is no PEM", file, machine)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Fatalf("%s of %s: %v", file, machine, err)
		}
		sum := sha256.Sum256(block.Bytes)
		found[file] = hex.EncodeToString(sum[:])
	}
	return found
}

// certificatesInStatus: the control plane's status has the first of each kind, and all API servers and members are seen.
func (e *environment) certificatesInStatus(t *testing.T, name string) {
	t.Helper()
	want := []string{"apiserver", "ca", "etcd-ca", "etcd-server", "front-proxy-ca", "kubeconfig"}
	eventually(t, "the status has the certificates", patience, func() string {
		status := e.controlPlane(t, name).Status.Certificates
		var names []string
		for _, c := range status.First {
			names = append(names, c.Name)
		}
		if !slices.Equal(names, want) || status.Seen == nil || *status.Seen != 10 || status.NotSeen != "" {
			return fmt.Sprintf("first %v, seen %v, not seen %q", names, status.Seen, status.NotSeen)
		}
		return ""
	})
}
