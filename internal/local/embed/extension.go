package embed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/manager/host"
)

// extensionName is the name of the ExtensionConfig of Quorate's own Runtime Extension.
const extensionName = "quorate"

// extensionOptions say where the Runtime Extension is served, if it is.
func extensionOptions(e Environment, plane *plane) host.ExtensionOptions {
	if !e.RuntimeExtensions {
		return host.ExtensionOptions{}
	}
	return host.ExtensionOptions{
		Host: loopback.String(), Port: int(e.Ports.Extension), CertDir: plane.pki(), CertName: "extension.crt", KeyName: "extension.key",
	}
}

// registerExtension tells Cluster API where Quorate's Runtime Extension is, if it is served. Webhooks must be served: they are asked about
// it.
func (d *daemon) registerExtension(ctx context.Context, e Environment, last *error) error {
	if !e.RuntimeExtensions {
		return nil
	}
	return until(ctx, last, "the Runtime Extension to be registered", func(ctx context.Context) (bool, error) {
		*last = d.tryRegister(ctx, e)
		return *last == nil, nil
	})
}

// tryRegister writes the ExtensionConfig of this plane.
func (d *daemon) tryRegister(ctx context.Context, e Environment) error {
	c, err := d.adminClient()
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(filepath.Join(d.state, "management", "pki", clusterAuthority+".crt"))
	if err != nil {
		return fmt.Errorf("reading the authority: %w", err)
	}
	return putExtension(ctx, c, runtimev1.ClientConfig{URL: loopbackURL(e.Ports.Extension), CABundle: authority})
}

// putExtension creates the ExtensionConfig, or corrects where it says that the extension is. All else of an existing one is the user's. It
// updates nothing in place by itself: the policy is Never for machines that say nothing.
func putExtension(ctx context.Context, c client.Client, server runtimev1.ClientConfig) error {
	config := &runtimev1.ExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: extensionName},
		Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig: server, Settings: host.DefaultExtensionSettings(),
		},
	}
	err := c.Create(ctx, config)
	if apierrors.IsAlreadyExists(err) {
		if err = c.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
			return fmt.Errorf("reading ExtensionConfig %s: %w", extensionName, err)
		}
		if config.Spec.ClientConfig.URL == server.URL && bytes.Equal(config.Spec.ClientConfig.CABundle, server.CABundle) {
			return nil
		}
		before := config.DeepCopy()
		config.Spec.ClientConfig = server
		err = c.Patch(ctx, config, client.MergeFrom(before))
	}
	if err != nil {
		return fmt.Errorf("registering the Runtime Extension as ExtensionConfig %s: %w", extensionName, err)
	}
	return nil
}
