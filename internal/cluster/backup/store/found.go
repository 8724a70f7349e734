package store

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// found finds credentials as AWS's tools do in a pod: those of the environment, or else those of a workload identity or of the instance's
// role. An error says what is missing: minio-go's own chain goes on without credentials.
type found struct {
	environment credentials.EnvAWS
	identity    credentials.IAM
}

// newFound returns credentials that are found. The services that give them are AWS's, or the host's, and not the store's: neither its
// certificates nor its proxy count for them.
func newFound() *credentials.Credentials {
	dial := net.Dialer{Timeout: headerTimeout}
	return credentials.New(&found{identity: credentials.IAM{Client: &http.Client{
		Timeout: headerTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dial.DialContext, TLSHandshakeTimeout: headerTimeout, ResponseHeaderTimeout: headerTimeout, IdleConnTimeout: time.Second,
			MaxResponseHeaderBytes: untrusted.MostHeader,
		},
	}}})
}

// RetrieveWithCredContext implements credentials.Provider.
func (f *found) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	if value, err := f.environment.RetrieveWithCredContext(c); err == nil && value.AccessKeyID != "" && value.SecretAccessKey != "" {
		return value, nil
	}
	value, err := f.identity.RetrieveWithCredContext(c)
	if err == nil && value.AccessKeyID == "" {
		err = errors.New("the answer is empty")
	}
	if err != nil {
		said := untrusted.Shown(err.Error())
		return credentials.Value{}, fmt.Errorf("finding credentials: AWS_ACCESS_KEY_ID is not set, and no workload identity: %s", said)
	}
	return value, nil
}

// Retrieve implements credentials.Provider.
func (f *found) Retrieve() (credentials.Value, error) { return f.RetrieveWithCredContext(nil) }

// IsExpired implements credentials.Provider. Those of the environment do not expire, and are read again each time.
func (f *found) IsExpired() bool { return f.identity.IsExpired() }
