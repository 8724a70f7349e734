// Package outgoing cleans what controllers write for people: conditions and other messages in statuses, events, and the log. Much of
// it quotes others: containers, nodes, API servers, etcd, infrastructure providers, Runtime Extensions. The code that quotes them
// redacts and cuts the text already. This package is the net below: a quote that was forgotten still leaves the manager without
// secrets and without what a terminal would act on. It does not know any controller.
package outgoing

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// Most bytes of an event's note, and of the message of a condition, which API servers limit.
const (
	longestNote    = 1024
	longestMessage = 32768
)

// Manager returns a manager like mgr whose client and event recorders write clean text.
func Manager(mgr ctrl.Manager) ctrl.Manager {
	return &manager{Manager: mgr, client: Client(mgr.GetClient())}
}

type manager struct {
	ctrl.Manager
	client client.Client
}

// GetClient implements cluster.Cluster.
func (m *manager) GetClient() client.Client { return m.client }

// GetEventRecorder implements recorder.Provider.
func (m *manager) GetEventRecorder(name string) events.EventRecorder {
	return recorder{m.Manager.GetEventRecorder(name)}
}

type recorder struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, values ...any) {
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", plaintext.Quote(fmt.Sprintf(note, values...), longestNote))
}

// Client returns a client like c that cleans the messages in a status before it is written.
func Client(c client.Client) client.Client { return &cleaning{c} }

type cleaning struct{ client.Client }

// Status implements client.StatusClient.
func (c *cleaning) Status() client.SubResourceWriter { return status{c.Client.Status()} }

// SubResource implements client.SubResourceClientConstructor.
func (c *cleaning) SubResource(name string) client.SubResourceClient {
	inner := c.Client.SubResource(name)
	return subresource{SubResourceClient: inner, writer: status{inner}}
}

type subresource struct {
	client.SubResourceClient
	writer status
}

// Create implements client.SubResourceWriter.
func (s subresource) Create(ctx context.Context, o, sub client.Object, options ...client.SubResourceCreateOption) error {
	return s.writer.Create(ctx, o, sub, options...)
}

// Update implements client.SubResourceWriter.
func (s subresource) Update(ctx context.Context, o client.Object, options ...client.SubResourceUpdateOption) error {
	return s.writer.Update(ctx, o, options...)
}

// Patch implements client.SubResourceWriter.
func (s subresource) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return s.writer.Patch(ctx, o, patch, options...)
}

type status struct{ client.SubResourceWriter }

// Create implements client.SubResourceWriter.
func (s status) Create(ctx context.Context, o, sub client.Object, options ...client.SubResourceCreateOption) error {
	clean(sub)
	return s.SubResourceWriter.Create(ctx, o, sub, options...)
}

// Update implements client.SubResourceWriter.
func (s status) Update(ctx context.Context, o client.Object, options ...client.SubResourceUpdateOption) error {
	clean(o)
	return s.SubResourceWriter.Update(ctx, o, options...)
}

// Patch implements client.SubResourceWriter. The patch is computed from the object afterwards.
func (s status) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	clean(o)
	return s.SubResourceWriter.Patch(ctx, o, patch, options...)
}
