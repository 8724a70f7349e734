package certs

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var isController = true

// owner is the control plane object of demo.
var owner = metav1.OwnerReference{
	APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: "demo-cp", UID: "u1",
	Controller: &isController, BlockOwnerDeletion: &isController,
}

func demo() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "ns", UID: "c1"},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "172.30.0.10", Port: 6443},
			ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane",
				Name: "demo-cp"},
		},
	}
}

// small keys keep the tests fast.
var small = &bootstrapv1.ClusterConfiguration{EncryptionAlgorithm: bootstrapv1.EncryptionAlgorithmECDSAP256,
	CACertificateValidityPeriodDays: 100}

var external = &bootstrapv1.ClusterConfiguration{Etcd: bootstrapv1.Etcd{External: bootstrapv1.ExternalEtcd{
	Endpoints: []string{"https://10.0.0.1:2379"}, CAFile: "/ca", CertFile: "/crt", KeyFile: "/key",
}}}

func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).Build()
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	must(t, corev1.AddToScheme(s))
	must(t, clusterv1.AddToScheme(s))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func secretOf(t *testing.T, c client.Client, name string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, s))
	return s
}

func given(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func certificate(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("no PEM data: %q", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	return cert
}

// pairs are what an authority's secret holds, made once: keys take time.
var pairs = sync.OnceValues(func() (map[string]string, map[string]string) {
	made := secret.NewCertificatesForInitialControlPlane(small)
	if err := made.Generate(); err != nil {
		panic(err)
	}
	data := func(c *secret.Certificate) map[string]string {
		return map[string]string{"tls.crt": string(c.KeyPair.Cert), "tls.key": string(c.KeyPair.Key)}
	}
	return data(made[0]), data(made[2])
})

func TestReadAuthorities(t *testing.T) {
	pair, other := pairs()
	without := func(data map[string]string, key string) map[string]string {
		data = maps.Clone(data)
		delete(data, key)
		return data
	}
	all := func(config *bootstrapv1.ClusterConfiguration, but string, data map[string]string) []client.Object {
		var secrets []client.Object
		for _, c := range secret.NewCertificatesForInitialControlPlane(config) {
			switch {
			case string(c.Purpose) != but:
				secrets = append(secrets, given("demo-"+string(c.Purpose), pair))
			case data != nil:
				secrets = append(secrets, given("demo-"+but, data))
			}
		}
		return secrets
	}
	tests := []struct {
		name                   string
		config                 *bootstrapv1.ClusterConfiguration
		secrets                []client.Object
		missing, given, noKeys string
		broken                 string
	}{
		{"new", nil, nil, "ca etcd proxy sa", "", "", ""},
		{"two are there", nil, []client.Object{given("demo-ca", pair), given("demo-proxy", pair)}, "etcd sa", "", "", ""},
		{"another cluster's", nil, []client.Object{given("other-ca", pair)}, "ca etcd proxy sa", "", "", ""},
		{"all", nil, all(nil, "", nil), "", "", "", ""},
		{"external etcd", external, nil, "ca proxy sa", "apiserver-etcd-client etcd", "", ""},
		{"external etcd, given", external, all(external, "", nil), "", "", "", ""},
		{"external etcd's authority has no key", external, all(external, "etcd", without(pair, "tls.key")), "", "", "", ""},
		{"external etcd's client was not given", external, all(external, "apiserver-etcd-client", nil), "", "apiserver-etcd-client", "", ""},
		{"the authority's key is kept elsewhere", nil, all(nil, "ca", without(pair, "tls.key")), "", "", "ca", ""},
		{"etcd's key is kept elsewhere", nil, all(nil, "etcd", without(pair, "tls.key")), "", "", "etcd", ""},
		{"no key for service accounts", nil, all(nil, "sa", without(pair, "tls.key")), "", "", "", "secret ns/demo-sa: tls.key is missing ("},
		{"nothing in it", nil, all(nil, "sa", map[string]string{}), "", "", "",
			"secret ns/demo-sa: tls.crt is missing (must be a public key and its private key, in PEM); secret ns/demo-sa: tls.key is missing ("},
		{"one broken, others missing", nil, []client.Object{given("demo-ca", map[string]string{"tls.key": "k"})}, "etcd proxy sa", "", "",
			"secret ns/demo-ca: tls.crt is missing ("},
		{"no certificate", nil, all(nil, "ca", map[string]string{"tls.crt": "c", "tls.key": "k"}), "", "", "",
			"secret ns/demo-ca: tls.crt holds no certificate"},
		{"the key of another certificate", nil, all(nil, "proxy", map[string]string{"tls.crt": pair["tls.crt"], "tls.key": other["tls.key"]}), "",
			"", "", "secret ns/demo-proxy: tls.key is not the key of secret ns/demo-proxy: tls.crt"},
		{"external etcd's client has no key", external, all(external, "apiserver-etcd-client", without(pair, "tls.key")), "", "", "",
			"secret ns/demo-apiserver-etcd-client: tls.key is missing ("},
		{"external etcd's client is broken", external,
			all(external, "apiserver-etcd-client", map[string]string{"tls.crt": pair["tls.crt"], "tls.key": "k"}), "", "", "",
			"secret ns/demo-apiserver-etcd-client: tls.key holds no private key"},
		{"external etcd's authority is empty", external, all(external, "etcd", map[string]string{}), "", "", "",
			"secret ns/demo-etcd: tls.crt is missing ("},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Read(t.Context(), newClient(t, test.secrets...), demo(), test.config, owner)
			must(t, err)
			if strings.Join(got.Missing, " ") != test.missing || strings.Join(got.Given, " ") != test.given ||
				strings.Join(got.Keyless, " ") != test.noKeys {
				t.Errorf("missing %v, not given %v, without key %v; want %q, %q, %q", got.Missing, got.Given, got.Keyless, test.missing, test.given,
					test.noKeys)
			}
			if got.Broken == "" != (test.broken == "") || !strings.Contains(got.Broken, test.broken) || strings.Contains(got.Broken, "PRIVATE") {
				t.Errorf("broken: %q, want %q", got.Broken, test.broken)
			}
		})
	}
}

// read is Read for the tests' cluster.
func read(t *testing.T, c client.Client) Secrets {
	t.Helper()
	got, err := Read(t.Context(), c, demo(), small, owner)
	must(t, err)
	return got
}

// generate is Generate of all that have no secret.
func generate(
	ctx context.Context, c client.Client, cluster *clusterv1.Cluster, config *bootstrapv1.ClusterConfiguration, owner metav1.OwnerReference,
	files ...bootstrapv1.File,
) error {
	found, err := Read(ctx, c, cluster, config, owner, files...)
	if err != nil {
		return err
	}
	_, err = Generate(ctx, c, cluster, config, found.Missing, owner, files...)
	return err
}

// writeKubeconfig is WriteKubeconfig that looks whether there is one.
func writeKubeconfig(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, owner metav1.OwnerReference) error {
	_, err := WriteKubeconfig(ctx, c, cluster, owner, false)
	return err
}

func TestGenerate(t *testing.T) {
	c := newClient(t, given("demo-proxy", map[string]string{"tls.crt": "the user's", "tls.key": "own"}))
	must(t, generate(t.Context(), c, demo(), small, owner))
	if left := read(t, c).Missing; len(left) > 0 {
		t.Errorf("still missing: %v", left)
	}
	for _, name := range []string{"demo-ca", "demo-etcd", "demo-sa"} {
		s := secretOf(t, c, name)
		if s.Type != "cluster.x-k8s.io/secret" || s.Labels["cluster.x-k8s.io/cluster-name"] != "demo" ||
			!reflect.DeepEqual(s.OwnerReferences, []metav1.OwnerReference{owner}) {
			t.Errorf("%s: type %s, labels %v, owners %v", name, s.Type, s.Labels, s.OwnerReferences)
		}
		if name == "demo-sa" {
			continue
		}
		cert := certificate(t, s.Data["tls.crt"])
		if !cert.IsCA || cert.PublicKeyAlgorithm != x509.ECDSA || time.Until(cert.NotAfter) > 101*24*time.Hour ||
			time.Until(cert.NotAfter) < 99*24*time.Hour {
			t.Errorf("%s: authority %t, %s, ends %s", name, cert.IsCA, cert.PublicKeyAlgorithm, cert.NotAfter)
		}
	}
	if s := secretOf(t, c, "demo-proxy"); string(s.Data["tls.crt"]) != "the user's" || len(s.OwnerReferences) > 0 {
		t.Errorf("a secret that was there is now %v", s)
	}

	before := secretOf(t, c, "demo-ca")
	must(t, generate(t.Context(), c, demo(), small, owner))
	if after := secretOf(t, c, "demo-ca"); after.ResourceVersion != before.ResourceVersion {
		t.Error("the second time changed what the first made")
	}
}

func TestGenerateWithExternalEtcd(t *testing.T) {
	c := newClient(t)
	must(t, generate(t.Context(), c, demo(), external, owner))
	for _, name := range []string{"demo-etcd", "demo-apiserver-etcd-client"} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s was made for an etcd that is not ours: %v", name, err)
		}
	}
}

// A secret that appears between looking and writing stays as it is.
func TestGenerateLosesARace(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, inner client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetName() == "demo-ca" {
				must(t, inner.Create(ctx, given("demo-ca", map[string]string{"tls.crt": "first", "tls.key": "first"})))
			}
			return inner.Create(ctx, o, opts...)
		},
	}).Build()
	made, err := Generate(t.Context(), c, demo(), small, []string{"ca", "sa"}, owner)
	if must(t, err); !slices.Equal(made.Purposes, []string{"sa"}) {
		t.Errorf("made %v", made)
	}
	if got := string(secretOf(t, c, "demo-ca").Data["tls.crt"]); got != "first" {
		t.Errorf("it was overwritten with %q", got)
	}
}

func TestErrorsOfTheAPIServerAreReported(t *testing.T) {
	broken := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no connection")
		},
	}).Build()
	refusing := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("quota exceeded")
		},
	}).Build()
	_, secrets := Read(t.Context(), broken, demo(), nil, owner)
	_, etcd := (&EtcdClients{}).Config(t.Context(), broken, demo())
	for name, err := range map[string]error{
		"Read": secrets, "Config": etcd,
		"Own":             Own(t.Context(), broken, broken, demo(), []string{"ca"}, owner),
		"Generate":        generate(t.Context(), broken, demo(), small, owner),
		"WriteKubeconfig": writeKubeconfig(t.Context(), broken, demo(), owner),
	} {
		if err == nil || !strings.Contains(err.Error(), "no connection") || !strings.Contains(err.Error(), "demo") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := generate(t.Context(), refusing, demo(), small, owner); err == nil || !strings.Contains(err.Error(), "creating secret ns/demo-") {
		t.Errorf("Generate: %v", err)
	}
}

// withAuthorities returns demo with authorities, and a client that holds them.
func withAuthorities(t *testing.T) (*clusterv1.Cluster, client.Client) {
	t.Helper()
	c := newClient(t)
	must(t, generate(t.Context(), c, demo(), small, owner))
	return demo(), c
}

func anotherUID(uid string) *clusterv1.Cluster {
	cluster := demo()
	cluster.UID = types.UID(uid)
	return cluster
}

// TestBasis: what the secrets are judged by is another where that changes what Read says, and not where it does not.
func TestBasis(t *testing.T) {
	type inputs struct {
		cluster *clusterv1.Cluster
		config  *bootstrapv1.ClusterConfiguration
		owner   metav1.OwnerReference
		files   []bootstrapv1.File
	}
	file := bootstrapv1.File{Path: "/etc/kubernetes/pki/apiserver.crt", Content: "a"}
	cases := []struct {
		name    string
		files   []bootstrapv1.File
		change  func(*inputs)
		another bool
	}{
		{name: "nothing", change: func(*inputs) {}},
		{name: "generations", change: func(i *inputs) { i.cluster.Generation++ }},
		{name: "the endpoint, and no file", change: func(i *inputs) { i.cluster.Spec.ControlPlaneEndpoint.Host = "other" }},
		{name: "the endpoint that a file's certificate must name", files: []bootstrapv1.File{file},
			change: func(i *inputs) { i.cluster.Spec.ControlPlaneEndpoint.Host = "other" }, another: true},
		{name: "a file's content", files: []bootstrapv1.File{file}, change: func(i *inputs) { i.files[0].Content = "b" }, another: true},
		{name: "another file", change: func(i *inputs) { i.files = append(i.files, file) }, another: true},
		{name: "etcd is external", change: func(i *inputs) { i.config.Etcd.External.Endpoints = []string{"https://e:2379"} }, another: true},
		{name: "the folder of certificates", change: func(i *inputs) { i.config.CertificatesDir = "/etc/pki" }, another: true},
		{name: "the Cluster was moved or restored", change: func(i *inputs) { i.cluster.UID = "other" }, another: true},
		{name: "the owner was", change: func(i *inputs) { i.owner.UID = "other" }, another: true},
		{name: "the Cluster has another control plane", change: func(i *inputs) { i.cluster.Spec.ControlPlaneRef.Name = "other" }, another: true},
	}
	for _, c := range cases {
		of := func(change func(*inputs)) string {
			i := inputs{cluster: &clusterv1.Cluster{}, config: &bootstrapv1.ClusterConfiguration{}, files: slices.Clone(c.files)}
			change(&i)
			return Basis(i.cluster, i.config, i.owner, i.files...)
		}
		if another := of(c.change) != of(func(*inputs) {}); another != c.another {
			t.Errorf("%s: another basis: %t, want %t", c.name, another, c.another)
		}
	}
}
