// Package inventory lists the certificates and keys of a control plane: whose each is, until when it is valid, who signed
// it, what is wrong with it and what renews it. Texts in PEM are handed to it, with the place where each lies. It holds and returns
// public parts only, and has no client and no clock.
package inventory

import (
	"cmp"
	"slices"
	"time"
)

// Place is the kind of place where a certificate or key was seen.
type Place string

// The places.
const (
	// Secret is a secret of the management cluster.
	Secret Place = "Secret"
	// Handshake is what a server showed.
	Handshake Place = "Handshake"
	// File is a file of a node.
	File Place = "File"
)

// Renewal is what renews a certificate before it ends.
type Renewal string

// What renews certificates.
const (
	// ByKubelet: the kubelet renews it by itself.
	ByKubelet Renewal = "Kubelet"
	// ByUpdate: an upgrade of the machine in place renews it, and so does a replacement of the machine.
	ByUpdate Renewal = "UpdateInPlace"
	// ByReplacement: a new machine has a new one.
	ByReplacement Renewal = "Replacement"
	// ByManager: Quorate's manager renews it.
	ByManager Renewal = "Manager"
	// ByNobody: a person must renew it.
	ByNobody Renewal = "Nobody"
)

// Warning is what is wrong with an entry.
type Warning struct {
	// Reason is one CamelCase word, Message the same for people.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The reasons of warnings.
const (
	Expired           = "Expired"
	EndsSoon          = "EndsSoon"
	NotYetValid       = "NotYetValid"
	NeverValid        = "NeverValid"
	OutlivesAuthority = "OutlivesAuthority"
	UnknownAuthority  = "UnknownAuthority"
	WeakKey           = "WeakKey"
	WeakSignature     = "WeakSignature"
	PrivateKeyBeside  = "PrivateKeyBeside"
	Duplicate         = "Duplicate"
)

// Soon is how long before its end a certificate has a warning.
const Soon = 30 * 24 * time.Hour

// Entry is one certificate or key, at one place.
type Entry struct {
	// Name is what it is for, one of a fixed list: apiserver, etcd-peer.
	Name  string `json:"name"`
	Where Place  `json:"where"`
	// Machine is the name of the Machine whose file or server it is; empty: it is in a secret.
	Machine string `json:"machine,omitempty"`
	// Location is the secret and its key, the port of a server, or the path of a file.
	Location string `json:"location"`
	// Key reports whether it is a key and no certificate. Private: the private one is there.
	Key     bool `json:"key,omitempty"`
	Private bool `json:"private,omitempty"`
	// Authority reports whether it is a certificate with which others are signed.
	Authority bool     `json:"authority,omitempty"`
	Subject   string   `json:"subject,omitempty"`
	Issuer    string   `json:"issuer,omitempty"`
	Names     []string `json:"names,omitempty"`
	// NotBefore and NotAfter are zero for keys.
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// KeyKind is the kind of its key and the size in bits: RSA 2048.
	KeyKind string `json:"keyKind"`
	// Fingerprint is the SHA-256 of a certificate, PublicKey that of its public key, both in hex.
	Fingerprint string    `json:"fingerprint,omitempty"`
	PublicKey   string    `json:"publicKey"`
	RenewedBy   Renewal   `json:"renewedBy"`
	Warnings    []Warning `json:"warnings,omitempty"`
}

func (e *Entry) warn(reason, message string) {
	e.Warnings = append(e.Warnings, Warning{reason, message})
}

// Unseen is a place that could not be looked at, or a part of it.
type Unseen struct {
	Where    Place  `json:"where"`
	Machine  string `json:"machine,omitempty"`
	Location string `json:"location,omitempty"`
	Why      string `json:"why"`
}

// Inventory is all certificates and keys that were seen, the first to end first, then keys, and what could not be looked at.
type Inventory struct {
	Entries []Entry  `json:"certificates"`
	Unseen  []Unseen `json:"notLookedAt"`
}

// order sorts an inventory: by end, then by place. Entries without an end are last.
func (i *Inventory) order() {
	slices.SortStableFunc(i.Entries, func(a, b Entry) int {
		if a.NotAfter.IsZero() != b.NotAfter.IsZero() {
			if a.NotAfter.IsZero() {
				return 1
			}
			return -1
		}
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Machine, b.Machine),
			cmp.Compare(a.Location, b.Location), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	slices.SortStableFunc(i.Unseen, func(a, b Unseen) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Location, b.Location))
	})
}

// Certificates returns how many entries are certificates.
func (i Inventory) Certificates() int {
	n := 0
	for _, e := range i.Entries {
		if !e.Key {
			n++
		}
	}
	return n
}
