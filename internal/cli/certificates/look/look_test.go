package look

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/pki/inventory"
	"github.com/quorate/quorate/internal/manager"
)

// address is that of the only machine with servers. No other test listens there.
const address = "127.91.48.1"

// made is a certificate and its key.
type made struct {
	*x509.Certificate
	key crypto.Signer
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func issue(t *testing.T, by *made, name string, days int) *made {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Duration(days)*24*time.Hour + time.Hour), BasicConstraintsValid: true, IsCA: by == nil,
		DNSNames: []string{"localhost", "kubernetes", "a", "b"}}
	parent, signer := template, crypto.Signer(key)
	if by != nil {
		parent, signer = by.Certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &made{cert, key}
}

func (m *made) pem() []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Raw}) }

func (m *made) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(m.key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// serve shows a certificate on a port of the machine.
func serve(t *testing.T, port int, cert *made) {
	t.Helper()
	config := &tls.Config{ClientAuth: tls.RequireAnyClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: cert.key}}}
	listener, err := tls.Listen("tcp", fmt.Sprintf("%s:%d", address, port), config)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = conn.(*tls.Conn).Handshake()
				_ = conn.Close()
			}()
		}
	}()
}

// world is a cluster with one control plane machine that runs, one worker that has no address, and all secrets but front-proxy's. Its API
// server does not answer, and its etcd shows no certificate to peers.
func world(t *testing.T) []client.Object {
	t.Helper()
	ca, etcd := issue(t, nil, "kubernetes", 3650), issue(t, nil, "etcd-ca", 3650)
	serve(t, 6443, issue(t, ca, "kube-apiserver", 100))
	serve(t, 2379, issue(t, etcd, "demo-1", 10))
	serve(t, 10250, issue(t, nil, "demo-1@1", 200))
	in := base64.StdEncoding.EncodeToString
	admin := issue(t, ca, "kubernetes-admin", 300)
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "https://%s:1", certificate-authority-data: %s}}],
users: [{name: a, user: {client-certificate-data: %s, client-key-data: %s}}]}`, address, in(ca.pem()), in(admin.pem()), in(admin.keyPEM(t)))
	meta := func(name string, labels ...string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
		for _, l := range labels {
			m.Labels[l] = ""
		}
		return m
	}
	secret := func(name string, data map[string][]byte) client.Object {
		return &corev1.Secret{ObjectMeta: meta("demo-" + name), Type: clusterv1.ClusterSecretType, Data: data}
	}
	running := &clusterv1.Machine{ObjectMeta: meta("demo-1", clusterv1.MachineControlPlaneLabel)}
	running.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: address}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
		Kind: "KubeadmControlPlane", Name: "demo-kcp"}
	sa := issue(t, nil, "sa", 1)
	public, err := x509.MarshalPKIXPublicKey(sa.key.Public())
	must(t, err)
	return []client.Object{
		cluster, &controlplanev1.KubeadmControlPlane{ObjectMeta: meta("demo-kcp")}, running, &clusterv1.Machine{ObjectMeta: meta("demo-worker")},
		secret("ca", map[string][]byte{"tls.crt": ca.pem(), "tls.key": ca.keyPEM(t)}),
		secret("etcd", map[string][]byte{"tls.crt": etcd.pem(), "tls.key": etcd.keyPEM(t)}),
		secret("sa", map[string][]byte{"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), "tls.key": sa.keyPEM(t)}),
		secret("kubeconfig", map[string][]byte{"value": []byte(kubeconfig)}),
	}
}

// titleOf says what an entry is, and where.
func titleOf(e inventory.Entry) string {
	kind := ""
	if e.Key {
		kind = map[bool]string{true: "(private key)", false: "(public key)"}[e.Private]
	}
	return fmt.Sprintf("%s %s %s %s %s", e.Name, kind, e.Machine, e.Where, e.Location)
}

// entriesOf are the entries of a report, a line for each.
func entriesOf(r Report) []string {
	var all []string
	for _, e := range r.Entries {
		var reasons []string
		for _, w := range e.Warnings {
			reasons = append(reasons, w.Reason)
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", strings.Join(strings.Fields(titleOf(e)), " "),
			e.RenewedBy, strings.Join(reasons, ","))))
	}
	slices.Sort(all)
	return all
}

// TestLook: of a cluster whose API server does not answer, secrets and servers that can be reached are listed, and all else is told.
func TestLook(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(world(t)...).Build()
	begun := time.Now()
	r, err := At(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "demo"}, nil)
	must(t, err)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	want := []string{
		"apiserver demo-1 Handshake port 6443 Replacement",
		"ca (private key) Secret demo-ca: tls.key Nobody",
		"ca Secret demo-ca: tls.crt Nobody",
		"ca Secret demo-kubeconfig: value Nobody",
		"etcd-ca (private key) Secret demo-etcd: tls.key Nobody",
		"etcd-ca Secret demo-etcd: tls.crt Nobody",
		"etcd-server demo-1 Handshake port 2379 Replacement EndsSoon",
		"kubeconfig (private key) Secret demo-kubeconfig: value Nobody",
		"kubeconfig Secret demo-kubeconfig: value Manager",
		"kubelet-server demo-1 Handshake port 10250 Nobody",
		"sa (private key) Secret demo-sa: tls.key Nobody",
		"sa (public key) Secret demo-sa: tls.crt Nobody",
	}
	if got := entriesOf(r); !slices.Equal(got, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	told := unseenText(r)
	for _, want := range []string{
		"Secret  demo-proxy: does not exist", "Handshake demo-1 port 2380: ", "Handshake demo-worker port 10250: the machine has no address",
		"File demo-1 : files of nodes are looked at with --nodes only", "File demo-worker : files of nodes are looked at",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("it does not say %q:\n%s", want, told)
		}
	}
	text, err := json.Marshal(r)
	must(t, err)
	if strings.Contains(string(text), "PRIVATE KEY") || strings.Contains(told, "PRIVATE KEY") {
		t.Error("a private key is printed")
	}
}

// unseenText is what could not be looked at, a line for each.
func unseenText(r Report) string {
	var b strings.Builder
	for _, u := range r.Unseen {
		fmt.Fprintf(&b, "%s %s %s: %s\n", u.Where, u.Machine, u.Location, u.Why)
	}
	return b.String()
}

// TestForbidden: who may not read secrets sees what servers show.
func TestForbidden(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(world(t)...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
			if _, is := into.(*corev1.Secret); is {
				return errors.New("secrets is forbidden")
			}
			return c.Get(ctx, key, into, o...)
		},
	})
	r, err := At(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "demo"}, nil)
	must(t, err)
	want := []string{"apiserver demo-1 Handshake port 6443 Replacement", "etcd-server demo-1 Handshake port 2379 Replacement EndsSoon",
		"kubelet-server demo-1 Handshake port 10250 Nobody"}
	if got := entriesOf(r); !slices.Equal(got, want) {
		t.Errorf("found:\n%s", strings.Join(got, "\n"))
	}
	if told := unseenText(r); strings.Count(told, "is forbidden") != 5 {
		t.Errorf("it says:\n%s", told)
	}
}

// TestSilentServer: a port that accepts and says nothing does not hold up the others for long.
func TestSilentServer(t *testing.T) {
	objects := world(t)
	listener, err := net.Listen("tcp", address+":2380")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	c := fake.NewClientBuilder().WithScheme(manager.Scheme()).WithObjects(objects...).Build()
	begun := time.Now()
	r, err := At(t.Context(), c, client.ObjectKey{Namespace: "default", Name: "demo"}, nil)
	must(t, err)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if len(r.Entries) != 12 || !strings.Contains(unseenText(r), "Handshake demo-1 port 2380: no answer in time") {
		t.Errorf("%d entries:\n%s", len(r.Entries), unseenText(r))
	}
}
