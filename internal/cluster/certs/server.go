package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// apiServerName is the common name of the certificate that kubeadm makes for an API server.
const apiServerName = "kube-apiserver"

// APIServerEnd asks an API server for the certificate that kubeadm made for it, and returns when that expires. dial
// opens a connection to the server; ctx ends the waiting.
//
// Nothing is sent and nothing but the date is believed, so that a certificate that has
// expired, or that is of another authority, is as good as any: upstream asks in the same way.
func APIServerEnd(ctx context.Context, dial func(context.Context) (net.Conn, error)) (time.Time, error) {
	raw, err := dial(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for an API server's certificate: %w", err)
	}
	conn := tls.Client(raw, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	defer func() { _ = conn.Close() }()
	if err := conn.HandshakeContext(ctx); err != nil {
		return time.Time{}, fmt.Errorf("asking for an API server's certificate: %w", err)
	}
	for _, cert := range conn.ConnectionState().PeerCertificates {
		if cert.Subject.CommonName == apiServerName {
			return cert.NotAfter, nil
		}
	}
	return time.Time{}, fmt.Errorf("asking for an API server's certificate: it shows none for %q, as kubeadm makes them", apiServerName)
}
