package certs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/plan"
)

func TestWriteKubeconfig(t *testing.T) {
	cluster, c := withAuthorities(t)
	must(t, WriteKubeconfig(t.Context(), c, cluster, owner))
	s := secretOf(t, c, "demo-kubeconfig")
	if s.Type != "cluster.x-k8s.io/secret" || s.Labels["cluster.x-k8s.io/cluster-name"] != "demo" || !reflect.DeepEqual(s.OwnerReferences, []metav1.OwnerReference{owner}) {
		t.Errorf("type %s, labels %v, owners %v", s.Type, s.Labels, s.OwnerReferences)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
	must(t, err)
	if config.Host != "https://172.30.0.10:6443" {
		t.Errorf("server %s", config.Host)
	}
	ca := certificate(t, secretOf(t, c, "demo-ca").Data["tls.crt"])
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	leaf := certificate(t, config.CertData)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("the client certificate: %v", err)
	}
	if leaf.Subject.CommonName != "kubernetes-admin" || len(leaf.Subject.Organization) != 1 || leaf.Subject.Organization[0] != "system:masters" {
		t.Errorf("subject %s", leaf.Subject)
	}
	if leaf.PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("the key is %s, the authority's ECDSA", leaf.PublicKeyAlgorithm)
	}
	state, err := Kubeconfig(t.Context(), c, cluster)
	if err != nil || !state.Exists || state.Foreign || !state.Expires.Equal(leaf.NotAfter) || time.Until(state.Expires) < 364*24*time.Hour {
		t.Errorf("state %+v, %v; want the end %s", state, err, leaf.NotAfter)
	}
}

func TestKubeconfigIsRenewedInPlace(t *testing.T) {
	cluster, c := withAuthorities(t)
	must(t, WriteKubeconfig(t.Context(), c, cluster, owner))
	first := secretOf(t, c, "demo-kubeconfig")
	first.Labels["user"] = "mine"
	must(t, c.Update(t.Context(), first))

	cluster.Spec.ControlPlaneEndpoint.Host = "172.30.0.11"
	must(t, WriteKubeconfig(t.Context(), c, cluster, owner))
	second := secretOf(t, c, "demo-kubeconfig")
	old, err := clientcmd.RESTConfigFromKubeConfig(first.Data["value"])
	must(t, err)
	fresh, err := clientcmd.RESTConfigFromKubeConfig(second.Data["value"])
	must(t, err)
	if string(old.CertData) == string(fresh.CertData) || fresh.Host != "https://172.30.0.11:6443" || second.Labels["user"] != "mine" {
		t.Errorf("certificate new %t, host %s, labels %v", string(old.CertData) != string(fresh.CertData), fresh.Host, second.Labels)
	}
}

func TestKubeconfigState(t *testing.T) {
	cluster, c := withAuthorities(t)
	must(t, WriteKubeconfig(t.Context(), c, cluster, owner))
	ours := secretOf(t, c, "demo-kubeconfig")
	expires, err := Kubeconfig(t.Context(), c, cluster)
	must(t, err)
	token := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"https://x"}}],"users":[{"name":"x","user":{"token":"t"}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],"current-context":"x"}`

	owned := func(by metav1.OwnerReference) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{by} }
	}
	otherName, otherKind, otherGroup, notController := owner, owner, owner, owner
	otherName.Name, otherKind.Kind, otherGroup.APIVersion, notController.Controller = "else-cp", "Cluster", "cluster.x-k8s.io/v1beta2", nil
	otherVersion, otherUID := owner, owner
	otherVersion.APIVersion, otherUID.UID = "controlplane.cluster.x-k8s.io/v1beta1", "moved"

	tests := []struct {
		name   string
		change func(*corev1.Secret)
		want   plan.Kubeconfig
	}{
		{"ours", func(*corev1.Secret) {}, plan.Kubeconfig{Exists: true, Expires: expires.Expires}},
		{"ours, written by another version", owned(otherVersion), plan.Kubeconfig{Exists: true, Expires: expires.Expires}},
		{"ours, moved to another management cluster", owned(otherUID), plan.Kubeconfig{Exists: true, Expires: expires.Expires}},
		{"the user's", func(s *corev1.Secret) { s.OwnerReferences = nil }, plan.Kubeconfig{Exists: true, Foreign: true, Expires: expires.Expires}},
		{"of another control plane", owned(otherName), plan.Kubeconfig{Exists: true, Foreign: true, Expires: expires.Expires}},
		{"of another kind", owned(otherKind), plan.Kubeconfig{Exists: true, Foreign: true, Expires: expires.Expires}},
		{"of another group", owned(otherGroup), plan.Kubeconfig{Exists: true, Foreign: true, Expires: expires.Expires}},
		{"owned and not controlled", owned(notController), plan.Kubeconfig{Exists: true, Foreign: true, Expires: expires.Expires}},
		{"the user's, with a token", func(s *corev1.Secret) {
			s.OwnerReferences, s.Data["value"] = nil, []byte(token)
		}, plan.Kubeconfig{Exists: true, Foreign: true}},
		{"ours and unreadable", func(s *corev1.Secret) { s.Data["value"] = []byte("{{") }, plan.Kubeconfig{}},
		{"ours, and somebody put a command in", func(s *corev1.Secret) {
			s.Data["value"] = bytes.Replace(s.Data["value"], []byte("client-key-data"), []byte("exec: {command: sh}\n    client-key-data"), 1)
		}, plan.Kubeconfig{}},
		{"ours and empty", func(s *corev1.Secret) { s.Data = nil }, plan.Kubeconfig{}},
		{"the user's and unreadable", func(s *corev1.Secret) { s.OwnerReferences, s.Data["value"] = nil, []byte("{{") }, plan.Kubeconfig{Exists: true, Foreign: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := ours.DeepCopy()
			s.ResourceVersion = ""
			test.change(s)
			c := newClient(t, s, secretOf(t, c, "demo-ca"))
			got, err := Kubeconfig(t.Context(), c, demo())
			if err != nil || got != test.want {
				t.Fatalf("got %+v, %v; want %+v", got, err, test.want)
			}

			before := secretOf(t, c, "demo-kubeconfig")
			must(t, WriteKubeconfig(t.Context(), c, demo(), owner))
			after := secretOf(t, c, "demo-kubeconfig")
			if changed := before.ResourceVersion != after.ResourceVersion; changed == test.want.Foreign {
				t.Errorf("foreign %t, and written %t", test.want.Foreign, changed)
			}
			if got, err := Kubeconfig(t.Context(), c, demo()); err != nil || !got.Exists {
				t.Errorf("after writing: %+v, %v", got, err)
			}
		})
	}
	if state, err := Kubeconfig(t.Context(), newClient(t), demo()); err != nil || state != (plan.Kubeconfig{}) {
		t.Errorf("without a secret: %+v, %v", state, err)
	}
}

func TestTheFirstCertificateToEndCounts(t *testing.T) {
	soon, late := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(2*time.Hour)
	for _, order := range [][]time.Time{{soon, late}, {late, soon}} {
		config := clientcmdapi.NewConfig()
		config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://x"}
		for i, end := range order {
			cert := rsaAuthority(t, time.Now().Add(-time.Hour), end)["tls.crt"]
			config.AuthInfos[string(rune('a'+i))] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte(cert)}
		}
		data, err := clientcmd.Write(*config)
		must(t, err)
		if got, err := clientExpiry(data); err != nil || !got.Equal(soon) {
			t.Errorf("ends %s, want %s: %v", got, soon, err)
		}
	}
}

// The older of two writers loses: it does not put back what the newer replaced.
func TestKubeconfigConflict(t *testing.T) {
	cluster, _ := withAuthorities(t)
	raced := false
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, inner client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if !raced {
				raced = true
				other := o.DeepCopyObject().(*corev1.Secret)
				other.Data["value"] = []byte("newer")
				must(t, inner.Update(ctx, other))
			}
			return inner.Update(ctx, o, opts...)
		},
	}).Build()
	must(t, Generate(t.Context(), c, cluster, small, owner))
	must(t, WriteKubeconfig(t.Context(), c, cluster, owner))
	if err := WriteKubeconfig(t.Context(), c, cluster, owner); err == nil {
		t.Error("no conflict was reported")
	}
	if got := string(secretOf(t, c, "demo-kubeconfig").Data["value"]); got != "newer" {
		t.Errorf("the newer content is gone")
	}
}

func TestWriteKubeconfigRefuses(t *testing.T) {
	cluster, c := withAuthorities(t)
	if err := WriteKubeconfig(t.Context(), newClient(t), cluster, owner); err == nil || !strings.Contains(err.Error(), "secret ns/demo-ca does not exist") {
		t.Errorf("without an authority: %v", err)
	}
	ca := secretOf(t, c, "demo-ca")
	delete(ca.Data, "tls.key")
	must(t, c.Update(t.Context(), ca))
	if err := WriteKubeconfig(t.Context(), c, cluster, owner); err == nil || !strings.Contains(err.Error(), "secret ns/demo-ca lacks tls.key") {
		t.Errorf("without a key: %v", err)
	}
	cluster.Spec.ControlPlaneEndpoint.Port = 0
	if err := WriteKubeconfig(t.Context(), c, cluster, owner); err == nil || !strings.Contains(err.Error(), "spec.controlPlaneEndpoint") {
		t.Errorf("without an endpoint: %v", err)
	}
}

func TestAlgorithmFollowsTheAuthority(t *testing.T) {
	for bits, want := range map[int]string{2048: "RSA-2048", 3072: "RSA-3072"} {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		must(t, err)
		if got := algorithm(key); string(got) != want {
			t.Errorf("%d bits: %s, want %s", bits, got, want)
		}
	}
}

// rsaAuthority is one that a user made with other tools: PKCS#8, RSA.
func rsaAuthority(t *testing.T, notBefore, notAfter time.Time) map[string]string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: notBefore, NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return map[string]string{
		"tls.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})),
	}
}
