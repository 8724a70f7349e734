package inventory

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// Material is what lies at one place.
type Material struct {
	Where    Place
	Machine  string
	Location string
	// Name is what it is for. An authority in it that is not Name's own has the name of the authority.
	Name string
	pki.Contents
	// Problem says why there are no contents although there should be; empty: nothing hindered the look.
	Problem string
	// Managed: Quorate's manager renews it. InPlace: upgrades in place are on for its machine.
	Managed, InPlace bool
}

// List returns the inventory of materials.
func List(materials []Material, unseen []Unseen, now time.Time) Inventory {
	l := lister{now: now, found: Inventory{Entries: []Entry{}, Unseen: slices.Concat([]Unseen{}, unseen)}}
	for _, m := range materials {
		l.learn(m)
	}
	for _, m := range materials {
		l.add(m)
	}
	if l.checks > mostChecks {
		l.found.Unseen = append(l.found.Unseen, Unseen{
			Why: fmt.Sprintf("there are too many certificates: %d signatures were verified, and the others were not", mostChecks)})
	}
	l.found.order()
	return l.found
}

// mostChecks is how many signatures one inventory verifies. One of three nodes takes some 150. Tenants choose certificates, and a
// verification with a key of 8192 bits takes half a millisecond.
const mostChecks = 2000

// lister makes an inventory.
type lister struct {
	now   time.Time
	known []authority
	found Inventory
	// checks is how many signatures were verified.
	checks int
}

// authority is a certificate of an authority of the cluster, and its name.
type authority struct {
	*x509.Certificate
	name string
}

// mostAuthorities is how many different authorities of a cluster are compared with each certificate. During a rotation there are two of
// each.
const mostAuthorities = 32

// learn notes the authorities of a material. What a server shows proves nothing.
func (l *lister) learn(m Material) {
	if m.Where == Handshake || !isAuthority(m.Name) {
		return
	}
	for _, cert := range m.Certificates {
		known := slices.ContainsFunc(l.known, func(a authority) bool { return a.Equal(cert) })
		if cert.IsCA && !known && len(l.known) < mostAuthorities {
			l.known = append(l.known, authority{cert, m.Name})
		}
	}
}

func (l *lister) add(m Material) {
	unseen := func(why string) {
		l.found.Unseen = append(l.found.Unseen, Unseen{Where: m.Where, Machine: m.Machine, Location: m.Location, Why: why})
	}
	if m.Problem != "" {
		unseen(m.Problem)
		return
	}
	for _, why := range m.Unread {
		unseen(why)
	}
	seen := map[string]bool{}
	for _, cert := range m.Certificates {
		e := l.certificate(m, cert)
		if seen[e.Fingerprint] {
			e.warn(Duplicate, "the same certificate is at this place more than once")
		}
		seen[e.Fingerprint] = true
		if len(m.Private) > 0 && !keepsKeyBeside(m) {
			e.warn(PrivateKeyBeside, "a private key is in the text of the certificate")
		}
		l.found.Entries = append(l.found.Entries, e)
	}
	for _, key := range m.Private {
		l.found.Entries = append(l.found.Entries, keyEntry(m, key, true))
	}
	for _, key := range m.Public {
		l.found.Entries = append(l.found.Entries, keyEntry(m, key, false))
	}
}

// certificate returns the entry of one certificate.
func (l *lister) certificate(m Material, cert *x509.Certificate) Entry {
	e := Entry{
		Name: m.Name, Where: m.Where, Machine: m.Machine, Location: m.Location, Authority: cert.IsCA,
		Subject: cert.Subject.String(), Issuer: cert.Issuer.String(), Names: namesOf(cert),
		NotBefore: bounded(cert.NotBefore), NotAfter: bounded(cert.NotAfter),
		KeyKind: keyKind(cert.PublicKey), Fingerprint: hash(cert.Raw), PublicKey: publicHash(cert.PublicKey),
	}
	if cert.IsCA && !isAuthority(e.Name) {
		e.Name = l.authorityName(cert, m)
	}
	e.RenewedBy = renewal(m, e)
	l.judgeTimes(&e)
	l.judgeAuthority(&e, m, cert)
	judgeStrength(&e, cert)
	return e
}

// authorityName is the name of an authority that lies beside what it signed: in a kubeconfig, in the chain that a server shows.
func (l *lister) authorityName(cert *x509.Certificate, m Material) string {
	for _, a := range l.known {
		if a.Equal(cert) {
			return a.name
		}
	}
	return cmp.Or(signers[m.Name], m.Name)
}

func (l *lister) judgeTimes(e *Entry) {
	at := func(t time.Time) string { return t.Format(time.RFC3339) }
	switch {
	case e.NotAfter.Before(e.NotBefore):
		e.warn(NeverValid, fmt.Sprintf("it ends at %s, before it begins at %s", at(e.NotAfter), at(e.NotBefore)))
	case l.now.After(e.NotAfter):
		e.warn(Expired, "it expired at "+at(e.NotAfter))
	case l.now.Before(e.NotBefore):
		e.warn(NotYetValid, "it is not valid before "+at(e.NotBefore))
	case e.NotAfter.Sub(l.now) < Soon:
		e.warn(EndsSoon, fmt.Sprintf("it ends in %d days", int(e.NotAfter.Sub(l.now)/(24*time.Hour))))
	}
}

// judgeAuthority compares a certificate with the authority that signed it. Where no authority of the cluster was seen, nothing is said.
func (l *lister) judgeAuthority(e *Entry, m Material, cert *x509.Certificate) {
	if l.signedBy(cert, cert) || len(l.known) == 0 {
		return // an authority of its own, or one that a kubelet made for itself
	}
	for _, other := range m.Certificates { // the chain at the same place
		if other != cert && l.signedBy(cert, other) {
			outlives(e, other)
			return
		}
	}
	want := signers[m.Name]
	other := ""
	for _, a := range l.known {
		switch {
		case !l.signedBy(cert, a.Certificate):
		case want == "" || want == a.name:
			outlives(e, a.Certificate)
			if e.Name == KubeletServer && a.name == ClusterCA {
				e.RenewedBy = ByKubelet // which requested it, and does so again
			}
			return
		default:
			other = a.name
		}
	}
	l.tellUnsigned(e, want, other)
}

// tellUnsigned says that the authority that is wanted has not signed a certificate, but perhaps another one.
func (l *lister) tellUnsigned(e *Entry, want, other string) {
	switch {
	case l.checks > mostChecks:
	case other != "":
		e.warn(UnknownAuthority, fmt.Sprintf("it is signed by the authority %s, and must be by %s", other, want))
	case want == "" || slices.ContainsFunc(l.known, func(a authority) bool { return a.name == want }):
		e.warn(UnknownAuthority, "no known authority of the cluster has signed it")
	}
}

func outlives(e *Entry, a *x509.Certificate) {
	if end := bounded(a.NotAfter); e.NotAfter.After(end) {
		e.warn(OutlivesAuthority, "its authority ends before it, at "+end.Format(time.RFC3339))
	}
}

// signedBy reports whether a certificate was signed with another one's key. Names are compared first: a verification takes time.
func (l *lister) signedBy(cert, by *x509.Certificate) bool {
	if !bytes.Equal(cert.RawIssuer, by.RawSubject) {
		return false
	}
	if l.checks++; l.checks > mostChecks {
		return false
	}
	err := by.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature)
	var insecure x509.InsecureAlgorithmError // judgeStrength reports it
	return err == nil || errors.As(err, &insecure)
}

func judgeStrength(e *Entry, cert *x509.Certificate) {
	if weak(cert.PublicKey) {
		e.warn(WeakKey, "its key is "+e.KeyKind+": RSA needs 2048 bits or more")
	}
	switch cert.SignatureAlgorithm {
	case x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.DSAWithSHA256, x509.ECDSAWithSHA1:
		e.warn(WeakSignature, "it is signed with "+cert.SignatureAlgorithm.String())
	case x509.UnknownSignatureAlgorithm:
		e.warn(WeakSignature, "it is signed with an algorithm that Quorate does not know")
	}
}

func keyEntry(m Material, key crypto.PublicKey, private bool) Entry {
	e := Entry{Name: m.Name, Where: m.Where, Machine: m.Machine, Location: m.Location, Key: true, Private: private,
		KeyKind: keyKind(key), PublicKey: publicHash(key)}
	e.RenewedBy = renewal(m, e)
	if weak(key) {
		e.warn(WeakKey, "it is "+e.KeyKind+": RSA needs 2048 bits or more")
	}
	return e
}

func weak(key crypto.PublicKey) bool {
	k, is := key.(*rsa.PublicKey)
	return is && k.N.BitLen() < 2048
}

func keyKind(key crypto.PublicKey) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case *ecdsa.PublicKey:
		return fmt.Sprintf("ECDSA %d", k.Curve.Params().BitSize)
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return "unknown"
}

// publicHash is the SHA-256 of a public key, as kubeadm pins authorities; empty: it is of a kind that has no common form.
func publicHash(key crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return ""
	}
	return hash(der)
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// namesOf are the subject alternative names.
func namesOf(cert *x509.Certificate) []string {
	names := slices.Concat(cert.DNSNames, cert.EmailAddresses)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	return names
}

// bounded is a time that JSON can hold. A certificate may name any year from 0 to 9999, and a zone that leads out of them.
func bounded(t time.Time) time.Time {
	t = t.UTC()
	switch {
	case t.Year() < 1:
		return time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC) // the zero time stands for none
	case t.Year() > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return t
}
