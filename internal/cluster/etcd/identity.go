package etcd

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// security is how a target is spoken to: it is addressed by its alias, where it has one, and must show a certificate of the
// roots for its name or its alias. An alias that is the name of another target proves nothing.
func (c *Cluster) security(t Target) *tls.Config {
	own := c.tls.Clone()
	own.ServerName = cmp.Or(t.Alias, t.Name)
	// The library's own check knows one name only.
	own.InsecureSkipVerify = true //nolint:gosec // VerifyConnection checks the same for two names.
	own.VerifyConnection = func(state tls.ConnectionState) error {
		names := []string{t.Name}
		if t.Alias != "" && !c.isTarget(t.Alias) {
			names = append(names, t.Alias)
		}
		return verify(state.PeerCertificates, own.RootCAs, names)
	}
	return own
}

// verify checks a server's certificate, the first of those it showed, for one of the names. The error is about the first name.
func verify(shown []*x509.Certificate, roots *x509.CertPool, names []string) error {
	if len(shown) == 0 {
		return errors.New("it showed no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, cert := range shown[1:] {
		intermediates.AddCert(cert)
	}
	var first error
	for _, name := range names {
		_, err := shown[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: intermediates})
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return &tls.CertificateVerificationError{UnverifiedCertificates: shown, Err: first}
}

// isTarget reports whether a name is that of one of the targets of the last survey. It takes no lock: handshakes ask, and connections are
// closed under c.mu.
func (c *Cluster) isTarget(name string) bool {
	targets := c.targets.Load()
	if targets == nil {
		return false
	}
	_, is := (*targets)[name]
	return is
}

// identify gives an answer whose header is missing the ID of that member of its list that has the target's name, which its certificate
// has proven. etcd always sends a header; one that stands in for it in tests may not.
func (a answer) identify() {
	if a.status == nil || a.status.Header != nil {
		return
	}
	own := func(m *pb.Member) bool { return m.Name == a.target.Name }
	at := slices.IndexFunc(a.list, own)
	if at < 0 || slices.ContainsFunc(a.list[at+1:], own) {
		return
	}
	a.status.Header = &pb.ResponseHeader{MemberId: a.list[at].ID}
}
