package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capicerts "sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// etcdOwner is an EtcdCluster, as it is named on its secrets.
var etcdOwner = metav1.OwnerReference{
	APIVersion: "etcdcluster.cluster.x-k8s.io/v1alpha1", Kind: "EtcdCluster", Name: "demo-etcd", UID: "etcd-uid", Controller: ptr.To(true),
}

// TestManagedEtcd: the authority is made once; control planes get it without its key, and a client certificate of it.
func TestManagedEtcd(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	c := fake.NewClientBuilder().Build()
	read := func() *EtcdAuthority {
		t.Helper()
		a, err := ManagedEtcdAuthority(t.Context(), c, cluster)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if read() != nil {
		t.Fatal("there is an authority before it was made")
	}
	for range 2 {
		if err := GenerateManagedEtcd(t.Context(), c, cluster, etcdOwner); err != nil {
			t.Fatal(err)
		}
	}
	a := read()
	cert, key := a.PEM()
	if !bytes.Contains(key, []byte("RSA PRIVATE KEY")) || len(cert) == 0 {
		t.Error("the authority is not RSA")
	}
	publish := func() map[secret.Purpose]*corev1.Secret {
		t.Helper()
		if err := a.PublishManagedEtcd(t.Context(), c, c, cluster, etcdOwner); err != nil {
			t.Fatal(err)
		}
		all := map[secret.Purpose]*corev1.Secret{}
		for _, p := range []secret.Purpose{secret.EtcdCA, secret.APIServerEtcdClient} {
			s := &corev1.Secret{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: secret.Name("demo", p)}, s); err != nil {
				t.Fatal(err)
			}
			if !controlledBy(s, etcdOwner) || s.Type != clusterv1.ClusterSecretType || s.Labels[clusterv1.ClusterNameLabel] != "demo" {
				t.Errorf("%s: %+v", s.Name, s.ObjectMeta)
			}
			all[p] = s
		}
		return all
	}
	first := publish()
	if _, ok := first[secret.EtcdCA].Data["tls.key"]; ok || !bytes.Equal(first[secret.EtcdCA].Data["tls.crt"], cert) {
		t.Error("the published authority has a key, or is another one")
	}
	checkClient(t, cert, first[secret.APIServerEtcdClient].Data["tls.crt"])
	if again := publish(); !bytes.Equal(again[secret.APIServerEtcdClient].Data["tls.crt"], first[secret.APIServerEtcdClient].Data["tls.crt"]) {
		t.Error("a certificate that lasts is renewed")
	}
	short, shortKey, err := a.Client("old", apiServerClientRenewal-time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	s := first[secret.APIServerEtcdClient]
	s.Data = map[string][]byte{"tls.crt": short, "tls.key": shortKey}
	if err := c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	renewed := publish()[secret.APIServerEtcdClient]
	if bytes.Equal(renewed.Data["tls.crt"], short) {
		t.Error("a certificate that ends soon is not renewed")
	}
	renewed.OwnerReferences, renewed.Data = nil, map[string][]byte{"tls.crt": short, "tls.key": shortKey}
	if err := c.Update(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	if err := a.PublishManagedEtcd(t.Context(), c, c, cluster, etcdOwner); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(renewed), renewed); err != nil || !bytes.Equal(renewed.Data["tls.crt"], short) {
		t.Errorf("a user's certificate is written over, %v", err)
	}
}

// TestManagedEtcdTakenOver: a client certificate of ours is renewed also where a control plane has taken its secret, as upstream's
// does, or nobody controls it any more; a stranger's is not.
func TestManagedEtcdTakenOver(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	c := fake.NewClientBuilder().Build()
	if err := GenerateManagedEtcd(t.Context(), c, cluster, etcdOwner); err != nil {
		t.Fatal(err)
	}
	a, err := ManagedEtcdAuthority(t.Context(), c, cluster)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.Client(apiServerClient, apiServerClientRenewal-time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	owners := func(group, kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: group + "/v1", Kind: kind, Name: "x", UID: "x", Controller: ptr.To(true)}}
	}
	for name, test := range map[string]struct {
		owners  []metav1.OwnerReference
		renewed bool
	}{
		"taken over":   {owners("controlplane.cluster.x-k8s.io", "KubeadmControlPlane"), true},
		"nobody's":     {nil, true},
		"a stranger's": {owners("external-secrets.io", "ExternalSecret"), false},
	} {
		s := a.asSecret(cluster, secret.APIServerEtcdClient, etcdOwner, cert, key)
		s.OwnerReferences = test.owners
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := a.PublishManagedEtcd(t.Context(), c, c, cluster, etcdOwner); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil || bytes.Equal(s.Data["tls.crt"], cert) == test.renewed {
			t.Errorf("%s: renewed is not %t, %v", name, test.renewed, err)
		}
		if err := c.Delete(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// checkClient checks a client certificate as etcd does.

// TestClientsOfManagedEtcd: who asks the members of an etcd cluster of its own needs no secret but the authority's.
func TestClientsOfManagedEtcd(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	c := fake.NewClientBuilder().Build()
	if err := GenerateManagedEtcd(t.Context(), c, cluster, etcdOwner); err != nil {
		t.Fatal(err)
	}
	config, err := (&EtcdClients{Authority: ManagedEtcd}).Config(t.Context(), c, cluster)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Certificates[0].Leaf.Verify(x509.VerifyOptions{Roots: config.RootCAs,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := (&EtcdClients{}).Config(t.Context(), c, cluster); err == nil ||
		!strings.Contains(err.Error(), "secret default/demo-etcd does not exist") {
		t.Errorf("the etcd of a control plane: %v", err)
	}
}

// checkClient checks a client certificate as etcd does.
func checkClient(t *testing.T, ca, cert []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	leaf, err := capicerts.DecodeCertPEM(cert)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}

// TestManagedEtcdFlaws: what cannot be used is said by the name of its secret.
func TestManagedEtcdFlaws(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	pair := func(change func(*secret.Certificate)) map[string][]byte {
		made := &secret.Certificate{Purpose: ManagedEtcd}
		change(made)
		if err := made.Generate(); err != nil {
			t.Fatal(err)
		}
		return map[string][]byte{"tls.crt": made.KeyPair.Cert, "tls.key": made.KeyPair.Key}
	}
	good := pair(func(*secret.Certificate) {})
	other := pair(func(*secret.Certificate) {})
	for want, data := range map[string]map[string][]byte{
		"no pair of a certificate": {"tls.crt": good["tls.crt"], "tls.key": other["tls.key"]},
		"tls.key is no RSA key":    pair(func(c *secret.Certificate) { c.KeyEncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmECDSAP256 }),
		"tls.crt expired at":       pair(func(c *secret.Certificate) { c.ValidityPeriodDays = -1 }),
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-managed-etcd"}, Data: data}
		_, err := ManagedEtcdAuthority(t.Context(), fake.NewClientBuilder().WithObjects(s).Build(), cluster)
		if _, ok := errors.AsType[*FlawError](err); !ok || !strings.Contains(err.Error(), "secret default/demo-managed-etcd: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-managed-etcd"}, Data: good},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-etcd"}, Data: other},
	).Build()
	a, err := ManagedEtcdAuthority(t.Context(), c, cluster)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.PublishManagedEtcd(t.Context(), c, c, cluster, etcdOwner); err == nil ||
		!strings.Contains(err.Error(), "secret default/demo-etcd holds another authority") {
		t.Errorf("a user's authority: %v", err)
	}
}
