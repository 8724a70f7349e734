//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// joinData is what a machine gets that must not be able to join.
type joinData struct {
	version, endpoint, token, caHash string
	// before are commands that run before kubeadm.
	before []string
}

type joinFile struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Permissions string `json:"permissions"`
}

// cloudConfig is bootstrap data as Cluster API makes it, with shorter patience.
func (d joinData) cloudConfig(t *testing.T) []byte {
	t.Helper()
	join := map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
		"discovery": map[string]any{"bootstrapToken": map[string]any{"apiServerEndpoint": d.endpoint, "token": d.token,
			"caCertHashes": []string{d.caHash}}},
		"nodeRegistration": map[string]any{"criSocket": "unix:///run/containerd/containerd.sock",
			"ignorePreflightErrors": []string{"SystemVerification"}},
		"timeouts": map[string]any{"discovery": "30s", "kubeletHealthCheck": "1m0s"},
	}
	config, err := yaml.Marshal(join)
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.Marshal(map[string]any{
		"write_files": []joinFile{{"/run/kubeadm/kubeadm-join-config.yaml", string(config), "0640"}},
		"runcmd": append(d.before,
			"kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && echo success > /run/cluster-api/bootstrap-success.complete",
			"date +%s.%N > /root/ended"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("## template: jinja\n#cloud-config\n"), data...)
}

// clusterEndpoint is where the cluster's API server answers.
func (j *joins) clusterEndpoint(t *testing.T) string {
	t.Helper()
	c := &clusterv1.Cluster{}
	if err := j.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: j.name}, c); err != nil {
		t.Fatal(err)
	}
	return c.Spec.ControlPlaneEndpoint.String()
}

// bootstrapToken makes a token in the cluster that expires after some time.
func (j *joins) bootstrapToken(t *testing.T, after time.Duration) string {
	t.Helper()
	text := strings.ToLower(rand.Text())
	id, secret := text[:6], text[6:22]
	c, _ := j.workload(t, j.name)
	_, err := c.CoreV1().Secrets(metav1.NamespaceSystem).Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "expiration": time.Now().UTC().Add(after).Format(time.RFC3339),
			"usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return id + "." + secret
}

// letExpire waits until the cluster has forgotten the token that expires, and lets the machine begin that has it.
func (j *joins) letExpire(t *testing.T, name string) {
	t.Helper()
	id, _, _ := strings.Cut(j.expiring, ".")
	c, _ := j.workload(t, j.name)
	eventually(t, "the token has expired", patience, func() string {
		_ = j.look(t) // the others are found out meanwhile
		info, err := c.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(context.Background(), "cluster-info", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if info.Data["jws-kubeconfig-"+id] != "" {
			return "it is signed"
		}
		return ""
	})
	j.quorate(t, "shell", j.name+"-"+name, "--", "touch", begins)
}

// authority returns one of the cluster's authorities, certificate and key.
func (j *joins) authority(t *testing.T, which string) (crt, key []byte) {
	t.Helper()
	s := &corev1.Secret{}
	if err := j.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: j.name + "-" + which}, s); err != nil {
		t.Fatal(err)
	}
	return s.Data["tls.crt"], s.Data["tls.key"]
}

// hash is that of the cluster's authority, as kubeadm pins it.
func (j *joins) hash(t *testing.T) string {
	t.Helper()
	pair, err := tls.X509KeyPair(j.authority(t, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pair.Leaf.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// gateway is this host's address in the network of the machines.
func (j *joins) gateway(t *testing.T) netip.Addr {
	t.Helper()
	return netip.MustParsePrefix(j.network).Masked().Addr().Next()
}

// nobody is an endpoint in the network of the machines that nobody has.
func (j *joins) nobody(t *testing.T) string {
	t.Helper()
	a := netip.MustParsePrefix(j.network).Masked().Addr().As4()
	a[2], a[3] = a[2]|0x0f, 0xfd
	return net.JoinHostPort(netip.AddrFrom4(a).String(), "6443")
}

// serveFromTheFuture is an endpoint of the cluster whose certificate becomes valid in two days. Machines share their host's clock, so
// that none of them can be two days behind; to kubeadm it is the same.
func (j *joins) serveFromTheFuture(t *testing.T) string {
	t.Helper()
	authority, err := tls.X509KeyPair(j.authority(t, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{j.gateway(t).AsSlice()},
		NotBefore: time.Now().Add(fromNow), NotAfter: time.Now().Add(2 * fromNow),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", net.JoinHostPort(j.gateway(t).String(), "0"), &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.Leaf)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: j.endpoint})
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}}
	server := &http.Server{Handler: proxy, ErrorLog: log.New(t.Output(), "", 0)}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}
