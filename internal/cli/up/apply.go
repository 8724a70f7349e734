package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/manifest"
)

// fieldManager owns the fields that `quorate up` writes.
const fieldManager = "quorate-up"

// admissionInterval is how often a change is repeated that no webhook could admit.
const admissionInterval = time.Second

// todo is what must be asked of the management plane for what is wanted to be
// there. It changes nothing; what is wrong with what is wanted is a usage error.
func (b *bringUp) todo(ctx context.Context, c client.Client) ([]manifest.Step, error) {
	if b.objects != nil {
		return b.todoFiles(ctx, c)
	}
	all, err := b.cluster.All()
	if err != nil {
		return nil, err
	}
	var existing []*unstructured.Unstructured
	for _, o := range all {
		found, err := command.Get(ctx, c, o.GroupVersionKind(), client.ObjectKeyFromObject(o))
		if err != nil {
			return nil, err
		}
		if found != nil {
			existing = append(existing, found)
		}
	}
	steps, err := b.cluster.Steps(existing, b.given)
	return steps, command.Usage(err)
}

// todoFiles applies the user's objects, once it is known that whatever they refer to is there.
func (b *bringUp) todoFiles(ctx context.Context, c client.Client) ([]manifest.Step, error) {
	var failed error
	exists := func(r manifest.Reference) (there bool, err error) {
		there, err = command.Exists(ctx, c, r)
		failed = errors.Join(failed, err)
		return there, err
	}
	if err := manifest.CheckObjects(b.objects, b.accepted(), exists); err != nil {
		if failed != nil {
			return nil, err // the objects were not checked yet
		}
		return nil, command.Usage(err)
	}
	steps := make([]manifest.Step, 0, len(b.objects))
	for _, o := range b.objects {
		steps = append(steps, manifest.Step{What: o.GetKind() + " " + o.GetName() + " is applied", Object: o})
	}
	return steps, nil
}

// apply asks the management plane for what is wanted, first for a trial: an
// object that it refuses is found before any is made.
func (b *bringUp) apply(ctx context.Context, c client.Client) (string, error) {
	steps, err := b.todo(ctx, c)
	if err != nil {
		return "", err
	}
	ticker := command.NewTicker(b.screen)
	defer ticker.Stop()
	for _, trial := range []bool{true, false} {
		for _, s := range steps {
			if !trial {
				b.applied, b.changed = true, b.changed || b.objects == nil
			}
			if err := b.onceAdmitted(ctx, ticker.Say, func() error { return carryOut(ctx, c, s, trial) }); err != nil {
				return "", err
			}
		}
	}
	if len(steps) == 0 {
		return "nothing to change", nil
	}
	return summary(steps), nil
}

// summary names changes, and counts what is new.
func summary(steps []manifest.Step) string {
	var parts []string
	made := 0
	for _, s := range steps {
		if s.Patch == nil {
			made++
			continue
		}
		parts = append(parts, s.What)
	}
	if made > 0 {
		parts = append(parts, fmt.Sprintf("%d objects applied", made))
	}
	return strings.Join(parts, ", ")
}

// onceAdmitted repeats a change while a webhook that must admit it does not answer, as in a management cluster whose host has just booted:
// nothing of such a change was carried out. The last answer is the error.
func (b *bringUp) onceAdmitted(ctx context.Context, say func(string), change func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, admissionInterval, b.timeout, true, func(context.Context) (bool, error) {
		last = change()
		if apierrors.IsInternalError(last) && strings.Contains(last.Error(), "failed calling webhook") {
			say("a webhook does not answer yet: " + last.Error())
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return &command.ExitError{Code: command.ExitTimeout, Err: fmt.Errorf("for %s a webhook did not answer: %w", b.timeout, last)}
	}
	return err
}

func carryOut(ctx context.Context, c client.Client, s manifest.Step, trial bool) error {
	change := command.Change{Object: s.Object.DeepCopy(), Patch: s.Patch, Manager: fieldManager}
	if !trial {
		return change.Write(ctx, c)
	}
	err := change.Try(ctx, c)
	if meta.IsNoMatchError(err) {
		return nil // its kind may be among what is applied before it
	}
	return err
}

// isRefused reports whether an error is about what was asked for.
func isRefused(err error) bool {
	var coded *command.ExitError
	return errors.As(err, &coded) && coded.Code == command.ExitUsage
}
