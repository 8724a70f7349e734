package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// serving returns a way to a server that shows a certificate of that name and end.
func serving(t *testing.T, name string, end time.Time) func(context.Context) (net.Conn, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: end.Add(-time.Hour),
		NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			_ = tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}).Handshake()
		}()
		return ours, nil
	}
}

func TestAPIServerEnd(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for _, end := range []time.Time{now.Add(24 * time.Hour), now.Add(-24 * time.Hour)} {
		if got, err := APIServerEnd(t.Context(), serving(t, "kube-apiserver", end)); err != nil || !got.Equal(end) {
			t.Errorf("it ends %s, %v; want %s", got, err, end)
		}
	}
	if got, err := APIServerEnd(t.Context(), serving(t, "the user's", now)); err == nil || !strings.Contains(err.Error(), "shows none for") {
		t.Errorf("of the user's own: %s, %v", got, err)
	}
	away := errors.New("connection refused")
	if _, err := APIServerEnd(t.Context(), func(context.Context) (net.Conn, error) { return nil, away }); !errors.Is(err, away) {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	silent, other := net.Pipe()
	defer other.Close()
	if _, err := APIServerEnd(ctx, func(context.Context) (net.Conn, error) { return silent, nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
}

// TestShown: a server that refuses a client without a certificate has shown its own, in each version of TLS. A chain is cut.
func TestShown(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, count := range []int{1, 12} {
			config := &tls.Config{MaxVersion: version, ClientAuth: tls.RequireAndVerifyClientCert,
				Certificates: []tls.Certificate{{Certificate: slices.Repeat([][]byte{der}, count), PrivateKey: key}}}
			got, err := Shown(t.Context(), func(context.Context) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					_ = tls.Server(theirs, config).Handshake()
				}()
				return ours, nil
			})
			if err != nil || len(got) != min(count, 10) || got[0].Subject.CommonName != "etcd" {
				t.Errorf("TLS %x, %d certificates: %d, %v", version, count, len(got), err)
			}
		}
	}
}
