package guest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"go.yaml.in/yaml/v3"
)

// The kubeconfig with which a kubelet asks for its certificate, and what it writes when it has that. The kubeconfig that it has afterwards
// it writes before it asks.
const (
	bootstrapKubeconfig = "/etc/kubernetes/bootstrap-kubelet.conf"
	kubeletCertificate  = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

// contact is how a kubelet comes to its certificate on a machine that joins a control plane. It gets that from the machine's own API
// server, which the kubelet itself starts as a pod. Until that one serves the kubelet asks in vain, each time after twice as long a pause:
// 2, 6, 14 and 30 s after its start.
type contact struct {
	asks, has string // the kubeconfig, and the certificate
	address   string // of the machine
	restart   func() error
}

// await restarts the kubelet once, when the machine's API server is ready and the kubelet has no certificate yet, and reports whether it
// did. Where the kubelet asks somebody else it may have its certificate at any time, and is left alone.
func (c contact) await(ctx context.Context) (bool, error) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	var api *endpoint
	defer func() {
		if api != nil {
			api.client.CloseIdleConnections()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-tick.C:
		}
		if _, err := os.Stat(c.has); err == nil {
			return false, nil
		}
		if api == nil {
			var err error
			if api, err = c.endpoint(); err != nil {
				return false, err
			}
		}
		switch {
		case api == nil:
		case api.host != c.address:
			return false, nil
		case api.ready(ctx):
			return true, c.restart()
		}
	}
}

// endpoint is an API server as a kubeconfig names it.
type endpoint struct {
	server, host string
	client       *http.Client
}

// endpoint reads whom the kubelet asks; nil: that is not written yet.
func (c contact) endpoint() (*endpoint, error) {
	data, err := os.ReadFile(c.asks)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(data) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading whom the kubelet asks: %w", err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server    string `yaml:"server"`
				Authority string `yaml:"certificate-authority-data"`
			} `yaml:"cluster"`
		} `yaml:"clusters"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.asks, err)
	}
	if len(config.Clusters) != 1 {
		return nil, fmt.Errorf("reading %s: it has %d clusters, want 1", c.asks, len(config.Clusters))
	}
	cluster := config.Clusters[0].Cluster
	u, err := url.Parse(cluster.Server)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.asks, err)
	}
	authority, err := base64.StdEncoding.DecodeString(cluster.Authority)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("reading %s: certificate-authority-data is no certificate", c.asks)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	// The server that answers for the API server must not send this elsewhere.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &endpoint{cluster.Server, u.Hostname(), &http.Client{Transport: transport, Timeout: askTimeout, CheckRedirect: stay}}, nil
}

// ready asks the API server whether it is.
func (e *endpoint) ready(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.server+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := e.client.Do(r)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// hastenKubelet sees to it that the kubelet asks for its certificate when it can have it.
func (m *machine) hastenKubelet(ctx context.Context) {
	u, err := m.units.find("kubelet")
	if err != nil || u == nil {
		return
	}
	c := contact{asks: bootstrapKubeconfig, has: kubeletCertificate, address: m.boot.Address, restart: func() error {
		err := u.stop()
		u.start() // also where it did not end: nothing else starts it
		return err
	}}
	did, err := c.await(ctx)
	if err != nil {
		m.say("having the kubelet ask at once: %v", err)
	} else if did {
		m.say("the API server is ready: the kubelet is started again, to ask for its certificate at once")
	}
}
