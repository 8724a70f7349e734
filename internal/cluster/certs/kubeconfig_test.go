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
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestWriteKubeconfig(t *testing.T) {
	cluster, c := withAuthorities(t)
	must(t, writeKubeconfig(t.Context(), c, cluster, owner))
	s := secretOf(t, c, "demo-kubeconfig")
	if s.Type != "cluster.x-k8s.io/secret" || s.Labels["cluster.x-k8s.io/cluster-name"] != "demo" ||
		!reflect.DeepEqual(s.OwnerReferences, []metav1.OwnerReference{owner}) {
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
	if leaf.Subject.CommonName != "kubernetes-admin" || len(leaf.Subject.Organization) != 1 ||
		leaf.Subject.Organization[0] != "system:masters" {
		t.Errorf("subject %s", leaf.Subject)
	}
	if leaf.PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("the key is %s, the authority's ECDSA", leaf.PublicKeyAlgorithm)
	}
	state := read(t, c).Kubeconfig
	if !state.Exists || state.Foreign || !state.Expires.Equal(leaf.NotAfter) || time.Until(state.Expires) < 364*24*time.Hour {
		t.Errorf("state %+v; want the end %s", state, leaf.NotAfter)
	}
}

func TestKubeconfigIsRenewedInPlace(t *testing.T) {
	cluster, c := withAuthorities(t)
	must(t, writeKubeconfig(t.Context(), c, cluster, owner))
	first := secretOf(t, c, "demo-kubeconfig")
	first.Labels["user"] = "mine"
	must(t, c.Update(t.Context(), first))

	cluster.Spec.ControlPlaneEndpoint.Host = "172.30.0.11"
	must(t, writeKubeconfig(t.Context(), c, cluster, owner))
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
	must(t, writeKubeconfig(t.Context(), c, cluster, owner))
	made := secretOf(t, c, "demo-kubeconfig")
	expires := read(t, c).Kubeconfig
	token := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"https://x"}}],"users":[{"name":"x",` +
		`"user":{"token":"t"}}],"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],"current-context":"x"}`

	owned := func(by metav1.OwnerReference) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{by} }
	}
	otherName, otherKind, stranger, notController := owner, owner, owner, owner
	otherName.Name, otherKind.Kind, stranger.APIVersion, notController.Controller = "else-cp", "KubeadmConfig", "example.com/v1", nil
	otherVersion, otherUID := owner, owner
	otherVersion.APIVersion, otherUID.UID = "controlplane.cluster.x-k8s.io/v1beta1", "moved"
	orphan := func(change func(*corev1.Secret)) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.OwnerReferences = nil
			change(s)
		}
	}
	ours, users := Kubeconfig{Exists: true, Expires: expires.Expires}, Kubeconfig{Exists: true, Foreign: true, Expires: expires.Expires}

	tests := []struct {
		name     string
		change   func(*corev1.Secret)
		want     Kubeconfig
		disowned bool
	}{
		{"ours", func(*corev1.Secret) {}, ours, false},
		{"ours, written by another version", owned(otherVersion), ours, true},
		{"ours, moved to another management cluster", owned(otherUID), ours, true},
		{"ours, and its owner is lost", orphan(func(*corev1.Secret) {}), ours, true},
		{"of a control plane that this one took the place of", owned(otherName), ours, true},
		{"of a machine's configuration", owned(otherKind), ours, true},
		{"owned and not controlled", owned(notController), ours, true},
		{"controlled by what is none of Cluster API's", owned(stranger), users, false},
		{"the user's", orphan(func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), users, false},
		{"labelled for no cluster", orphan(func(s *corev1.Secret) { s.Labels = nil }), users, false},
		{"labelled for another cluster", orphan(func(s *corev1.Secret) { s.Labels["cluster.x-k8s.io/cluster-name"] = "else" }), users, false},
		{"the user's, with a token", orphan(func(s *corev1.Secret) {
			s.Type, s.Data["value"] = corev1.SecretTypeOpaque, []byte(token)
		}), Kubeconfig{Exists: true, Foreign: true}, false},
		{"ours and unreadable", func(s *corev1.Secret) { s.Data["value"] = []byte("{{") }, Kubeconfig{}, false},
		{"ours, and somebody put a command in", func(s *corev1.Secret) {
			s.Data["value"] = bytes.Replace(s.Data["value"], []byte("client-key-data"), []byte("exec: {command: sh}\n    client-key-data"), 1)
		}, Kubeconfig{}, false},
		{"ours and empty", func(s *corev1.Secret) { s.Data = nil }, Kubeconfig{}, false},
		{"the user's and unreadable", orphan(func(s *corev1.Secret) {
			s.Type, s.Data["value"] = corev1.SecretTypeOpaque, []byte("{{")
		}), Kubeconfig{Exists: true, Foreign: true}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := made.DeepCopy()
			s.ResourceVersion = ""
			test.change(s)
			c := newClient(t, s, secretOf(t, c, "demo-ca"))
			got := read(t, c)
			if got.Kubeconfig != test.want || slices.Contains(got.Disowned, "kubeconfig") != test.disowned {
				t.Fatalf("got %+v, disowned %v; want %+v, %t", got.Kubeconfig, got.Disowned, test.want, test.disowned)
			}

			before := secretOf(t, c, "demo-kubeconfig")
			must(t, writeKubeconfig(t.Context(), c, demo(), owner))
			after := secretOf(t, c, "demo-kubeconfig")
			if changed := before.ResourceVersion != after.ResourceVersion; changed == test.want.Foreign {
				t.Errorf("foreign %t, and written %t", test.want.Foreign, changed)
			}
			if got := read(t, c); !got.Kubeconfig.Exists || slices.Contains(got.Disowned, "kubeconfig") {
				t.Errorf("after writing: %+v, disowned %v", got.Kubeconfig, got.Disowned)
			}
		})
	}
	if state := read(t, newClient(t)); state.Kubeconfig != (Kubeconfig{Absent: true}) || len(state.Disowned) > 0 {
		t.Errorf("without secrets: %+v", state)
	}
}

// TestKubeconfigOfAnotherKeysKeeper: nobody but who keeps the authority's key can renew a kubeconfig.
func TestKubeconfigOfAnotherKeysKeeper(t *testing.T) {
	cluster, c := withAuthorities(t)
	must(t, writeKubeconfig(t.Context(), c, cluster, owner))
	ca := secretOf(t, c, "demo-ca")
	delete(ca.Data, "tls.key")
	must(t, c.Update(t.Context(), ca))
	if got := read(t, c).Kubeconfig; !got.Exists || !got.Foreign {
		t.Errorf("it would be renewed without a key: %+v", got)
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
	must(t, generate(t.Context(), c, cluster, small, owner))
	must(t, writeKubeconfig(t.Context(), c, cluster, owner))
	if err := writeKubeconfig(t.Context(), c, cluster, owner); err == nil {
		t.Error("no conflict was reported")
	}
	if got := string(secretOf(t, c, "demo-kubeconfig").Data["value"]); got != "newer" {
		t.Errorf("the newer content is gone")
	}
}

func TestWriteKubeconfigRefuses(t *testing.T) {
	cluster, c := withAuthorities(t)
	if err := writeKubeconfig(t.Context(), newClient(t), cluster, owner); err == nil ||
		!strings.Contains(err.Error(), "secret ns/demo-ca does not exist") {
		t.Errorf("without an authority: %v", err)
	}
	ca := secretOf(t, c, "demo-ca")
	delete(ca.Data, "tls.key")
	must(t, c.Update(t.Context(), ca))
	if err := writeKubeconfig(t.Context(), c, cluster, owner); err == nil ||
		!strings.Contains(err.Error(), "secret ns/demo-ca lacks tls.key") {
		t.Errorf("without a key: %v", err)
	}
	cluster.Spec.ControlPlaneEndpoint.Port = 0
	if err := writeKubeconfig(t.Context(), c, cluster, owner); err == nil || !strings.Contains(err.Error(), "spec.controlPlaneEndpoint") {
		t.Errorf("without an endpoint: %v", err)
	}
}

func TestAlgorithmFollowsTheAuthority(t *testing.T) {
	for bits, want := range map[int]string{2048: "ECDSA-P256", 3072: "RSA-3072"} {
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
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: notBefore, NotAfter: notAfter, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return map[string]string{
		"tls.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})),
	}
}

// TestWriteKubeconfigOfNone: one that was not there is not looked for again, and one that has appeared since is not overwritten.
func TestWriteKubeconfigOfNone(t *testing.T) {
	cluster, c := withAuthorities(t)
	state, err := WriteKubeconfig(t.Context(), c, cluster, owner, true)
	must(t, err)
	if got := read(t, c).Kubeconfig; got != state || !state.Exists || state.Absent {
		t.Errorf("state %+v, want %+v", state, got)
	}
	before := secretOf(t, c, "demo-kubeconfig")
	if _, err := WriteKubeconfig(t.Context(), c, cluster, owner, true); !apierrors.IsAlreadyExists(err) {
		t.Errorf("one has appeared: %v", err)
	}
	if after := secretOf(t, c, "demo-kubeconfig"); after.ResourceVersion != before.ResourceVersion {
		t.Error("it was overwritten")
	}
}
