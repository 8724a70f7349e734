package updatehooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/upgrade/runtimeclient"
)

// +kubebuilder:rbac:groups=runtime.cluster.x-k8s.io,resources=extensionconfigs,verbs=list
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Own is the name of the ExtensionConfig of Quorate's own Runtime Extension, which control planes of Quorate's do not ask.
const Own = "quorate"

// Answer is what an extension says of a machine.
type Answer struct {
	// Handler is the extension's that was asked.
	Handler string
	// Patched are the machine's parts as the extension would leave them, and Desired those that it was asked for, as the API server would
	// store them.
	Patched, Desired Parts
	// Refused is why the API server does not store what is wanted of the infrastructure machine; empty: it does. No extension was asked then.
	Refused string
}

// Asker asks Runtime Extensions of others. It calls them itself, as they are registered, and discovers none: that is Cluster API's affair.
type Asker struct {
	// Reader reads from the API server, not from a cache.
	Reader client.Reader
	// Writer tries writes without doing them; nil: what is wanted is taken to be stored as it is.
	Writer client.Writer
}

// Ask asks whether a machine can be brought to what is wanted in place. Where no extension answers, or with a failure, that is an error: it
// says nothing about the machine.
func (a Asker) Ask(ctx context.Context, current, desired Parts) (Answer, error) {
	answer := Answer{Desired: desired.DeepCopy()}
	if a.Writer != nil {
		err := a.Writer.Patch(ctx, answer.Desired.Infrastructure, client.MergeFrom(current.Infrastructure), client.DryRunAll)
		if isRefused(err) {
			return Answer{Refused: err.Error()}, nil
		}
		if err != nil {
			return Answer{}, fmt.Errorf("trying what is wanted of %s %s: %w", desired.Infrastructure.GetKind(), desired.Infrastructure.GetName(),
				err)
		}
	}
	response := &runtimehooksv1.CanUpdateMachineResponse{}
	var err error
	if answer.Handler, err = a.call(ctx, current, answer.Desired, response); err != nil {
		return Answer{}, err
	}
	answer.Patched, err = Apply(current, response)
	return answer, err
}

// isRefused reports whether an object, as it is, is what the API server does not store. That its user lacks a right says nothing of the
// object.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "denied the request")
}

// call calls the only extension there is, and returns the name of its handler.
func (a Asker) call(ctx context.Context, current, desired Parts, response *runtimehooksv1.CanUpdateMachineResponse) (string, error) {
	list, err := a.registered(ctx)
	if err != nil {
		return "", err
	}
	c, err := runtimeclient.New(a.Reader)
	if err != nil {
		return "", err
	}
	defer func() {
		for i := range list.Items {
			_ = c.Unregister(&list.Items[i]) // ends its connections, and does not fail
		}
	}()
	if err := c.WarmUp(list); err != nil {
		return "", err
	}
	can, err := c.GetAllExtensions(ctx, runtimehooksv1.CanUpdateMachine, current.Machine)
	if err != nil {
		return "", err
	}
	does, err := c.GetAllExtensions(ctx, runtimehooksv1.UpdateMachine, current.Machine)
	if err != nil {
		return "", err
	}
	if err := only(can, does, current.Machine.Namespace); err != nil {
		return "", err
	}
	return can[0], c.CallExtension(ctx, runtimehooksv1.CanUpdateMachine, current.Machine, can[0], Request(current, desired), response)
}

// registered lists the extensions that serve the hooks of updates in place, as Cluster API has discovered them. Where Cluster API calls
// none there are none. An extension that does not answer is not taken for one that says no, whatever its failurePolicy is.
func (a Asker) registered(ctx context.Context) (*runtimev1.ExtensionConfigList, error) {
	list := &runtimev1.ExtensionConfigList{}
	if err := a.Reader.List(ctx, list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("listing the ExtensionConfigs: %w", err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(e runtimev1.ExtensionConfig) bool {
		return !slices.ContainsFunc(e.Status.Handlers, func(h runtimev1.ExtensionHandler) bool {
			return h.RequestHook.Hook == "CanUpdateMachine" || h.RequestHook.Hook == updateMachine
		})
	})
	for i := range list.Items {
		for j := range list.Items[i].Status.Handlers {
			list.Items[i].Status.Handlers[j].FailurePolicy = runtimev1.FailurePolicyFail
		}
	}
	return list, nil
}

// only makes sure that one extension serves each of the hooks, and that it is somebody else's. More than one Cluster API does not call.
func only(can, does []string, namespace string) error {
	for _, one := range []struct {
		hook  string
		names []string
	}{{"CanUpdateMachine", can}, {updateMachine, does}} {
		switch len(one.names) {
		case 0:
			return fmt.Errorf("no Runtime Extension that Cluster API has discovered serves the hook %s in namespace %s", one.hook, namespace)
		case 1:
		default:
			return fmt.Errorf("%s serve the hook %s in namespace %s: Cluster API accepts one", strings.Join(one.names, " and "), one.hook, namespace)
		}
		if strings.HasSuffix(one.names[0], "."+Own) {
			return errors.New("the only Runtime Extension is Quorate's own, which is not asked: spec.inPlace.updater must be Quorate")
		}
	}
	return nil
}
