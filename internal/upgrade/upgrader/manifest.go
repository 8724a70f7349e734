package upgrader

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/quorate/quorate/internal/cluster/staticpod"
)

// The components of a control plane, as their static pods are called. etcd comes last: the others end while it still serves.
const (
	apiServer = "kube-apiserver"
	etcdName  = "etcd"
)

var components = []string{apiServer, "kube-controller-manager", "kube-scheduler", etcdName}

// manifestOf reads the manifest of a component; nil: the node does not have it.
func manifestOf(dir, component string) (*corev1.Pod, error) {
	path := filepath.Join(dir, component+".yaml")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	p, err := staticpod.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return p, nil
}

// serverOf is the address of the node's own API server.
func serverOf(p *corev1.Pod) (string, error) {
	address, port := staticpod.Flag(p, "advertise-address"), staticpod.Flag(p, "secure-port")
	if address == "" || port == "" {
		return "", errors.New("reading the manifest of the API server: --advertise-address or --secure-port is missing")
	}
	return "https://" + net.JoinHostPort(address, port), nil
}

// probe is the URL that reports whether a component serves: that of its readiness probe, or else of its liveness probe. As for the kubelet,
// a probe without a host is for the address of the pod, which is the node's.
func probe(p *corev1.Pod, address string) (string, error) {
	c := p.Spec.Containers[0]
	for _, candidate := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe} {
		if candidate == nil || candidate.HTTPGet == nil {
			continue
		}
		get := candidate.HTTPGet
		port := portOf(c, get.Port)
		if port == 0 {
			return "", fmt.Errorf("reading the manifest of %s: its probe has no port", p.Name)
		}
		return strings.ToLower(string(get.Scheme)) + "://" + net.JoinHostPort(cmp.Or(get.Host, address), strconv.Itoa(port)) + get.Path, nil
	}
	return "", fmt.Errorf("reading the manifest of %s: it has no probe over HTTP", p.Name)
}

// portOf is the number of a container's port, which a probe names by its number or its name; 0: there is no such port.
func portOf(c corev1.Container, port intstr.IntOrString) int {
	for _, named := range c.Ports {
		if port.Type == intstr.String && named.Name == port.StrVal {
			return int(named.ContainerPort)
		}
	}
	return port.IntValue()
}

// probeClient asks as the kubelet's probes do. They do not verify certificates: the controller manager and the scheduler sign their own,
// and nothing is sent to them or believed but the status.
var probeClient = &http.Client{
	Timeout:       2 * time.Second,
	CheckRedirect: stay,
	Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	},
}

// stay follows no redirect: the server that was asked must answer itself.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// answers returns an error unless a probe's URL answers with success.
func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := probeClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: status %d", url, response.StatusCode)
	}
	return nil
}
