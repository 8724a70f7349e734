package upgrader

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// apiTimeout is how long one request may take.
const apiTimeout = 10 * time.Second

// api is a connection to an API server, with the credentials of a kubeconfig that kubeadm wrote on the node.
type api struct {
	server string
	client *http.Client
}

// kubeconfig is what is used of a kubeconfig: the first cluster and the first user, as kubeadm writes them. Commands and
// proxies that it may name are not obeyed.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CAData string `json:"certificate-authority-data"`
			CAFile string `json:"certificate-authority"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			CertData string `json:"client-certificate-data"`
			CertFile string `json:"client-certificate"`
			KeyData  string `json:"client-key-data"`
			KeyFile  string `json:"client-key"`
		} `json:"user"`
	} `json:"users"`
}

// openAPI opens the server that the kubeconfig names, or another server of the same cluster.
func openAPI(path, server string) (*api, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("opening the API: %w", err)
	}
	var c kubeconfig
	if err := yaml.Unmarshal(data, &c); err != nil || len(c.Clusters) == 0 || len(c.Users) == 0 {
		return nil, fmt.Errorf("opening the API: %s names no cluster or no user", path)
	}
	cluster, user := c.Clusters[0].Cluster, c.Users[0].User
	ca, errCA := material(cluster.CAData, cluster.CAFile)
	cert, errCert := material(user.CertData, user.CertFile)
	key, errKey := material(user.KeyData, user.KeyFile)
	if err := errors.Join(errCA, errCert, errKey); err != nil {
		return nil, fmt.Errorf("opening the API with %s: %w", path, err)
	}
	settings, err := tlsSettings(ca, cert, key)
	if err != nil {
		return nil, fmt.Errorf("opening the API with %s: %w", path, err)
	}
	if server == "" {
		server = cluster.Server
	}
	// Each request has a connection of its own: one to a server that was ended would be waited for.
	transport := &http.Transport{TLSClientConfig: settings, DisableKeepAlives: true}
	return &api{server: server, client: &http.Client{Transport: transport, Timeout: apiTimeout, CheckRedirect: stay}}, nil
}

// material is what a kubeconfig holds itself, or in a file.
func material(data, file string) ([]byte, error) {
	if data != "" {
		return base64.StdEncoding.DecodeString(data)
	}
	return os.ReadFile(file)
}

func tlsSettings(ca, cert, key []byte) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the authority is no certificate")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// statusError is an answer that is no success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, tail(e.text)) }

// hasStatus reports whether an error is an answer with a status code.
func hasStatus(err error, code int) bool {
	answer, ok := errors.AsType[*statusError](err)
	return ok && answer.code == code
}

// get reads a path; into may be nil, and is given JSON otherwise.
func (a *api) get(ctx context.Context, path string, into any) error {
	return a.send(ctx, http.MethodGet, path, nil, into)
}

// send sends body as JSON, if there is one, and reads the answer into into, if that is not nil.
func (a *api) send(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("sending to %s: %w", path, err)
		}
		content = bytes.NewReader(data)
	}
	data, err := a.request(ctx, method, path, content)
	if err == nil && into != nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("asking the API for %s: %w", path, err)
	}
	return nil
}

// request returns the content of an answer. One that is no success is a statusError.
func (a *api) request(ctx context.Context, method, path string, content io.Reader) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.server+path, content)
	if err != nil {
		return nil, err
	}
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Accept", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err == nil && response.StatusCode/100 != 2 {
		err = &statusError{response.StatusCode, string(data)}
	}
	return data, err
}

// retryInterval is how often something is asked that is awaited.
const retryInterval = 250 * time.Millisecond

// eventually calls try until it succeeds or ends with a finalError, or the time is over; then it returns the last error.
func eventually(ctx context.Context, timeout time.Duration, try func(context.Context) error) error {
	return until(ctx, timeout, retryInterval, try)
}

func until(ctx context.Context, timeout, interval time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	again := time.NewTicker(interval)
	defer again.Stop()
	var last error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if _, final := errors.AsType[*finalError](err); final {
			return err
		}
		// What the end of the time made of a request says nothing of the cause.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (waited for %s)", last, timeout)
		case <-again.C:
		}
	}
}

// patienceWithAPI is how long what must work for a step is awaited: API servers may be away for a moment.
const patienceWithAPI = 60 * time.Second
