package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// pair is a Pair that was read.
type pair struct {
	Pair
	// secret is what the secret of the same role holds, for a pair of files; nil: there is none.
	secret *pair
	certs  []*x509.Certificate
	// key is the private key's public half, and publics are the public keys for service accounts.
	key     publicKey
	publics []publicKey
}

// check collects what is wrong.
type check struct {
	Given
	pairs []*pair
	found []Finding
}

// Check returns what is wrong with what was given, in the order of the pairs. That something was not given is wrong only
// where what was given is of no use without it.
func Check(g Given) []Finding {
	c := &check{Given: g}
	for _, p := range g.Pairs {
		c.read(p)
	}
	for _, p := range c.pairs {
		switch {
		case p.Role == ServiceAccount:
			c.serviceAccount(p)
		case authorities[p.Role]:
			c.authority(p)
		default:
			c.signed(p)
		}
	}
	return c.found
}

// say adds a finding, once: the files of a role may be completed by its secret.
func (c *check) say(where, accepted, wrong string, args ...any) {
	f := Finding{Where: where, Wrong: fmt.Sprintf(wrong, args...), Accepted: accepted}
	if !slices.Contains(c.found, f) {
		c.found = append(c.found, f)
	}
}

// read reads a pair. What a file's lacks, its role's secret has.
func (c *check) read(given Pair) {
	p := &pair{Pair: given}
	if at := slices.IndexFunc(c.pairs, func(other *pair) bool { return other.Role == p.Role && !other.File }); given.File && at >= 0 {
		p.secret = c.pairs[at]
		if !p.Cert.given() {
			p.Cert = p.secret.Cert
		}
		if !p.Key.given() {
			p.Key = p.secret.Key
		}
	}
	c.pairs = append(c.pairs, p)
	c.need(p)
	if p.Role == ServiceAccount {
		p.publics = c.readPublic(p.Cert)
	} else {
		p.certs = c.readCerts(p.Cert)
	}
	if !c.onlyVerifies(p.Role) {
		p.key = c.readKey(p.Key, p.Role == ServiceAccount)
	}
}

// onlyVerifies reports whether nothing is signed with a role's key.
func (c *check) onlyVerifies(r Role) bool { return r == EtcdCA && c.ExternalEtcd }

// mayKeepKeyElsewhere reports whether a pair needs no key. The key of an authority may be kept elsewhere, as with kubeadm's external CA
// mode, where a secret shows it; but no secret is made of a certificate alone. The key for service accounts may not: every machine would
// make one of its own.
func (c *check) mayKeepKeyElsewhere(p *pair) bool {
	return c.onlyVerifies(p.Role) || authorities[p.Role] && (!p.File || p.secret != nil)
}

// need says what a pair lacks.
func (c *check) need(p *pair) {
	accepted := "a certificate and its key, in PEM"
	if p.Role == ServiceAccount {
		accepted = "a public key and its private key, in PEM"
	}
	for _, d := range []struct {
		Datum
		optional bool
	}{{p.Cert, false}, {p.Key, c.mayKeepKeyElsewhere(p)}} {
		switch {
		case d.Unreadable != "":
			c.say(d.Where, accepted, "%s", d.Unreadable)
		case len(d.PEM) == 0 && !d.optional:
			c.say(d.Where, accepted, "is missing")
		}
	}
}

// serviceAccount checks the keys with which tokens of service accounts are signed and verified.
func (c *check) serviceAccount(p *pair) {
	if p.key == nil || len(p.publics) == 0 {
		return
	}
	if !slices.ContainsFunc(p.publics, func(k publicKey) bool { return k.Equal(p.key) }) {
		c.say(p.Cert.Where, "the public key of that private key", "is not the public key of %s", p.Key.Where)
	}
	if s := p.secret; s != nil && s.key != nil && !s.key.Equal(p.key) {
		c.say(p.Key.Where, "the same one, or only one of them must be given", "is another key than %s", s.Key.Where)
	}
}

// agreesWithSecret reports whether a file and the secret of the same authority, where there is one, give the same certificate.
func (p *pair) agreesWithSecret() bool {
	return p.secret == nil || len(p.secret.certs) == 0 || slices.ContainsFunc(p.certs, p.secret.certs[0].Equal)
}

// authority checks a certificate that others are signed with.
func (c *check) authority(p *pair) {
	if len(p.certs) == 0 {
		return
	}
	first := p.certs[0]
	if !p.agreesWithSecret() {
		c.say(p.Cert.Where, "the same one, or only one of them must be given", "is another authority than %s", p.secret.Cert.Where)
	}
	if c.onlyVerifies(p.Role) {
		if !slices.ContainsFunc(p.certs, func(cert *x509.Certificate) bool { return c.ended(cert) == "" }) {
			c.valid(p.Cert.Where, first)
		}
		return
	}
	c.valid(p.Cert.Where, first)
	c.matches(p)
	switch {
	case !first.IsCA:
		c.say(p.Cert.Where, "one with the basic constraint CA:TRUE", "is not the certificate of an authority")
	case first.KeyUsage != 0 && first.KeyUsage&x509.KeyUsageCertSign == 0:
		c.say(p.Cert.Where, "one with the key usage keyCertSign", "is that of an authority that may not sign certificates")
	}
}

// signed checks a certificate that an authority signed.
func (c *check) signed(p *pair) {
	if len(p.certs) == 0 {
		return
	}
	first, needs := p.certs[0], signed[p.Role]
	c.matches(p)
	for _, usage := range needs.usages {
		if !isFor(first, usage) {
			c.say(p.Cert.Where, "one with the extended key usage "+usageNames[usage], "may not be used by a %s", users[usage])
		}
	}
	names := needs.names
	if p.Role == APIServer {
		names = c.Names
	}
	lacks := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return first.VerifyHostname(name) == nil })
	if len(lacks) > 0 {
		c.say(p.Cert.Where, "one that has them among its subject alternative names", "is not for %s", strings.Join(lacks, ", "))
	}
	if c.valid(p.Cert.Where, first) {
		c.chain(p, needs.signer)
	}
}

// matches checks that a key is that of its certificate.
func (c *check) matches(p *pair) {
	public, ok := p.certs[0].PublicKey.(publicKey)
	if p.key != nil && (!ok || !public.Equal(p.key)) {
		c.say(p.Key.Where, "the key of that certificate", "is not the key of %s", p.Cert.Where)
	}
}

// valid reports whether a certificate is valid now, and says if not.
func (c *check) valid(where string, cert *x509.Certificate) bool {
	ended := c.ended(cert)
	if ended != "" {
		c.say(where, "one that is valid now", "%s", ended)
	}
	return ended == ""
}

// ended says why a certificate is not valid now; empty: it is.
func (c *check) ended(cert *x509.Certificate) string {
	switch {
	case c.Now.After(cert.NotAfter):
		return "expired at " + cert.NotAfter.UTC().Format(time.RFC3339)
	case c.Now.Before(cert.NotBefore):
		return "is not valid before " + cert.NotBefore.UTC().Format(time.RFC3339)
	}
	return ""
}

// chain checks who signed a certificate. What is wrong with the authority itself is said of the authority.
func (c *check) chain(p *pair, signer Role) {
	roots, where := c.roots(signer)
	switch {
	case roots == nil:
		return
	case where == "" && !c.onlyVerifies(signer): // that of an etcd elsewhere is needed in any case
		c.say(p.Cert.Where, "signed by an authority that is given as well", "is signed by an authority that is not given")
	}
	if where == "" {
		return
	}
	between := x509.NewCertPool()
	for _, cert := range p.certs[1:] {
		between.AddCert(cert)
	}
	_, err := p.certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: c.Now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	switch _, unknown := errors.AsType[x509.UnknownAuthorityError](err); {
	case unknown:
		c.say(p.Cert.Where, "one that this authority signed", "is signed by another authority than %s", where)
	case err != nil && c.onlyVerifies(signer):
		c.say(p.Cert.Where, "one that this authority signed", "cannot be verified with %s: %v", where, err)
	}
}

// roots are the authorities of a role, and where one of them lies; empty: none is given. nil: one cannot be read.
func (c *check) roots(signer Role) (roots *x509.CertPool, where string) {
	roots = x509.NewCertPool()
	for _, a := range c.pairs {
		if a.Role != signer || !a.Cert.given() {
			continue
		}
		if len(a.certs) == 0 {
			return nil, ""
		}
		where = a.Cert.Where
		for _, cert := range a.certs {
			roots.AddCert(cert)
		}
	}
	return roots, where
}
