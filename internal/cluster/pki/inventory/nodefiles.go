package inventory

import (
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"

	"github.com/quorate/quorate/internal/cluster/pki"
)

// MostNodeFiles is how many bytes the files of one node may have as NodeFiles. Those of a control plane node have some 40 KB.
const MostNodeFiles = 1 << 20

// mostFiles is how many files of one node are told.
const mostFiles = 500

// NodeFiles is what the upgrader on a node reports of its certificates and keys: public parts only.
type NodeFiles struct {
	Files []NodeFile `json:"files"`
}

// NodeFile is one file.
type NodeFile struct {
	Path string `json:"path"`
	// Name is what it is for.
	Name string `json:"name"`
	// Certificates and PublicKeys are in PEM, and PrivateKeys are the public halves of private keys, in the same form.
	Certificates string `json:"certificates,omitempty"`
	PublicKeys   string `json:"publicKeys,omitempty"`
	PrivateKeys  string `json:"privateKeys,omitempty"`
	// Unread says why something of it was not read.
	Unread []string `json:"unread,omitempty"`
}

// NewNodeFile describes the contents of one file.
func NewNodeFile(path, name string, c pki.Contents) NodeFile {
	f := NodeFile{Path: path, Name: name, Unread: c.Unread}
	for _, cert := range c.Certificates {
		f.Certificates += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	var lost bool
	f.PublicKeys, lost = publicPEM(c.Public)
	if lost {
		f.Unread = append(f.Unread, "holds a public key of an unknown kind")
	}
	f.PrivateKeys, lost = publicPEM(c.Private)
	if lost {
		f.Unread = append(f.Unread, "holds a private key of an unknown kind")
	}
	return f
}

// publicPEM writes public keys. lost: one has no common form.
func publicPEM(keys []crypto.PublicKey) (text string, lost bool) {
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			lost = true
			continue
		}
		text += string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	}
	return text, lost
}

// FilesOf reads the report of the upgrader on a machine. An attacker on the machine may have chosen all of it: names that are not
// known become other, and no private key is kept.
func FilesOf(machine string, text []byte, inPlace bool) ([]Material, error) {
	if len(text) > MostNodeFiles {
		return nil, errors.New("the node's report of its files is too long")
	}
	var told NodeFiles
	if json.Unmarshal(text, &told) != nil {
		return nil, errors.New("the node's report of its files cannot be read")
	}
	if len(told.Files) > mostFiles {
		return nil, errors.New("the node's report has too many files")
	}
	var all []Material
	for _, f := range told.Files {
		m := Material{Where: File, Machine: machine, Location: f.Path, Name: f.Name, InPlace: inPlace}
		if !isName(f.Name) {
			m.Name = Other
		}
		m.Unread = f.Unread
		for _, part := range []struct {
			text string
			keep func(pki.Contents)
		}{
			{f.Certificates, func(c pki.Contents) { m.Certificates = c.Certificates }},
			{f.PublicKeys, func(c pki.Contents) { m.Public = c.Public }},
			{f.PrivateKeys, func(c pki.Contents) { m.Private = c.Public }},
		} {
			if part.text == "" {
				continue
			}
			c := pki.Read([]byte(part.text))
			part.keep(c)
			m.Unread = append(m.Unread, c.Unread...)
		}
		all = append(all, m)
	}
	return all, nil
}

// isName reports whether a name is one of the list.
func isName(name string) bool {
	switch name {
	case KubeletClient, KubeletServer, AdminConf, SuperAdminConf, ControllerManagerConf, SchedulerConf, KubeletConf:
		return true
	}
	for _, known := range ofRole {
		if name == known {
			return true
		}
	}
	return false
}
