package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// ends are when the serving certificates end that members showed last, by the members'
// names. The zero value is ready for use, by several at the same time.
type ends struct {
	mu sync.Mutex
	of map[string]time.Time
}

func (e *ends) note(name string, end time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[string]time.Time{}
	}
	e.of[name] = end
}

// addTo writes into each member when its certificate ends, and returns the survey.
func (e *ends) addTo(s Survey) Survey {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range s.Members {
		s.Members[i].CertificateEnd = e.of[s.Members[i].Name]
	}
	return s
}

// dating are TLS credentials that note when the certificate of the other end ends.
type dating struct {
	credentials.TransportCredentials
	note func(time.Time)
}

// ClientHandshake implements credentials.TransportCredentials.
func (d dating) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := d.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if cert := shown(info, err); cert != nil {
		d.note(cert.NotAfter)
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (d dating) Clone() credentials.TransportCredentials {
	return dating{d.TransportCredentials.Clone(), d.note}
}

// shown is the certificate that the other end showed, also where it was refused because it has ended; nil: none.
func shown(info credentials.AuthInfo, err error) *x509.Certificate {
	var refused *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var certs []*x509.Certificate
	switch known, ok := info.(credentials.TLSInfo); {
	case err == nil && ok:
		certs = known.State.PeerCertificates
	case errors.As(err, &refused) && errors.As(refused.Err, &invalid) && invalid.Reason == x509.Expired:
		certs = refused.UnverifiedCertificates
	}
	if len(certs) == 0 {
		return nil
	}
	return certs[0]
}
