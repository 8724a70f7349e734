package extension

import (
	"crypto/tls"
	"fmt"

	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// Options say where the extension is served.
type Options struct {
	// Host is the address to listen on; empty: all.
	Host string
	// Port to listen on; 0: the extension is not served.
	Port int
	// CertDir is the folder with the certificate CertName and its key KeyName. They are read again when they change.
	CertDir, CertName, KeyName string
	// TLS changes the settings of TLS, such as the oldest version.
	TLS []func(*tls.Config)
}

// handlerTimeout is how many seconds a caller waits for an answer. Answers take milliseconds; a management cluster may be slow.
const handlerTimeout int32 = 10

// Extension answers the hooks. It may be asked many things at once.
type Extension struct {
	// Client reads from the cache and writes.
	Client client.Client
	// APIReader reads what must not be out of date: what a node is to become.
	APIReader client.Reader
	// Upgraders finds the images that upgrade nodes. Nil: nothing is looked up.
	Upgraders *upgraders.Images
}

// SetupWithManager serves the extension with the manager's start, on all of its replicas.
func (e *Extension) SetupWithManager(mgr ctrl.Manager, o Options) error {
	s, err := e.server(o)
	if err != nil {
		return err
	}
	if err := mgr.Add(s); err != nil {
		return fmt.Errorf("adding the server of the Runtime Extension: %w", err)
	}
	return nil
}

// server returns the server with all handlers. Their names are part of the registration: changing one makes another handler.
func (e *Extension) server(o Options) (*server.Server, error) {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return nil, fmt.Errorf("listing the hooks of Cluster API: %w", err)
	}
	s, err := server.New(server.Options{
		Catalog: catalog, Host: o.Host, Port: o.Port, CertDir: o.CertDir, CertName: o.CertName, KeyName: o.KeyName, TLSOpts: o.TLS,
	})
	if err != nil {
		return nil, fmt.Errorf("making the server of the Runtime Extension: %w", err)
	}
	timeout := handlerTimeout
	for _, h := range []server.ExtensionHandler{
		{Name: "can-update-machine", Hook: runtimehooksv1.CanUpdateMachine, HandlerFunc: e.CanUpdateMachine},
		{Name: "can-update-machine-set", Hook: runtimehooksv1.CanUpdateMachineSet, HandlerFunc: e.CanUpdateMachineSet},
		{Name: "update-machine", Hook: runtimehooksv1.UpdateMachine, HandlerFunc: e.UpdateMachine},
	} {
		h.TimeoutSeconds = &timeout
		if err := s.AddExtensionHandler(h); err != nil {
			return nil, fmt.Errorf("adding the handler %s: %w", h.Name, err)
		}
	}
	return s, nil
}
