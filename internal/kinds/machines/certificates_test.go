package machines

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/quorate/quorate/internal/group/observe"
)

// TestCertificatesOfFiles: certificates among the files of the bootstrap template are looked at, and the secrets made of them.
func TestCertificatesOfFiles(t *testing.T) {
	w := newWorld(t, testControlPlane())
	ca := &secret.Certificate{Purpose: secret.ClusterCA, KeyEncryptionAlgorithm: bootstrapv1.EncryptionAlgorithmECDSAP256}
	if err := ca.Generate(); err != nil {
		t.Fatal(err)
	}
	copies := func(key string) {
		t.Helper()
		template := &bootstrapv1.KubeadmConfigTemplate{}
		w.get("demo", template)
		template.Spec.Template.Spec.Files = []bootstrapv1.File{
			{Path: "/etc/kubernetes/pki/ca.crt", Content: string(ca.KeyPair.Cert)}, {Path: "/etc/kubernetes/pki/ca.key", Content: key},
		}
		if err := w.client.Update(t.Context(), template); err != nil {
			t.Fatal(err)
		}
	}
	copies("no key")
	p := w.settle()
	if p.Reason != "CertificatesInvalid" || !strings.HasPrefix(p.Message, "file /etc/kubernetes/pki/ca.key holds no private key (") ||
		len(w.machines()) > 0 {
		t.Fatalf("plan %+v, machines %v", p, w.machines())
	}
	if reason := w.controlPlane().Status.FailureReason; reason != "CertificatesInvalid" {
		t.Errorf("the reason of the failure is %q", reason)
	}
	copies(string(ca.KeyPair.Key))
	w.c.Memories.Of(key).Secrets.Read = time.Now().Add(-observe.SlowMissing)
	w.settle()
	s := &corev1.Secret{}
	w.get("demo-ca", s)
	if string(s.Data["tls.crt"]) != string(ca.KeyPair.Cert) || string(s.Data["tls.key"]) != string(ca.KeyPair.Key) || len(w.machines()) != 1 {
		t.Errorf("the secret is another authority than the files, or the machines are %v", w.machines())
	}
}
