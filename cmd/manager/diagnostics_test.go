package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// TestDiagnosticsCertificate: the diagnostics endpoint shows the certificate of the webhooks, so that who scrapes it can verify whom its
// token goes to.
func TestDiagnosticsCertificate(t *testing.T) {
	const name = "quorate-webhook-service.quorate-system.svc"
	folder := t.TempDir()
	authority := writeCertificate(t, folder, name)
	s := parse(t, "--webhook-port=9443", "--webhook-cert-dir="+folder, "--diagnostics-address=127.0.0.1:0")
	o, err := s.options()
	if err != nil {
		t.Fatal(err)
	}
	o.Metrics.FilterProvider = nil // it would ask an API server who calls
	server, err := metricsserver.NewServer(o.Metrics, &rest.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bound, is := server.(interface{ GetBindAddr() string })
	if !is {
		t.Fatalf("%T does not say where it listens", server)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	address := ""
	for address == "" {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
			runtime.Gosched()
			address = bound.GetBindAddr()
		}
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: authority, ServerName: name, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatalf("its certificate cannot be verified: %v", err)
	}
	_ = conn.Close()
}

// writeCertificate writes a certificate for a name that is its own authority, as cert-manager's self-signed Issuer makes it.
func writeCertificate(t *testing.T, folder, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
	for file, data := range map[string][]byte{"tls.crt": certificate, "tls.key": secret} {
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o600); err != nil {
			t.Fatal(fmt.Errorf("writing %s: %w", file, err))
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}
