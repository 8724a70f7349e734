package runtimeclient

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// errNotReady is what callers get before the extensions are known: to act as if there were none could skip a hook.
var errNotReady = errors.New("the Runtime Extensions are not known yet")

// extension is a registered ExtensionConfig.
type extension struct {
	name, resourceVersion string
	config                runtimev1.ClientConfig
	settings              map[string]string
	namespaces            labels.Selector
	http                  *http.Client
	handlers              []handler
}

// handler is one of an extension's handlers.
type handler struct {
	// name is the one that callers use: the handler's and the extension's, with a dot between.
	name    string
	hook    runtimecatalog.GroupVersionHook
	timeout time.Duration
	// ignore: an extension that cannot be reached counts as one that agreed.
	ignore bool
}

// newExtension reads an ExtensionConfig as its discovery left it.
func newExtension(config *runtimev1.ExtensionConfig) (*extension, error) {
	selector := labels.Everything()
	if config.Spec.NamespaceSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(config.Spec.NamespaceSelector); err != nil {
			return nil, fmt.Errorf("reading the namespaceSelector: %w", err)
		}
	}
	e := &extension{
		name: config.Name, resourceVersion: config.ResourceVersion, config: *config.Spec.ClientConfig.DeepCopy(),
		settings: config.DeepCopy().Spec.Settings, namespaces: selector,
	}
	for _, h := range config.Status.Handlers {
		gv, err := schema.ParseGroupVersion(h.RequestHook.APIVersion)
		if err != nil {
			return nil, fmt.Errorf("reading the hook of handler %s: %w", h.Name, err)
		}
		seconds := cmp.Or(h.TimeoutSeconds, runtimehooksv1.DefaultHandlersTimeoutSeconds)
		e.handlers = append(e.handlers, handler{
			name: h.Name, hook: runtimecatalog.GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: h.RequestHook.Hook},
			timeout: time.Duration(seconds) * time.Second, ignore: h.FailurePolicy == runtimev1.FailurePolicyIgnore,
		})
	}
	return e, nil
}

// WarmUp registers the extensions that there are when the controllers start. From then on the client is ready.
func (c *Client) WarmUp(list *runtimev1.ExtensionConfigList) error {
	var errs []error
	for i := range list.Items {
		errs = append(errs, c.Register(&list.Items[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	return nil
}

// IsReady reports whether WarmUp has succeeded.
func (c *Client) IsReady() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.ready
}

// Register makes an extension known as its status says, or replaces what was known of it.
func (c *Client) Register(config *runtimev1.ExtensionConfig) error {
	e, err := newExtension(config)
	if err != nil {
		return fmt.Errorf("registering ExtensionConfig %s: %w", config.Name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.extensions[e.name]
	if old != nil && reflect.DeepEqual(old.config, e.config) {
		e.http = old.http
	} else if e.http, err = newHTTPClient(e.config); err != nil {
		return fmt.Errorf("registering ExtensionConfig %s: %w", config.Name, err)
	}
	if old != nil && old.http != e.http {
		old.http.CloseIdleConnections()
	}
	c.extensions[e.name] = e
	return nil
}

// Unregister forgets an extension. That it was not known is no error.
func (c *Client) Unregister(config *runtimev1.ExtensionConfig) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.extensions[config.Name]; old != nil {
		old.http.CloseIdleConnections()
	}
	delete(c.extensions, config.Name)
	return nil
}

// target is a handler and whose it is.
type target struct {
	*extension
	handler
}

// of returns the handlers of a hook, sorted by their names.
func (c *Client) of(hook runtimecatalog.GroupVersionHook) ([]target, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.ready {
		return nil, errNotReady
	}
	var found []target
	for _, e := range c.extensions {
		for _, h := range e.handlers {
			if h.hook == hook {
				found = append(found, target{e, h})
			}
		}
	}
	slices.SortFunc(found, func(a, b target) int { return strings.Compare(a.handler.name, b.handler.name) })
	return found, nil
}

// named returns the handler with a name.
func (c *Client) named(hook runtimecatalog.GroupVersionHook, name string) (target, error) {
	all, err := c.of(hook)
	if err != nil {
		return target{}, err
	}
	at := slices.IndexFunc(all, func(t target) bool { return t.handler.name == name })
	if at < 0 {
		return target{}, fmt.Errorf("no registered extension has it for the hook %s", hook)
	}
	return all[at], nil
}
