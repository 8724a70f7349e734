package runtimeclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// discoveryTimeout is how long an extension may take to say what it serves, and longestTimeout how long a handler may ask for.
const (
	discoveryTimeout = 10 * time.Second
	longestTimeout   = 30
)

// Discover asks an extension what it serves, and returns the ExtensionConfig with that in its status.
func (c *Client) Discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*runtimev1.ExtensionConfig, error) {
	response, err := c.discover(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("discovering what ExtensionConfig %s serves: %w", config.Name, err)
	}
	discovered := config.DeepCopy()
	discovered.Status.Handlers = []runtimev1.ExtensionHandler{}
	for _, h := range response.Handlers {
		discovered.Status.Handlers = append(discovered.Status.Handlers, runtimev1.ExtensionHandler{
			Name:           h.Name + "." + config.Name,
			RequestHook:    runtimev1.GroupVersionHook{APIVersion: h.RequestHook.APIVersion, Hook: h.RequestHook.Hook},
			TimeoutSeconds: ptr.Deref(h.TimeoutSeconds, runtimehooksv1.DefaultHandlersTimeoutSeconds),
			FailurePolicy:  runtimev1.FailurePolicy(ptr.Deref(h.FailurePolicy, runtimehooksv1.FailurePolicyFail)),
		})
	}
	return discovered, nil
}

// discover calls an extension's discovery and checks what it says.
func (c *Client) discover(ctx context.Context, config *runtimev1.ExtensionConfig) (*runtimehooksv1.DiscoveryResponse, error) {
	hook, err := c.catalog.GroupVersionHook(runtimehooksv1.Discovery)
	if err != nil {
		return nil, err
	}
	e := &extension{name: config.Name, config: config.Spec.ClientConfig}
	if e.http, err = newHTTPClient(e.config); err != nil {
		return nil, err
	}
	defer e.http.CloseIdleConnections()
	response := &runtimehooksv1.DiscoveryResponse{}
	if err := c.call(ctx, target{e, handler{hook: hook, timeout: discoveryTimeout}}, &runtimehooksv1.DiscoveryRequest{},
		response); err != nil {
		return nil, err
	}
	if response.Status != runtimehooksv1.ResponseStatusSuccess {
		return nil, refusal(response.Status, response.Message)
	}
	return response, c.check(response.Handlers)
}

// check says which handlers cannot be called.
func (c *Client) check(handlers []runtimehooksv1.ExtensionHandler) error {
	var errs []error
	seen := map[string]bool{}
	for _, h := range handlers {
		for _, reason := range validation.IsDNS1123Label(h.Name) {
			errs = append(errs, fmt.Errorf("the name of handler %q: %s", h.Name, reason))
		}
		if seen[h.Name] {
			errs = append(errs, fmt.Errorf("there are two handlers of the name %s", h.Name))
		}
		seen[h.Name] = true
		if t := ptr.Deref(h.TimeoutSeconds, 0); t < 0 || t > longestTimeout {
			errs = append(errs, fmt.Errorf("handler %s: timeoutSeconds is %d, and must be from 0 to %d", h.Name, t, longestTimeout))
		}
		switch p := ptr.Deref(h.FailurePolicy, runtimehooksv1.FailurePolicyFail); p {
		case runtimehooksv1.FailurePolicyFail, runtimehooksv1.FailurePolicyIgnore:
		default:
			errs = append(errs, fmt.Errorf("handler %s: failurePolicy is %q, and must be Fail or Ignore", h.Name, p))
		}
		gv, err := schema.ParseGroupVersion(h.RequestHook.APIVersion)
		if err != nil || !c.catalog.IsHookRegistered(runtimecatalog.GroupVersionHook{Group: gv.Group, Version: gv.Version,
			Hook: h.RequestHook.Hook}) {
			errs = append(errs, fmt.Errorf("handler %s: there is no hook %s", h.Name,
				strings.TrimPrefix(h.RequestHook.APIVersion+"/"+h.RequestHook.Hook, "/")))
		}
	}
	return errors.Join(errs...)
}
