// Package pki knows which certificates and keys a control plane made by kubeadm has, and what is wrong with those
// that somebody gave for it. It reads nothing: what is given is handed to it, with the place where it lies, and what it says
// names places and holds nothing of keys.
package pki

import (
	"crypto/x509"
	"fmt"
	"path"
	"strings"
	"time"
)

// Role is what a certificate and its key are for: their place below kubeadm's folder of certificates, without the ending.
type Role string

// The roles that kubeadm knows.
const (
	ClusterCA              Role = "ca"
	FrontProxyCA           Role = "front-proxy-ca"
	EtcdCA                 Role = "etcd/ca"
	ServiceAccount         Role = "sa"
	APIServer              Role = "apiserver"
	APIServerKubeletClient Role = "apiserver-kubelet-client"
	APIServerEtcdClient    Role = "apiserver-etcd-client"
	FrontProxyClient       Role = "front-proxy-client"
	EtcdServer             Role = "etcd/server"
	EtcdPeer               Role = "etcd/peer"
	EtcdHealthcheckClient  Role = "etcd/healthcheck-client"
)

// purpose is what a certificate that is no authority's needs: who signs it, for which uses, and under which names it is served.
type purpose struct {
	signer Role
	usages []x509.ExtKeyUsage
	names  []string
}

// local are the names under which a machine's own components reach its etcd.
var local = []string{"localhost", "127.0.0.1", "::1"}

// signed are the roles of certificates that an authority signs.
var signed = map[Role]purpose{
	APIServer:              {signer: ClusterCA, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
	APIServerKubeletClient: {signer: ClusterCA, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	APIServerEtcdClient:    {signer: EtcdCA, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	FrontProxyClient:       {signer: FrontProxyCA, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	EtcdServer:             {signer: EtcdCA, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, names: local},
	EtcdPeer:               {signer: EtcdCA, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, names: local},
	EtcdHealthcheckClient:  {signer: EtcdCA, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
}

// authorities are the roles that sign.
var authorities = map[Role]bool{ClusterCA: true, FrontProxyCA: true, EtcdCA: true}

// RoleOf returns whose file lies at a path below kubeadm's folder of certificates, and whether it is the key; false: of no purpose.
func RoleOf(folder, file string) (role Role, key, known bool) {
	rest, below := strings.CutPrefix(path.Clean(file), path.Clean(folder)+"/")
	ending := path.Ext(rest)
	role = Role(strings.TrimSuffix(rest, ending))
	_, isSigned := signed[role]
	switch {
	case !below, !isSigned && !authorities[role] && role != ServiceAccount:
		return "", false, false
	case role == ServiceAccount:
		return role, ending == ".key", ending == ".key" || ending == ".pub"
	}
	return role, ending == ".key", ending == ".key" || ending == ".crt"
}

// Datum is something in PEM, and where it lies.
type Datum struct {
	// Where is a secret and its key, or a file.
	Where string
	// PEM is the content; empty: there is none.
	PEM []byte
	// Unreadable says why there is none although something refers to it; empty: nothing does, or it is there.
	Unreadable string
}

// given reports whether somebody gave it.
func (d Datum) given() bool { return len(d.PEM) > 0 || d.Unreadable != "" }

// Pair is a certificate, or a public key for service accounts, and its private key.
type Pair struct {
	Role      Role
	Cert, Key Datum
	// File: the user copies it to the machines. Other pairs lie in secrets; where there is none, one is made of the file's.
	File bool
}

// Given is everything that was given for a control plane. Of each role there is at most one pair from a secret and one from files.
type Given struct {
	Pairs []Pair
	// ExternalEtcd: etcd runs elsewhere. Its authority only verifies, so that it needs no key, and may be several.
	ExternalEtcd bool
	// Names are those under which the API server is reached, and which its certificate must have.
	Names []string
	Now   time.Time
}

// Finding is something that is wrong.
type Finding struct {
	// Where is the place of it: a secret and its key, or a file.
	Where string
	// Wrong is what is wrong with it, and Accepted what would be right.
	Wrong, Accepted string
}

// String says all in one sentence.
func (f Finding) String() string {
	return fmt.Sprintf("%s %s (must be %s)", f.Where, f.Wrong, f.Accepted)
}
