package upgrader

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/cluster/staticpod"
	"github.com/quorate/quorate/internal/program/envfile"
)

// found is a node as it was found: where its components are and have their things, as its own manifests and the kubelet's configuration
// have it. kubeadm lets a user choose all of it, so that none of it is a constant.
type found struct {
	// certificates is the folder of kubeadm's certificates.
	certificates string
	// address is the one at which the node's API server is advertised; empty: it has no API server.
	address string
	// etcd is the node's member; zero: it has none.
	etcd staticpod.Member
	// criSocket is the endpoint of the runtime, with its scheme; empty: nothing is known of it.
	criSocket string
}

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
	f := found{certificates: staticpod.Certificates(server, member)}
	if server != nil {
		f.address = staticpod.Flag(server, "advertise-address")
	}
	if member != nil {
		f.etcd = staticpod.MemberOf(member, f.certificates)
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

// flagFiles are the files with the kubelet's flags in packages of Kubernetes, and their variables. The later ones come later on its command
// line, where the last of a flag counts.
var flagFiles = []struct{ file, variable string }{
	{kubeletFlags, flagsVariable},
	{"/etc/default/kubelet", "KUBELET_EXTRA_ARGS"},
	{"/etc/sysconfig/kubelet", "KUBELET_EXTRA_ARGS"},
}

// defaultSocket is the endpoint of a kubelet that is told of none.
const defaultSocket = "/run/containerd/containerd.sock"

// criSocket is the endpoint of the runtime that the kubelet works with: its flag, or else its configuration, which kubeadm made for this
// node, or else its default. Empty: nothing is known of it.
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
