package act

import (
	"context"
	"fmt"
	"maps"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/group/observe"
)

// Writer carries out what was decided on what was seen.
type Writer struct {
	*observe.Observer
	Client
	// performer is the kind, as far as it carries out steps.
	performer Kind
	// overtaken: a write found that its object had changed since it was read. The change may be one that brings about no turn,
	// such as one of the status.
	Overtaken bool
	// changed are the Machines that the step has made, deleted or released.
	Changed []string
}

// NewWriter returns what carries out steps of a kind on what was seen.
func NewWriter(seen *observe.Observer, to Client, kind Kind) *Writer {
	return &Writer{Observer: seen, Client: to, performer: kind}
}

// TakeOver makes the group the controller of the secrets of its cluster that a KubeadmConfig controls. They are read again afterwards.
func (t *Writer) TakeOver(ctx context.Context, config *bootstrapv1.KubeadmConfig) error {
	t.Memory.Secrets = observe.Secrets{}
	if err := certs.TakeOver(ctx, t.APIReader, t.to, t.Cluster, config, t.ControllerRef()); err != nil {
		return fmt.Errorf("adopting the secrets of cluster %s: %w", t.Cluster.Name, err)
	}
	return nil
}

// PublishEtcd keeps the secrets that control planes read of an etcd on machines of its own.
func (t *Writer) PublishEtcd(ctx context.Context) error {
	authority, err := certs.ManagedEtcdAuthority(ctx, t.APIReader, t.Cluster)
	if err != nil || authority == nil {
		return err
	}
	return authority.PublishManagedEtcd(ctx, t.APIReader, t.to, t.Cluster, t.ControllerRef())
}

// Annotate sets annotations of the object, or takes those away whose value is
// empty. An object that has changed since it was read is a conflict.
func (t *Writer) Annotate(ctx context.Context, values map[string]string) error {
	after := t.Object.DeepCopyObject().(observe.Object)
	annotations := maps.Clone(after.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	for name, value := range values {
		if value == "" {
			delete(annotations, name)
		} else {
			annotations[name] = value
		}
	}
	after.SetAnnotations(annotations)
	if err := t.Change(ctx, t.Object, after); err != nil {
		return fmt.Errorf("writing annotations of %s: %w", t.Title(), err)
	}
	t.Object = after
	t.Memory.Writes.ExpectObject(after)
	return nil
}
