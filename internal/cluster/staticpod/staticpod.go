// Package staticpod knows what the manifests of a control plane's static pods tell about a node: flags, folders, and where etcd is asked.
// It reads no files: a manifest is handed to it. kubeadm lets a user choose all of this, so that none of it is a constant.
package staticpod

import (
	"cmp"
	"errors"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Parse reads a manifest. One without a container is an error.
func Parse(manifest []byte) (*corev1.Pod, error) {
	var p corev1.Pod
	if err := yaml.Unmarshal(manifest, &p); err != nil {
		return nil, err
	}
	if len(p.Spec.Containers) == 0 {
		return nil, errors.New("it has no container")
	}
	return &p, nil
}

// Flag returns the value of a flag of a manifest's command, of one that is given more than once the last; empty: it is not given.
func Flag(p *corev1.Pod, name string) string {
	last, next := "", false
	for _, argument := range slices.Concat(p.Spec.Containers[0].Command, p.Spec.Containers[0].Args) {
		value, found := strings.CutPrefix(argument, "--"+name+"=")
		switch {
		case found:
			last = value
		case next && !strings.HasPrefix(argument, "-"):
			last = argument
		}
		next = argument == "--"+name
	}
	return last
}

// Member is how the member of etcd of a node is asked, and where its data are.
type Member struct {
	// URL is where it is asked on its own machine; empty: the manifest does not say.
	URL string
	// CA, Cert and Key are the files of the authority that signs its certificate, and of the client that kubeadm makes for health checks.
	CA, Cert, Key string
	// DataDir is the folder of its data.
	DataDir string
}

// defaultCertificates is kubeadm's folder of certificates where no manifest names another one.
const defaultCertificates = "/etc/kubernetes/pki"

// Volumes of kubeadm's manifests whose paths on the node tell where certificates are. Their names do not depend on any configuration.
const (
	certificatesVolume     = "k8s-certs"
	etcdCertificatesVolume = "etcd-certs"
)

// Certificates returns the folder of kubeadm's certificates on the node, as the manifests of the API server and of etcd say. Either may be
// nil.
func Certificates(server, member *corev1.Pod) string {
	if dir := hostPath(server, certificatesVolume); dir != "" {
		return dir
	}
	if dir := hostPath(member, etcdCertificatesVolume); path.Base(dir) == "etcd" {
		return path.Dir(dir)
	}
	return defaultCertificates
}

// hostPath is the path on the node of a pod's volume; empty: it has no such volume, or there is no pod.
func hostPath(p *corev1.Pod, volume string) string {
	if p == nil {
		return ""
	}
	for _, v := range p.Spec.Volumes {
		if v.Name == volume && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return ""
}

// MemberOf returns what the manifest of etcd says of the node's member, given the folder of kubeadm's certificates.
func MemberOf(p *corev1.Pod, certificates string) Member {
	dir := cmp.Or(hostPath(p, etcdCertificatesVolume), path.Join(certificates, "etcd"))
	return Member{
		URL:     cmp.Or(nearest(Flag(p, "listen-client-urls")), nearest(Flag(p, "advertise-client-urls"))),
		CA:      cmp.Or(Flag(p, "trusted-ca-file"), path.Join(dir, "ca.crt")),
		Cert:    path.Join(dir, "healthcheck-client.crt"),
		Key:     path.Join(dir, "healthcheck-client.key"),
		DataDir: Flag(p, "data-dir"),
	}
}

// nearest is the URL by which a program is asked from its own machine, of a list with commas of those on which it listens: the first on a
// loopback address, or else the first. One that stands for all addresses becomes that of its family's loopback. Empty: the list has none.
func nearest(urls string) string {
	first := ""
	for text := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Host == "" {
			continue
		}
		address, err := netip.ParseAddr(u.Hostname())
		switch {
		case err == nil && address.IsUnspecified():
			u.Host = strings.Replace(u.Host, u.Hostname(), loopback(address), 1)
			return u.String()
		case err == nil && address.IsLoopback() || u.Hostname() == "localhost":
			return u.String()
		}
		first = cmp.Or(first, u.String())
	}
	return first
}

// loopback is the loopback address of the family of another one.
func loopback(of netip.Addr) string {
	if of.Is6() {
		return netip.IPv6Loopback().String()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1}).String()
}
