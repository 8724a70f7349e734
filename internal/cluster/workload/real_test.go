package workload

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicerts "sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// TestRealAPIServer goes through the life of a control plane's endpoint: not there yet, there, killed, back.
func TestRealAPIServer(t *testing.T) {
	server, secrets := newRealServer(t)
	c := connect(t, secrets, Options{})
	c.Want(demo, true)
	await(t, c, 2*time.Second, "refused", func(v View) bool { return strings.Contains(v.Why, "refused") })

	server.start()
	answered := server.answers()
	v, _ := await(t, c, 5*time.Second, "reachable", reachable)
	t.Logf("complete %s after the endpoint began to answer", v.Since.Sub(answered))
	if v.Since.Sub(answered) > time.Second {
		t.Errorf("the view was complete only %s after the endpoint began to answer", v.Since.Sub(answered))
	}

	api := server.client()
	_, err := api.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	must(t, err)
	_, took := await(t, c, 3*time.Second, "the Node", func(v View) bool { return names(v) == "a" })
	t.Logf("a Node was seen after %s", took)
	p := pod("etcd-a", corev1.PodRunning)
	p.Spec.NodeName = "a"
	p.Spec.Containers[0].Image = "etcd"
	_, err = api.CoreV1().Pods("kube-system").Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
	await(t, c, 3*time.Second, "the pod", func(v View) bool { return names(v) == "a etcd-a" })
	_, err = api.CoreV1().Nodes().Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`),
		metav1.PatchOptions{})
	must(t, err)
	v, _ = await(t, c, 3*time.Second, "the label", func(v View) bool { return v.Nodes[0].Labels["x"] == "y" })
	if !v.Reachable || v.Nodes[0].ManagedFields != nil || v.Pods[0].ManagedFields != nil {
		t.Errorf("%+v", v)
	}
	once, err := Once(t.Context(), server.config(t))
	if err != nil || names(once) != "a etcd-a" {
		t.Errorf("once: %+v, %v", once, err)
	}

	server.kill()
	_, took = await(t, c, 3*time.Second, "unreachable", unreachable)
	t.Logf("the killed server was noticed after %s", took)
	server.start()
	answered = server.answers()
	v, _ = await(t, c, 5*time.Second, "reachable again", reachable)
	if v.Since.Sub(answered) > time.Second || names(v) != "a etcd-a" {
		t.Errorf("%s after it answered again: %s", v.Since.Sub(answered), names(v))
	}
}

// realServer is a kube-apiserver with an etcd on loopback, certificates as kubeadm would have them, and no more.
type realServer struct {
	t       *testing.T
	secrets client.Client
	dir     string
	port    int
	etcd    string
	cmd     *exec.Cmd
}

func newRealServer(t *testing.T) (*realServer, client.Client) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); assets == "" || err != nil {
		t.Skip("KUBEBUILDER_ASSETS does not name a folder with etcd and kube-apiserver")
	}
	s := &realServer{t: t, dir: t.TempDir(), port: unusedPort(t), secrets: fake.NewClientBuilder().Build()}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: demo.Namespace, Name: demo.Name}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: int32(s.port)}
	_, err := certs.Generate(t.Context(), s.secrets, cluster, nil, []string{"ca", "sa"}, metav1.OwnerReference{})
	must(t, err)
	_, err = certs.WriteKubeconfig(t.Context(), s.secrets, cluster, metav1.OwnerReference{}, true)
	must(t, err)
	s.write("ca.crt", s.secret("demo-ca")["tls.crt"])
	s.write("sa.pub", s.secret("demo-sa")["tls.crt"])
	s.write("sa.key", s.secret("demo-sa")["tls.key"])
	s.writeServingPair()

	client, peer := "http://127.0.0.1:"+strconv.Itoa(unusedPort(t)), "http://127.0.0.1:"+strconv.Itoa(unusedPort(t))
	s.etcd = client
	s.run(filepath.Join(assets, "etcd"), "--data-dir", filepath.Join(s.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	return s, s.secrets
}

func (s *realServer) start() {
	s.t.Helper()
	s.cmd = s.run(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-apiserver"),
		"--etcd-servers", s.etcd, "--bind-address", "127.0.0.1", "--endpoint-reconciler-type", "none", "--secure-port", strconv.Itoa(s.port),
		"--tls-cert-file", s.path("server.crt"), "--tls-private-key-file", s.path("server.key"), "--client-ca-file", s.path("ca.crt"),
		"--service-account-key-file", s.path("sa.pub"), "--service-account-signing-key-file", s.path("sa.key"), "--service-account-issuer",
		"https://kubernetes.default.svc",
		"--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount")
}

func (s *realServer) kill() {
	must(s.t, s.cmd.Process.Kill())
	_ = s.cmd.Wait()
}

// answers waits until the server is ready, and says since when.
func (s *realServer) answers() time.Time {
	s.t.Helper()
	server, err := newAPI(s.config(s.t), time.Hour, untrusted.Bounds{}.WithDefaults(), untrusted.NewMeter(untrusted.Bounds{}))
	must(s.t, err)
	defer server.close()
	ctx, cancel := context.WithTimeout(s.t.Context(), 90*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = server.ready(ctx); err == nil {
			return time.Now()
		}
		select {
		case <-ctx.Done():
			said, _ := os.ReadFile(s.path("kube-apiserver.log"))
			s.t.Fatalf("the API server does not become ready: %v; it said\n%s", err, said[max(0, len(said)-2000):])
		case <-tick.C:
		}
	}
}

func (s *realServer) client() *kubernetes.Clientset {
	c, err := kubernetes.NewForConfig(s.config(s.t))
	must(s.t, err)
	return c
}

func (s *realServer) config(t *testing.T) *rest.Config {
	t.Helper()
	return restConfig(t, s.secret("demo-kubeconfig")["value"])
}

func (s *realServer) run(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	log, err := os.Create(s.path(filepath.Base(name) + ".log"))
	must(s.t, err)
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	must(s.t, cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func (s *realServer) path(name string) string { return filepath.Join(s.dir, name) }

func (s *realServer) write(name string, data []byte) {
	s.t.Helper()
	must(s.t, os.WriteFile(s.path(name), data, 0o600))
}

func (s *realServer) secret(name string) map[string][]byte {
	s.t.Helper()
	found := &corev1.Secret{}
	must(s.t, s.secrets.Get(s.t.Context(), client.ObjectKey{Namespace: demo.Namespace, Name: name}, found))
	return found.Data
}

func (s *realServer) writeServingPair() {
	s.t.Helper()
	ca, err := capicerts.DecodeCertPEM(s.secret("demo-ca")["tls.crt"])
	must(s.t, err)
	caKey, err := capicerts.DecodePrivateKeyPEM(s.secret("demo-ca")["tls.key"])
	must(s.t, err)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(s.t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, key.Public(), caKey)
	must(s.t, err)
	s.write("server.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	s.write("server.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// TestRealAPIServerAnswersOthers: whoever shares the connection, or has a config of its own, is understood by a real API server, and
// understands it.
func TestRealAPIServerAnswersOthers(t *testing.T) {
	server, secrets := newRealServer(t)
	server.start()
	server.answers()
	c := connect(t, secrets, quick)
	await(t, c, 30*time.Second, "reachable", reachable)
	alone, err := ConfigOf(t.Context(), secrets, demo)
	must(t, err)
	for name, config := range map[string]*rest.Config{"shared": c.Config(demo), "alone": alone} {
		set, err := kubernetes.NewForConfig(config)
		must(t, err)
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}
		if _, err := set.CoreV1().ConfigMaps("default").Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := set.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || got.Data["a"] != "b" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, err := set.CoreV1().ConfigMaps("default").Get(t.Context(), "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := set.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{FieldSelector: "type=x"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
