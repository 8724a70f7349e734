package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"time"
)

// apiServerName is the common name of the certificate that kubeadm makes for an API server.
const apiServerName = "kube-apiserver"

// mostShown is how many certificates of a server are looked at. Usual chains have up to three.
const mostShown = 10

// Shown asks a server for its certificates, its own first, and returns at most ten. dial opens a connection to the server; ctx ends the
// waiting. Nothing is sent and nothing is believed, so that a certificate that has expired, or that is of another authority, is as good as
// any. A server that then wants a certificate of its client has shown its own before.
func Shown(ctx context.Context, dial func(context.Context) (net.Conn, error)) ([]*x509.Certificate, error) {
	raw, err := dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking a server for its certificate: %w", err)
	}
	var shown []*x509.Certificate
	conn := tls.Client(raw, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			shown = state.PeerCertificates
			return nil
		}})
	defer func() { _ = conn.Close() }()
	if err := conn.HandshakeContext(ctx); err != nil && len(shown) == 0 {
		return nil, fmt.Errorf("asking a server for its certificate: %w", err)
	}
	return shown[:min(len(shown), mostShown)], nil
}

// APIServerEnd asks an API server for the certificate that kubeadm made for it, and returns when that expires. It asks as Shown does, and
// believes nothing but the date: upstream asks in the same way.
func APIServerEnd(ctx context.Context, dial func(context.Context) (net.Conn, error)) (time.Time, error) {
	shown, err := Shown(ctx, dial)
	if err != nil {
		return time.Time{}, err
	}
	for _, cert := range shown {
		if cert.Subject.CommonName == apiServerName {
			return cert.NotAfter, nil
		}
	}
	return time.Time{}, fmt.Errorf("asking for an API server's certificate: it shows none for %q, as kubeadm makes them", apiServerName)
}
