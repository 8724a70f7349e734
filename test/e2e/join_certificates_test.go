//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"maps"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const pkiFolder = "/etc/kubernetes/pki/"

// joinCertificates: certificates that users give, as secrets, as files and by kubeadm's upload, are those that machines have; what they did
// not give is made for them. While something is wrong with what they gave no machine is made, and the reason says which secret or file;
// once it is right it goes on.
func joinCertificates(t *testing.T, e *environment) {
	upload := e.beginUpload(t, "uploads")
	e.givesSecrets(t, "secrets")
	e.givesFiles(t, "files")
	e.etcdOfOthers(t, "others")
	e.endUpload(t, "uploads", upload)
}

// givesSecrets: an authority and keys given as secrets, wrong at first, one after the other.
func (e *environment) givesSecrets(t *testing.T, name string) {
	t.Helper()
	ca, proxy, accounts := newPair(t, secret.ClusterCA), newPair(t, secret.FrontProxyCA), newPair(t, secret.ServiceAccount)
	e.give(t, name, secret.ClusterCA, expiredAuthority(t))
	e.give(t, name, secret.FrontProxyCA, map[string][]byte{"tls.crt": proxy["tls.crt"], "tls.key": ca["tls.key"]})
	e.give(t, name, secret.ServiceAccount, accounts)
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer, "  replicas: 3\n", "  replicas: 1\n"))
	e.refusesCertificates(t, name, "secret default/"+name+"-ca: tls.crt expired at ")
	e.give(t, name, secret.ClusterCA, clientOf(t, ca))
	e.refusesCertificates(t, name, "secret default/"+name+"-ca: tls.crt is not the certificate of an authority")
	e.give(t, name, secret.ClusterCA, ca)
	e.refusesCertificates(t, name, "secret default/"+name+"-proxy: tls.key is not the key of secret default/"+name+"-proxy: tls.crt")
	e.give(t, name, secret.FrontProxyCA, proxy)
	e.healthyWith(t, name, 1, map[string][]byte{
		"ca.crt": ca["tls.crt"], "ca.key": ca["tls.key"], "front-proxy-ca.crt": proxy["tls.crt"], "front-proxy-ca.key": proxy["tls.key"],
		"sa.pub": accounts["tls.crt"], "sa.key": accounts["tls.key"],
	})
	e.haveFiles(t, name, map[string][]byte{"etcd/ca.crt": e.secret(t, name+"-etcd").Data["tls.crt"]}) // which nobody gave
	for purpose, given := range map[secret.Purpose]map[string][]byte{secret.ClusterCA: ca, secret.FrontProxyCA: proxy,
		secret.ServiceAccount: accounts} {
		if s := e.secret(t, secret.Name(name, purpose)); !maps.EqualFunc(s.Data, given,
			func(a, b []byte) bool { return string(a) == string(b) }) || len(s.OwnerReferences) > 0 {
			t.Errorf("secret %s was changed, or has the owners %v", s.Name, s.OwnerReferences)
		}
	}
	e.takeDown(t, name)
}

// givesFiles: authorities that are copied to the machines as files, from a secret in which one is missing at first.
func (e *environment) givesFiles(t *testing.T, name string) {
	t.Helper()
	ca, proxy := newPair(t, secret.ClusterCA), newPair(t, secret.FrontProxyCA)
	own := map[string][]byte{"ca.crt": ca["tls.crt"], "front-proxy-ca.crt": proxy["tls.crt"], "front-proxy-ca.key": proxy["tls.key"]}
	e.writeSecret(t, name+"-own", own)
	files := ""
	for _, file := range []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key"} {
		files += fileFrom(pkiFolder+file, name+"-own", file)
	}
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer,
		"  replicas: 3\n", "  replicas: 1\n", "    files:\n", "    files:\n"+files))
	e.refusesCertificates(t, name, "file "+pkiFolder+"ca.key (secret default/"+name+
		"-own: ca.key) refers to a key that the secret does not have")
	own["ca.key"] = ca["tls.key"]
	e.writeSecret(t, name+"-own", own)
	e.healthyWith(t, name, 1, own)
	e.takeDown(t, name)
}

// etcdOfOthers: an API server's client certificate that etcd's authority did not sign, so that no machine is made.
func (e *environment) etcdOfOthers(t *testing.T, name string) {
	t.Helper()
	e.give(t, name, secret.EtcdCA, map[string][]byte{"tls.crt": newPair(t, secret.EtcdCA)["tls.crt"]})
	e.give(t, name, secret.APIServerEtcdClient, clientOf(t, newPair(t, secret.EtcdCA)))
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer,
		clusterConfiguration, clusterConfiguration+externalEtcd("192.0.2.1", "2379")))
	e.refusesCertificates(t, name, "secret default/"+name+
		"-apiserver-etcd-client: tls.crt is signed by another authority than secret default/"+name+"-etcd: tls.crt")
	e.takeDown(t, name)
}

// beginUpload has three machines made of which the second and third throw away what the bootstrap provider gives them and download what
// the first has uploaded, decrypted with kubeadm's certificateKey. It returns when it began.
func (e *environment) beginUpload(t *testing.T, name string) time.Time {
	t.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer,
		"    files:\n", "    files:\n"+fileFrom("/etc/quorate/init-key", name+"-key", "init")+fileFrom("/etc/quorate/join-key", name+"-key",
			"join"),
		"    preKubeadmCommands:\n", `    preKubeadmCommands:
    - "[ ! -f /run/kubeadm/kubeadm.yaml ] || sed -i '/^kind: InitConfiguration/r /etc/quorate/init-key' /run/kubeadm/kubeadm.yaml"
    - "[ ! -f /run/kubeadm/kubeadm-join-config.yaml ] || sed -i '/^controlPlane:/r /etc/quorate/join-key' /run/kubeadm/kubeadm-join-config.yaml"
    - "[ ! -f /run/kubeadm/kubeadm-join-config.yaml ] || rm -r /etc/kubernetes/pki"
    - "[ ! -f /run/kubeadm/kubeadm-join-config.yaml ] || timeout 300 sh -c 'until kubeadm join phase control-plane-prepare download-certs --config /run/kubeadm/kubeadm-join-config.yaml; do sleep 2; done'"
`, "    initConfiguration:\n", `    postKubeadmCommands:
    - "[ ! -f /run/kubeadm/kubeadm.yaml ] || kubeadm init phase upload-certs --upload-certs --skip-certificate-key-print --config /run/kubeadm/kubeadm.yaml"
    initConfiguration:
`))
	e.writeSecret(t, name+"-key", map[string][]byte{
		"init": []byte("certificateKey: " + hex.EncodeToString(key) +
			"\n"), // Without the comment the bootstrap provider's cloud-config would lose the line's indentation.
		"join": []byte("# kubeadm's upload\n  certificateKey: " + hex.EncodeToString(key) + "\n"),
	})
	return time.Now()
}

// endUpload waits for these machines, and checks what they have.
func (e *environment) endUpload(t *testing.T, name string, began time.Time) {
	t.Helper()
	eventually(t, "nothing to do", patience, func() string {
		if p := e.controlPlane(t, name).Status.Plan; p.Step != "Nothing" {
			return p.Message
		}
		return ""
	})
	t.Logf("FIGURE three machines with certificates by kubeadm's upload, beside others: %.1f s", time.Since(began).Seconds())
	ca, etcd := e.secret(t, name+"-ca").Data, e.secret(t, name+"-etcd").Data
	e.healthyWith(t, name, 3, map[string][]byte{
		"ca.crt": ca["tls.crt"], "ca.key": ca["tls.key"], "etcd/ca.crt": etcd["tls.crt"], "etcd/ca.key": etcd["tls.key"],
		"sa.key": e.secret(t, name+"-sa").Data["tls.key"], "front-proxy-ca.key": e.secret(t, name+"-proxy").Data["tls.key"],
	})
	for _, m := range e.machines(t, name)[1:] {
		log := e.quorate(t, "logs", m, "--component", "bootstrap")
		if !strings.Contains(log, "[download-certs] Downloading the certificates in Secret \"kubeadm-certs\"") {
			t.Errorf("%s did not download its certificates:\n%s", m, log)
		}
	}
	e.takeDown(t, name)
}

// refusesCertificates waits until the plan and the condition say what is wrong, and checks that nothing was made.
func (e *environment) refusesCertificates(t *testing.T, name, words string) {
	t.Helper()
	eventually(t, words, time.Minute, func() string {
		kcp := e.controlPlane(t, name)
		p, c := kcp.Status.Plan, conditions.Get(kcp, kubeadmv1.KubeadmControlPlaneCertificatesAvailableCondition)
		if p.Reason != "CertificatesInvalid" || !strings.HasPrefix(p.Message, words) || c == nil || c.Status != metav1.ConditionFalse ||
			!strings.HasPrefix(c.Message, words) {
			return fmt.Sprintf("%s: %s; condition %+v", p.Reason, p.Message, c)
		}
		return ""
	})
	if made := e.machines(t, name); len(made) > 0 {
		t.Errorf("machines were made: %v", made)
	}
}

// healthyWith waits until a cluster is healthy, which it is reached as with its own authority only, and compares files of its machines.
func (e *environment) healthyWith(t *testing.T, name string, machines int, files map[string][]byte) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d healthy nodes of %s", machines, name), patience, func() string {
		kcp := e.controlPlane(t, name)
		if kcp.Status.Plan.Step != "Nothing" {
			return kcp.Status.Plan.Message
		}
		return e.healthy(t, name, machines)()
	})
	e.haveFiles(t, name, files)
}

// haveFiles compares certificates and keys on a cluster's machines.
func (e *environment) haveFiles(t *testing.T, name string, files map[string][]byte) {
	t.Helper()
	for _, m := range e.machines(t, name) {
		for file, want := range files {
			sum := fmt.Sprintf("%x", sha256.Sum256(want))
			if got := e.quorate(t, "shell", m, "--", "sha256sum", pkiFolder+file); !strings.HasPrefix(got, sum) {
				t.Errorf("%s of %s is another one than was given", file, m)
			}
		}
	}
}

// fileFrom is a file in manifests whose content is in a secret.
func fileFrom(path, name, key string) string {
	return fmt.Sprintf("    - path: %s\n      owner: root:root\n      permissions: \"0600\"\n      contentFrom:\n        secret:\n          "+
		"name: %s\n          key: %s\n", path, name, key)
}

// newPair is an authority, or keys for service accounts, as a secret holds it.
func newPair(t *testing.T, purpose secret.Purpose) map[string][]byte {
	t.Helper()
	made := &secret.Certificate{Purpose: purpose}
	if err := made.Generate(); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": made.KeyPair.Cert, "tls.key": made.KeyPair.Key}
}

// clientOf is a client certificate that an authority signed.
func clientOf(t *testing.T, authority map[string][]byte) map[string][]byte {
	t.Helper()
	return signedBy(t, authority, certs.Config{CommonName: "kube-apiserver", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// serverOf is a server's certificate for names and addresses that an authority signed.
func serverOf(t *testing.T, authority map[string][]byte, names []string) map[string][]byte {
	t.Helper()
	config := certs.Config{CommonName: "kube-apiserver", Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			config.AltNames.IPs = append(config.AltNames.IPs, ip)
		} else {
			config.AltNames.DNSNames = append(config.AltNames.DNSNames, name)
		}
	}
	return signedBy(t, authority, config)
}

// signedBy is a certificate with its key that an authority signed.
func signedBy(t *testing.T, authority map[string][]byte, config certs.Config) map[string][]byte {
	t.Helper()
	ca, err := certs.DecodeCertPEM(authority["tls.crt"])
	if err != nil {
		t.Fatal(err)
	}
	signer, err := certs.DecodePrivateKeyPEM(authority["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	own, err := certs.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := config.NewSignedCert(own, ca, signer)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": certs.EncodeCertPEM(signed), "tls.key": certs.EncodePrivateKeyPEM(own)}
}

// expiredAuthority is an authority whose certificate was valid until an hour ago.
func expiredAuthority(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := certs.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, KeyUsage: x509.KeyUsageCertSign,
		IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": certs.EncodeCertPEM(cert), "tls.key": certs.EncodePrivateKeyPEM(key)}
}

// give writes what a user gives for a cluster, as a secret of Cluster API's name.
func (e *environment) give(t *testing.T, cluster string, purpose secret.Purpose, data map[string][]byte) {
	t.Helper()
	e.writeSecret(t, secret.Name(cluster, purpose), data)
}

// writeSecret makes a secret, or gives it other data.
func (e *environment) writeSecret(t *testing.T, name string, data map[string][]byte) {
	t.Helper()
	c, s := e.management(t), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if _, err := controllerutil.CreateOrUpdate(context.Background(), c, s, func() error { s.Data = data; return nil }); err != nil {
		t.Fatal(err)
	}
}

// secret reads a secret.
func (e *environment) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := e.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}
