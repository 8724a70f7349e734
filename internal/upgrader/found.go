package upgrader

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/envfile"
)

// found is a node as it was found: where its components are and have their things, as its own manifests and the kubelet's configuration have it. kubeadm lets a
// user choose all of it, so that none of it is a constant.
type found struct {
	// certificates is the folder of kubeadm's certificates.
	certificates string
	// address is the one at which the node's API server is advertised; empty: it has no API server.
	address string
	// etcd is the node's member; zero: it has none.
	etcd etcdFound
	// criSocket is the endpoint of the runtime, with its scheme; empty: nothing is known of it.
	criSocket string
}

// etcdFound is how the node's member of etcd is asked, and where its data are.
type etcdFound struct {
	url, ca, cert, key string
	dataDir            string
}

// defaultCertificates is kubeadm's folder of certificates where a manifest does not name another one.
const defaultCertificates = kubernetesDir + "/pki"

// Volumes of kubeadm's manifests whose paths on the node tell where certificates are. Their names do not depend on any configuration.
const (
	certificatesVolume     = "k8s-certs"
	etcdCertificatesVolume = "etcd-certs"
)

// look returns the node as it is now.
func (l layout) look() (found, error) {
	server, err := l.manifest(apiServer)
	if err != nil {
		return found{}, err
	}
	member, err := l.manifest(etcdName)
	if err != nil {
		return found{}, err
	}
	f := found{certificates: certificatesOf(server, member)}
	if server != nil {
		f.address = flagOf(server, "advertise-address")
	}
	if member != nil {
		f.etcd = etcdOf(member, f.certificates)
	}
	f.criSocket, err = l.criSocket()
	return f, err
}

// onNode is a path of the node.
func (l layout) onNode(path string) string { return filepath.Join(cmp.Or(l.root, "/"), path) }

// manifest reads the manifest of a component of the node; nil: the node does not have it.
func (l layout) manifest(component string) (*corev1.Pod, error) {
	return manifestOf(l.onNode(manifestDir), component)
}

// certificatesOf is the folder of kubeadm's certificates, as the manifests of the API server and of etcd say. Either may be nil.
func certificatesOf(server, member *corev1.Pod) string {
	if dir := hostPath(server, certificatesVolume); dir != "" {
		return dir
	}
	if dir := hostPath(member, etcdCertificatesVolume); filepath.Base(dir) == etcdName {
		return filepath.Dir(dir)
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

// etcdOf is what the manifest of etcd says of the node's member.
func etcdOf(p *corev1.Pod, certificates string) etcdFound {
	dir := cmp.Or(hostPath(p, etcdCertificatesVolume), filepath.Join(certificates, "etcd"))
	return etcdFound{
		url:     cmp.Or(nearest(flagOf(p, "listen-client-urls")), nearest(flagOf(p, "advertise-client-urls"))),
		ca:      cmp.Or(flagOf(p, "trusted-ca-file"), filepath.Join(dir, "ca.crt")),
		cert:    filepath.Join(dir, "healthcheck-client.crt"),
		key:     filepath.Join(dir, "healthcheck-client.key"),
		dataDir: flagOf(p, "data-dir"),
	}
}

// nearest is the URL by which a program is asked from its own machine, of a list with commas of those on which it listens: the first on a loopback address, or else the first. One that
// stands for all addresses becomes that of its family's loopback. Empty: the list has none.
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

// flagFiles are the files with the kubelet's flags in packages of Kubernetes, and their variables. The later ones come later on its command line, where the last of a flag counts.
var flagFiles = []struct{ file, variable string }{
	{kubeletFlags, flagsVariable},
	{"/etc/default/kubelet", "KUBELET_EXTRA_ARGS"},
	{"/etc/sysconfig/kubelet", "KUBELET_EXTRA_ARGS"},
}

// defaultSocket is the endpoint of a kubelet that is told of none.
const defaultSocket = "/run/containerd/containerd.sock"

// criSocket is the endpoint of the runtime that the kubelet works with: its flag, or else its configuration, which kubeadm made for this node, or else its default. Empty:
// nothing is known of it.
func (l layout) criSocket() (string, error) {
	socket := ""
	for _, source := range flagFiles {
		flags, err := optional(l.onNode(source.file))
		if err != nil {
			return "", err
		}
		value, _ := envfile.Get(flags, source.variable)
		for _, f := range flagsIn(value) {
			if f.name() == "container-runtime-endpoint" {
				socket = f.value()
			}
		}
	}
	for _, file := range []string{kubeletConfig, kubeletPatched} {
		if socket != "" {
			break
		}
		text, err := optional(l.onNode(file))
		if err != nil {
			return "", err
		}
		var config struct {
			Endpoint string `json:"containerRuntimeEndpoint"`
		}
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			return "", fmt.Errorf("reading %s: %w", file, err)
		}
		socket = config.Endpoint
	}
	if _, err := os.Stat(l.onNode(defaultSocket)); socket == "" && err == nil {
		socket = defaultSocket
	}
	return endpoint(socket), nil
}

// endpoint is an endpoint with its scheme, which older versions of kubeadm left out.
func endpoint(text string) string {
	if strings.HasPrefix(text, "/") {
		return "unix://" + text
	}
	return text
}

// optional is what a file holds. One that is not there holds nothing.
func optional(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	return string(data), nil
}

// ctr is the command line that asks the runtime of the node. containerd serves its own API on the socket on which it serves the kubelet.
func (l layout) ctr(args ...string) ([]string, error) {
	program, err := l.program("ctr")
	if err != nil {
		return nil, err
	}
	socket, err := l.criSocket()
	if err != nil {
		return nil, err
	}
	argv := []string{program}
	if path, local := strings.CutPrefix(socket, "unix://"); local {
		argv = append(argv, "--address", path)
	}
	return append(argv, args...), nil
}
