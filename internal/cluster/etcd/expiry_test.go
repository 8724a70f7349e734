package etcd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
)

// TestCertificateEndIsNoted with each connection, also of a certificate that has ended, and
// not of one that belongs to somebody else.
func TestCertificateEndIsNoted(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Second).UTC()
	sign := func(template, parent *x509.Certificate) *x509.Certificate {
		template.SerialNumber = big.NewInt(1)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	authority := &x509.Certificate{NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(48 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca := sign(authority, authority)

	tests := []struct {
		name, host string
		end        time.Time
		trusted    bool
		noted      bool
	}{
		{"valid", "cp-1", now.Add(24 * time.Hour), true, true},
		{"ended", "cp-1", now.Add(-time.Hour), true, true},
		{"another member's", "cp-2", now.Add(24 * time.Hour), true, false},
		{"another authority's", "cp-1", now.Add(24 * time.Hour), false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			leaf := sign(&x509.Certificate{NotBefore: now.Add(-24 * time.Hour), NotAfter: test.end, DNSNames: []string{test.host}}, ca)
			roots := x509.NewCertPool()
			if test.trusted {
				roots.AddCert(ca)
			}
			ours, theirs := net.Pipe()
			served := make(chan struct{})
			go func() {
				defer close(served)
				defer theirs.Close()
				_ = tls.Server(theirs,
					&tls.Config{NextProtos: []string{"h2"},
						Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}}).Handshake()
			}()
			var e ends
			creds := dating{credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "cp-1"}), func(end time.Time) { e.note("cp-1", end) }}
			conn, _, err := creds.Clone().ClientHandshake(t.Context(), "cp-1", ours)
			if conn != nil {
				_ = conn.Close()
			}
			_ = ours.Close()
			<-served
			if good := test.trusted && test.host == "cp-1" && test.end.After(now); good != (err == nil) {
				t.Fatalf("the handshake ended with %v", err)
			}
			want := time.Time{}
			if test.noted {
				want = test.end
			}
			got := e.addTo(Survey{Members: []Member{{Name: "cp-2"}, {Name: "cp-1"}}})
			if !got.Members[1].CertificateEnd.Equal(want) || !got.Members[0].CertificateEnd.IsZero() {
				t.Errorf("it ends %v, want %v", got.Members, want)
			}
		})
	}
}
