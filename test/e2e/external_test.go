//go:build e2e

package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/local/embed"
)

// external: the control plane's etcd is elsewhere. Two machines, four, and one: any number will do, and none has a member.
//
//quorate:shows kubernetes created newer
func external(t *testing.T, e *environment) {
	const name = "quebec"
	gateway := e.address("0.1")
	port := freePort(t)
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer,
		clusterConfiguration, clusterConfiguration+externalEtcd(gateway, port), "  replicas: 3\n", "  replicas: 2\n"))
	eventually(t, "it says which certificates it misses", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Reason != "GivenCertificatesMissing" {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
	e.runEtcd(t, name, gateway, port)
	for _, replicas := range []int{2, 4, 1} {
		e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To(int32(replicas)) })
		eventually(t, "nothing to do", patience, func() string {
			if kcp := e.controlPlane(t, name); kcp.Status.Plan.Step != "Nothing" || len(e.machines(t, name)) != replicas {
				return kcp.Status.Plan.Message
			}
			return ""
		})
		eventually(t, fmt.Sprintf("%d healthy nodes", replicas), patience, e.healthy(t, name, replicas))
	}
	e.takeDown(t, name)
}

// clusterConfiguration begins what manifests say of a cluster as kubeadm makes it.
const clusterConfiguration = "    clusterConfiguration:\n"

// externalEtcd is the part of it for an etcd that runs elsewhere, with the certificates of the cluster's secrets.
func externalEtcd(address, port string) string {
	return fmt.Sprintf(`      etcd:
        external:
          endpoints: ["https://%s"]
          caFile: /etc/kubernetes/pki/etcd/ca.crt
          certFile: /etc/kubernetes/pki/apiserver-etcd-client.crt
          keyFile: /etc/kubernetes/pki/apiserver-etcd-client.key
`, net.JoinHostPort(address, port))
}

// runEtcd runs an etcd of one member on an address of the host, and gives the cluster what it needs to use it.
func (e *environment) runEtcd(t *testing.T, cluster, address, port string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	authority, folder := newPair(t, secret.EtcdCA), t.TempDir()
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	server := signedBy(t, authority, certs.Config{CommonName: "etcd", Usages: both,
		AltNames: certs.AltNames{IPs: []net.IP{net.ParseIP(address)}}})
	for file, data := range map[string][]byte{"ca": authority["tls.crt"], "crt": server["tls.crt"], "key": server["tls.key"]} {
		must(os.WriteFile(filepath.Join(folder, file), data, 0o600))
	}
	env, err := embed.Load(e.state)
	must(err)
	url := "https://" + net.JoinHostPort(address, port)
	eventually(t, "this host has the address "+address, patience, func() string {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			return err.Error()
		}
		must(l.Close())
		return ""
	})
	process := exec.Command(filepath.Join(env.Artifacts.Management, "etcd"), "--data-dir", folder+"/data", "--log-level", "warn",
		"--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", "http://127.0.0.1:"+freePort(t),
		"--cert-file", folder+"/crt", "--key-file", folder+"/key", "--trusted-ca-file", folder+"/ca", "--client-cert-auth")
	must(process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	eventually(t, "etcd listens", patience, func() string {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, port), time.Second)
		if err != nil {
			return err.Error()
		}
		must(conn.Close())
		return ""
	})
	for purpose, data := range map[secret.Purpose]map[string][]byte{
		secret.EtcdCA:              {"tls.crt": authority["tls.crt"]},
		secret.APIServerEtcdClient: clientOf(t, authority),
	} {
		must(e.management(t).Create(context.Background(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: secret.Name(cluster, purpose),
				Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}},
			Type: clusterv1.ClusterSecretType,
			Data: data,
		}))
	}
}

// manifests writes those that `up` makes of a cluster's name and version, with some text in place of other text, and returns the file.
func (e *environment) manifests(t *testing.T, name, version string, oldnew ...string) string {
	t.Helper()
	return writeManifests(t, name, e.quorate(t, "up", "--dry-run", "--name", name, "--kubernetes-version", version), oldnew...)
}

// writeManifests writes manifests with some text in place of other text, and returns the file.
func writeManifests(t *testing.T, name, text string, oldnew ...string) string {
	t.Helper()
	for i := 0; i < len(oldnew); i += 2 {
		if strings.Count(text, oldnew[i]) != 1 {
			t.Fatalf("no place for a change of %q in\n%s", oldnew[i], text)
		}
		text = strings.Replace(text, oldnew[i], oldnew[i+1], 1)
	}
	file := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
