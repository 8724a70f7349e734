package certs

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func file(path, content string) bootstrapv1.File {
	return bootstrapv1.File{Path: path, Content: content}
}

func fileFrom(path, name, key string) bootstrapv1.File {
	return bootstrapv1.File{Path: path, ContentFrom: bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: name, Key: key}}}
}

// encoded returns content as a file may hold it.
func encoded(t *testing.T, content string, as bootstrapv1.Encoding) string {
	t.Helper()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
	switch as {
	case bootstrapv1.Gzip:
		return zipped.String()
	case bootstrapv1.GzipBase64:
		return base64.StdEncoding.EncodeToString(zipped.Bytes())
	case bootstrapv1.Base64:
		return base64.StdEncoding.EncodeToString([]byte(content)) + "\n"
	}
	return content
}

// TestFilesOfUsers: secrets are made of the files that hold authorities; what is wrong with files is said with their paths.
func TestFilesOfUsers(t *testing.T) {
	const folder = "/etc/kubernetes/pki/"
	pair, other := pairs()
	ca := []bootstrapv1.File{file(folder+"ca.crt", pair["tls.crt"]), file(folder+"ca.key", pair["tls.key"])}
	packed := bootstrapv1.File{Path: folder + "ca.crt", Content: "???", Encoding: bootstrapv1.GzipBase64}
	appended, template := file(folder+"ca.crt", "more"), file(folder+"ca.crt", "{{ .controlPlane.version }}")
	appended.Append, template.ContentFormat = new(true), bootstrapv1.FileContentFormatTemplate
	elsewhere := &bootstrapv1.ClusterConfiguration{CertificatesDir: "/certs"}
	tests := []struct {
		name    string
		config  *bootstrapv1.ClusterConfiguration
		files   []bootstrapv1.File
		secrets []client.Object
		broken  string
		given   string // what only the user can give, and did not
	}{
		{"other files", nil, []bootstrapv1.File{file("/etc/motd", "hello"), file("/etc/ssl/ca.crt", "x")}, nil, "", ""},
		{"an authority", nil, ca, nil, "", ""},
		{"from a secret", nil, []bootstrapv1.File{fileFrom(folder+"ca.crt", "mine", "tls.crt"), fileFrom(folder+"ca.key", "mine", "tls.key")},
			[]client.Object{given("mine", pair)}, "", ""},
		{"from a secret that is not there", nil, []bootstrapv1.File{fileFrom(folder+"ca.crt", "mine", "cert"), ca[1]}, nil,
			"file /etc/kubernetes/pki/ca.crt (secret ns/mine: cert) refers to a secret that does not exist (", ""},
		{"from a key that is not there", nil, []bootstrapv1.File{fileFrom(folder+"ca.crt", "mine", "cert"), ca[1]},
			[]client.Object{given("mine", pair)},
			"file /etc/kubernetes/pki/ca.crt (secret ns/mine: cert) refers to a key that the secret does not have (", ""},
		{"not encoded as it says", nil, []bootstrapv1.File{packed, ca[1]}, nil,
			`file /etc/kubernetes/pki/ca.crt holds nothing that is encoded as "gzip+base64" (`, ""},
		{"without its key", nil, ca[:1], nil, "file /etc/kubernetes/pki/ca.key is missing (must be a certificate and its key, in PEM)", ""},
		{"another than the secret's", nil, ca, []client.Object{given("demo-ca", other)},
			"file /etc/kubernetes/pki/ca.crt is another authority than secret ns/demo-ca: tls.crt (", ""},
		{"appended, or a template", nil, []bootstrapv1.File{appended, template}, nil, "", ""},
		{"appended, beside a key", nil, []bootstrapv1.File{appended, ca[1]}, nil, "", ""},
		{"in another folder", elsewhere, []bootstrapv1.File{file("/certs/ca.crt", "x"), file("/certs/ca.key", pair["tls.key"]), ca[1]}, nil,
			"file /certs/ca.crt holds no certificate (", ""},
		{"a key without its certificate", nil, ca[1:], nil, "file /etc/kubernetes/pki/ca.crt is missing (", ""},
		{"an API server's certificate without its key", nil, []bootstrapv1.File{file(folder+"apiserver.crt", pair["tls.crt"])}, nil,
			"file /etc/kubernetes/pki/apiserver.key is missing (", ""},
		{"an etcd elsewhere", external, []bootstrapv1.File{file("/ca", pair["tls.crt"]), file("/crt", pair["tls.crt"]),
			file("/key", pair["tls.key"])}, nil, "", ""},
		{"files that are not those of an etcd elsewhere", external, []bootstrapv1.File{file(folder+"etcd/ca.crt", "x"),
			file(folder+"apiserver-etcd-client.crt", "x")}, nil, "", "apiserver-etcd-client etcd"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, test.secrets...)
			got, err := Read(t.Context(), c, demo(), test.config, owner, test.files...)
			must(t, err)
			if got.Broken == "" != (test.broken == "") || !strings.HasPrefix(got.Broken, test.broken) || strings.Contains(got.Broken, "BEGIN") {
				t.Errorf("broken: %q, want %q", got.Broken, test.broken)
			}
			if strings.Join(got.Given, " ") != test.given {
				t.Errorf("not given: %v, want %s", got.Given, test.given)
			}
		})
	}
}

// TestGenerateFromFiles: in every encoding the secret is what the files are; the rest is made new, and nothing instead of what cannot be
// read.
func TestGenerateFromFiles(t *testing.T) {
	pair, _ := pairs()
	for _, as := range []bootstrapv1.Encoding{"", bootstrapv1.Base64, bootstrapv1.Gzip, bootstrapv1.GzipBase64} {
		files := []bootstrapv1.File{file("/etc/kubernetes/pki/etcd/ca.crt", encoded(t, pair["tls.crt"], as)),
			file("/etc/kubernetes/pki/etcd/ca.key", encoded(t, pair["tls.key"], as))}
		files[0].Encoding, files[1].Encoding = as, as
		c := newClient(t)
		must(t, generate(t.Context(), c, demo(), small, owner, files...))
		if s := secretOf(t, c, "demo-etcd"); string(s.Data["tls.crt"]) != pair["tls.crt"] || string(s.Data["tls.key"]) != pair["tls.key"] ||
			len(s.OwnerReferences) != 1 {
			t.Errorf("as %q: the secret is another authority than the files, or has the owners %v", as, s.OwnerReferences)
		}
		if got, err := Read(t.Context(), c, demo(), small, owner, files...); err != nil || got.Broken != "" || len(got.Missing) > 0 {
			t.Errorf("as %q: broken %q, missing %v, %v", as, got.Broken, got.Missing, err)
		}
	}
	c := newClient(t)
	err := generate(t.Context(), c, demo(), small, owner, fileFrom("/etc/kubernetes/pki/ca.crt", "gone", "tls.crt"),
		file("/etc/kubernetes/pki/ca.key", pair["tls.key"]))
	if err == nil || !strings.Contains(err.Error(), "file /etc/kubernetes/pki/ca.crt (secret ns/gone: tls.crt) cannot be read") {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "demo-ca"}, &corev1.Secret{}); client.IgnoreNotFound(err) != nil ||
		err == nil {
		t.Errorf("another authority was made: %v", err)
	}
	half := generate(t.Context(), c, demo(), small, owner, file("/etc/kubernetes/pki/ca.crt", pair["tls.crt"]))
	if half == nil || !strings.Contains(half.Error(), "file /etc/kubernetes/pki/ca.key cannot be read") {
		t.Errorf("a certificate without its key: %v", half)
	}
}

// TestGenerateForEtcdElsewhere: the bootstrap provider wants secrets, so that they are made of the files.
func TestGenerateForEtcdElsewhere(t *testing.T) {
	pair, _ := pairs()
	c := newClient(t)
	files := []bootstrapv1.File{file("/ca", pair["tls.crt"]), file("/crt", pair["tls.crt"]), file("/key", pair["tls.key"])}
	must(t, generate(t.Context(), c, demo(), external, owner, files...))
	if s := secretOf(t, c, "demo-etcd"); string(s.Data["tls.crt"]) != pair["tls.crt"] || len(s.Data["tls.key"]) > 0 {
		t.Error("the authority is another, or has a key")
	}
	if s := secretOf(t, c, "demo-apiserver-etcd-client"); string(s.Data["tls.key"]) != pair["tls.key"] {
		t.Error("the client's key is another")
	}
}

// TestFilesAreNotRead: an API server that does not answer is no finding.
func TestFilesAreNotRead(t *testing.T) {
	broken := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no connection")
		},
	}).Build()
	_, err := Read(t.Context(), broken, demo(), small, owner, fileFrom("/etc/kubernetes/pki/ca.crt", "mine", "tls.crt"))
	if err == nil || err.Error() != "reading secret ns/mine: no connection" {
		t.Errorf("Read: %v", err)
	}
}

// TestNamesOfAPIServers: those that kubeadm puts into every API server's certificate.
func TestNamesOfAPIServers(t *testing.T) {
	const kubeadms = "kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc."
	cluster, config := demo(), &bootstrapv1.ClusterConfiguration{APIServer: bootstrapv1.APIServer{CertSANs: []string{"api.example.com"}}}
	if got := strings.Join(apiServerNames(cluster, config), " "); got != kubeadms+"cluster.local 10.96.0.1 172.30.0.10 api.example.com" {
		t.Errorf("the names are %s", got)
	}
	cluster.Spec.ClusterNetwork.ServiceDomain, cluster.Spec.ClusterNetwork.Services.CIDRBlocks = "home", []string{"fd00::/108", "10.0.0.0/8"}
	cluster.Spec.ControlPlaneEndpoint.Host = ""
	if got := strings.Join(apiServerNames(cluster, nil), " "); got != kubeadms+"home fd00::1" {
		t.Errorf("the names are %s", got)
	}
}
