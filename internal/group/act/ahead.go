package act

import (
	"context"
	"fmt"
	"maps"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
)

// Machines that are made ahead: their bootstrap objects are paused until they may join.

// hold marks a bootstrap object that is about to be created, so that the bootstrap provider makes no data of it.
func hold(config client.Object) {
	annotations := maps.Clone(config.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[clusterv1.PausedAnnotation] = controlplanev1.BootstrapHeld
	config.SetAnnotations(annotations)
}

// startBootstrap lets bootstrap data be made for a machine that was made ahead. When that was is written first: a repeated step
// finds it.
func (t *Writer) startBootstrap(ctx context.Context, name string) error {
	target := t.Machine(name)
	if target == nil || target.Bootstrap == nil {
		return fmt.Errorf("starting the bootstrap of Machine %s: it, or its bootstrap object, is not one of %s", name, t.Object.GetName())
	}
	if observe.BootstrapStarted(target.Machine).IsZero() {
		after := target.DeepCopy()
		if after.Annotations == nil {
			after.Annotations = map[string]string{}
		}
		after.Annotations[controlplanev1.BootstrapStartedAnnotation] = time.Now().UTC().Format(time.RFC3339)
		if err := t.Merge(ctx, target.Machine, after); err != nil {
			return fmt.Errorf("noting when the bootstrap of Machine %s was started: %w", name, err)
		}
		t.Memory.Writes.ExpectMachine(after)
	}
	config, held := target.Bootstrap, target.Bootstrap.DeepCopyObject().(client.Object)
	free := maps.Clone(config.GetAnnotations())
	delete(free, clusterv1.PausedAnnotation)
	config.SetAnnotations(free)
	Tokens{t}.giveToken(ctx, config)
	// Of this very version: who repeats the step on an old look would put another token over the one that data is made of.
	if err := t.Change(ctx, held, config); err != nil {
		return fmt.Errorf("starting the bootstrap of Machine %s: %w", name, err)
	}
	return nil
}
