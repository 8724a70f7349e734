package runtimeclient

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	upstream "sigs.k8s.io/cluster-api/exp/runtime/client"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// largestQuote is how many bytes of what an extension says are quoted at most.
const largestQuote = 200

// Client is Cluster API's client of Runtime Extensions. It may be used by many at once.
type Client struct {
	reader  client.Reader
	catalog *runtimecatalog.Catalog

	mu         sync.RWMutex
	ready      bool
	extensions map[string]*extension // by the name of the ExtensionConfig
}

var _ upstream.Client = (*Client)(nil)

// New returns a client that knows no extensions yet. It reads the labels of namespaces from the reader.
func New(reader client.Reader) (*Client, error) {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return nil, fmt.Errorf("listing the hooks of Cluster API: %w", err)
	}
	return &Client{reader: reader, catalog: catalog, extensions: map[string]*extension{}}, nil
}

// GetAllExtensions returns the names of the handlers that serve a hook for an object, sorted.
func (c *Client) GetAllExtensions(ctx context.Context, hook runtimecatalog.Hook, forObject client.Object) ([]string, error) {
	gvh, err := c.catalog.GroupVersionHook(hook)
	if err != nil {
		return nil, fmt.Errorf("looking up the hook %s: %w", runtimecatalog.HookName(hook), err)
	}
	all, err := c.of(gvh)
	if err != nil {
		return nil, fmt.Errorf("listing the handlers of the hook %s: %w", gvh.Hook, err)
	}
	var names []string
	for _, t := range all {
		serves, err := c.serves(ctx, t, forObject)
		if err != nil {
			return nil, err
		}
		if serves {
			names = append(names, t.handler.name)
		}
	}
	return names, nil
}

// serves reports whether an extension is meant for the namespace of an object.
func (c *Client) serves(ctx context.Context, t target, forObject client.Object) (bool, error) {
	if t.namespaces.Empty() {
		return true, nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.reader.Get(ctx, client.ObjectKey{Name: forObject.GetNamespace()}, namespace); err != nil {
		return false, fmt.Errorf("reading the labels of namespace %s for ExtensionConfig %s: %w", forObject.GetNamespace(), t.extension.name, err)
	}
	return t.namespaces.Matches(labels.Set(namespace.Labels)), nil
}

// CallAllExtensions calls all handlers that serve a hook for an object, one after the other, until one fails. The response says how soon
// the first of them wants to be asked again, and what all of them say.
func (c *Client) CallAllExtensions(
	ctx context.Context, hook runtimecatalog.Hook, forObject client.Object, request runtimehooksv1.RequestObject,
	response runtimehooksv1.ResponseObject,
) error {
	names, err := c.GetAllExtensions(ctx, hook, forObject)
	if err != nil {
		return err
	}
	var messages []string
	var soonest int32
	for _, name := range names {
		one, ok := reflect.New(reflect.TypeOf(response).Elem()).Interface().(runtimehooksv1.ResponseObject)
		if !ok {
			return fmt.Errorf("calling extension handler %s: %T is no response", name, response)
		}
		if err := c.CallExtension(ctx, hook, forObject, name, request, one); err != nil {
			return err
		}
		if one.GetMessage() != "" {
			messages = append(messages, plaintext.Quote(one.GetMessage(), largestQuote))
		}
		if after := retryAfter(one); after > 0 && (soonest == 0 || after < soonest) {
			soonest = after
		}
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.SetMessage(strings.Join(messages, ", "))
	if r, ok := response.(runtimehooksv1.RetryResponseObject); ok {
		r.SetRetryAfterSeconds(soonest)
	}
	return nil
}

// retryAfter is after how many seconds a handler wants to be asked again; 0: it is done, or cannot say so.
func retryAfter(response runtimehooksv1.ResponseObject) int32 {
	if r, ok := response.(runtimehooksv1.RetryResponseObject); ok {
		return r.GetRetryAfterSeconds()
	}
	return 0
}

// refusal is an answer that is no success, as an error.
func refusal(status runtimehooksv1.ResponseStatus, message string) error {
	return fmt.Errorf("it answered %q: %s", plaintext.Quote(string(status), largestQuote), plaintext.Quote(message, largestQuote))
}

// CallExtension calls one handler and fills in its response. A response that is no success is an error. Where the extension cannot be
// reached, or its answer cannot be read, and its failurePolicy is Ignore, the response is an empty success.
func (c *Client) CallExtension(
	ctx context.Context, hook runtimecatalog.Hook, forObject client.Object, name string, request runtimehooksv1.RequestObject,
	response runtimehooksv1.ResponseObject, opts ...upstream.CallExtensionOption,
) error {
	options := &upstream.CallExtensionOptions{}
	for _, o := range opts {
		o.ApplyToOptions(options)
	}
	t, err := c.prepare(ctx, hook, forObject, name, request, response)
	if err != nil {
		return fmt.Errorf("calling extension handler %s: %w", name, err)
	}
	request = withSettings(request, t.settings)
	var key string
	if options.WithCaching {
		key = options.CacheKeyFunc(t.handler.name, t.resourceVersion, request)
		if entry, known := options.Cache.Has(key); known {
			return fill(response, entry.Response)
		}
	}
	if err := c.call(ctx, t, request, response); err != nil {
		if !t.ignore || !isUnreachable(err) {
			return fmt.Errorf("calling extension handler %s: %w", name, err)
		}
		ctrl.LoggerFrom(ctx).Info("Runtime Extension did not answer, and is ignored as its failurePolicy says", "handler", name, "error",
			err.Error())
		response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
		response.SetMessage("")
		return nil
	}
	if response.GetStatus() != runtimehooksv1.ResponseStatusSuccess {
		return fmt.Errorf("calling extension handler %s: %w", name, refusal(response.GetStatus(), response.GetMessage()))
	}
	if options.WithCaching {
		options.Cache.Add(upstream.CallExtensionCacheEntry{CacheKey: key, Response: response})
	}
	return nil
}

// prepare finds a handler and says what of a call does not fit to it.
func (c *Client) prepare(
	ctx context.Context, hook runtimecatalog.Hook, forObject client.Object, name string, request runtimehooksv1.RequestObject,
	response runtimehooksv1.ResponseObject,
) (target, error) {
	gvh, err := c.catalog.GroupVersionHook(hook)
	if err != nil {
		return target{}, err
	}
	if err := c.catalog.ValidateRequest(gvh, request); err != nil {
		return target{}, err
	}
	if err := c.catalog.ValidateResponse(gvh, response); err != nil {
		return target{}, err
	}
	t, err := c.named(gvh, name)
	if err != nil {
		return target{}, err
	}
	serves, err := c.serves(ctx, t, forObject)
	if err == nil && !serves {
		err = fmt.Errorf("the namespaceSelector of its ExtensionConfig excludes namespace %s", forObject.GetNamespace())
	}
	return t, err
}

// withSettings returns the request with the settings of the ExtensionConfig; those that the request has already win.
func withSettings(request runtimehooksv1.RequestObject, settings map[string]string) runtimehooksv1.RequestObject {
	with, ok := request.DeepCopyObject().(runtimehooksv1.RequestObject)
	if !ok {
		return request
	}
	merged := map[string]string{}
	maps.Copy(merged, settings)
	maps.Copy(merged, request.GetSettings())
	with.SetSettings(merged)
	return with
}

// fill copies a cached response.
func fill(response, cached runtimehooksv1.ResponseObject) error {
	to, from := reflect.ValueOf(response), reflect.ValueOf(cached.DeepCopyObject())
	if to.Type() != from.Type() {
		return fmt.Errorf("reading a cached response: it is a %s, want a %s", from.Type(), to.Type())
	}
	to.Elem().Set(from.Elem())
	return nil
}
