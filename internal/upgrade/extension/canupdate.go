package extension

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/extension/inplace"
)

// PolicySetting is the key among the settings of an ExtensionConfig that says what holds for machines without upgradev1.PolicyAnnotation.
// Without it that is Preferred: a user who registers the extension means to use it.
const PolicySetting = "policy"

// Where the spec of a machine is in a Machine and in a MachineSet, and those of what it refers to.
const (
	ofMachine  = "spec"
	ofTemplate = "spec.template.spec"
)

// CanUpdateMachine answers which changes of a control plane machine can be made in place.
func (e *Extension) CanUpdateMachine(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest, response *runtimehooksv1.CanUpdateMachineResponse,
) {
	verdict, err := e.judge(ctx, question{
		name: "Machine " + request.Desired.Machine.Name, namespace: request.Desired.Machine.Namespace,
		annotations: request.Desired.Machine.Annotations, settings: request.Settings, path: ofMachine,
		current: parts{&request.Current.Machine.Spec, request.Current.BootstrapConfig, request.Current.InfrastructureMachine},
		desired: parts{&request.Desired.Machine.Spec, request.Desired.BootstrapConfig, request.Desired.InfrastructureMachine},
		is:      func(m *clusterv1.Machine) bool { return m.Name == request.Desired.Machine.Name },
	})
	answer(response, verdict, err)
	response.MachinePatch = patch(ofMachine, verdict.Machine)
	response.BootstrapConfigPatch = patch(ofMachine, verdict.Bootstrap)
}

// CanUpdateMachineSet answers which changes of a MachineSet's machines can be made in place.
func (e *Extension) CanUpdateMachineSet(
	ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, response *runtimehooksv1.CanUpdateMachineSetResponse,
) {
	current, desired := &request.Current.MachineSet, &request.Desired.MachineSet
	verdict, err := e.judge(ctx, question{
		name: "MachineSet " + desired.Name, namespace: desired.Namespace, annotations: desired.Annotations, settings: request.Settings,
		path:    ofTemplate,
		current: parts{&current.Spec.Template.Spec, request.Current.BootstrapConfigTemplate, request.Current.InfrastructureMachineTemplate},
		desired: parts{&desired.Spec.Template.Spec, request.Desired.BootstrapConfigTemplate, request.Desired.InfrastructureMachineTemplate},
		is: func(m *clusterv1.Machine) bool {
			owner := metav1.GetControllerOf(m) // the request has no UID of the MachineSet
			return owner != nil && owner.Kind == "MachineSet" && owner.Name == current.Name
		},
	})
	answer(response, verdict, err)
	response.MachineSetPatch = patch(ofTemplate, verdict.Machine)
	response.BootstrapConfigTemplatePatch = patch(ofTemplate, verdict.Bootstrap)
}

// parts are a machine's spec and what it refers to.
type parts struct {
	machine                   *clusterv1.MachineSpec
	bootstrap, infrastructure runtime.RawExtension
}

// question is whether machines can be updated in place.
type question struct {
	name, namespace       string
	annotations, settings map[string]string
	path                  string // of the specs in what the parts refer to
	current, desired      parts
	is                    func(*clusterv1.Machine) bool // one of the machines that the question is about
}

// judge compares the objects as the policy wants it. An error stops the update; machines are replaced neither.
func (e *Extension) judge(ctx context.Context, q question) (inplace.Verdict, error) {
	policy, err := policyOf(q.annotations, q.settings)
	if err != nil {
		return inplace.Verdict{}, fmt.Errorf("updating %s in place: %w", q.name, err)
	}
	if policy == controlplanev1.InPlaceNever || policy == controlplanev1.InPlaceExternal {
		return inplace.Verdict{Replacing: []string{"policy " + string(policy)}}, nil
	}
	current, err := q.current.objects(q.path)
	if err != nil {
		return inplace.Verdict{}, fmt.Errorf("reading what %s is made from: %w", q.name, err)
	}
	desired, err := q.desired.objects(q.path)
	if err != nil {
		return inplace.Verdict{}, fmt.Errorf("reading what is wanted of %s: %w", q.name, err)
	}
	verdict := inplace.CanUpdate(current, desired)
	if verdict.Machine != nil || verdict.Bootstrap != nil {
		unfit, err := e.unfit(ctx, q)
		if err != nil {
			return inplace.Verdict{}, err
		}
		if len(unfit) > 0 {
			verdict = inplace.Verdict{Replacing: append(verdict.Replacing, unfit...)}
		}
	}
	if len(verdict.Replacing) == 0 {
		return e.withUpgrader(ctx, q, verdict)
	}
	reasons := strings.Join(verdict.Replacing, "; ")
	if policy == controlplanev1.InPlaceOnly {
		return inplace.Verdict{}, fmt.Errorf("updating %s in place: not possible for %s; policy Only keeps it from being replaced: revert "+
			"these fields, or change the annotation %s",
			q.name, reasons, upgradev1.PolicyAnnotation)
	}
	ctrl.LoggerFrom(ctx).Info("Not all that is wanted can be changed in place", "of", q.name, "reasons", reasons)
	return verdict, nil
}

// unfit says of each machine that a question is about, and whose node cannot be upgraded in place whatever is wanted, why that is so.
func (e *Extension) unfit(ctx context.Context, q question) ([]string, error) {
	if e.Client == nil {
		return nil, nil
	}
	var all clusterv1.MachineList
	of := client.MatchingLabels{clusterv1.ClusterNameLabel: q.desired.machine.ClusterName}
	if err := e.Client.List(ctx, &all, client.InNamespace(q.namespace), of); err != nil {
		return nil, fmt.Errorf("listing the Machines of cluster %s: %w", q.desired.machine.ClusterName, err)
	}
	var unfit []string
	for i := range all.Items {
		m := &all.Items[i]
		if !q.is(m) || m.Status.NodeInfo == nil {
			continue
		}
		if why := steps.UnfitRuntime(m.Status.NodeInfo.ContainerRuntimeVersion); why != "" {
			unfit = append(unfit, "Machine "+m.Name+": "+why)
		}
	}
	return unfit, nil
}

// withUpgrader returns a verdict by which machines are updated in place and not replaced, unless no image upgrades their nodes. That is
// an error, as for Quorate's own
// control planes: nothing begins, and no machine is replaced instead.
func (e *Extension) withUpgrader(ctx context.Context, q question, verdict inplace.Verdict) (inplace.Verdict, error) {
	if e.Upgraders == nil || verdict.Machine == nil && verdict.Bootstrap == nil {
		return verdict, nil
	}
	image, err := e.Upgraders.Of(ctx, q.namespace, q.desired.machine.Version)
	if err != nil {
		return inplace.Verdict{}, fmt.Errorf("finding the image that updates %s in place: %w", q.name, err)
	}
	if image == "" {
		return inplace.Verdict{}, fmt.Errorf("cannot update %s in place: %s", q.name, e.Upgraders.Missing(q.namespace, q.desired.machine.Version))
	}
	return verdict, nil
}

// policyOf reads the policy for machines.
func policyOf(annotations, settings map[string]string) (controlplanev1.InPlacePolicy, error) {
	said := cmp.Or(annotations[upgradev1.PolicyAnnotation], settings[PolicySetting], string(controlplanev1.InPlacePreferred))
	switch policy := controlplanev1.InPlacePolicy(said); policy {
	case controlplanev1.InPlaceNever, controlplanev1.InPlacePreferred, controlplanev1.InPlaceOnly, controlplanev1.InPlaceExternal:
		return policy, nil
	}
	return "", fmt.Errorf("the policy is %q: it must be %s, %s, %s or %s (annotation %s, or setting %s of the ExtensionConfig)", said,
		controlplanev1.InPlaceNever,
		controlplanev1.InPlacePreferred, controlplanev1.InPlaceOnly, controlplanev1.InPlaceExternal, upgradev1.PolicyAnnotation, PolicySetting)
}

// objects returns the specs as they are in JSON.
func (p parts) objects(path string) (inplace.Objects, error) {
	machine, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.machine)
	if err != nil {
		return inplace.Objects{}, fmt.Errorf("encoding the Machine's spec: %w", err)
	}
	kind, bootstrap, err := specOf(p.bootstrap, path)
	if err != nil {
		return inplace.Objects{}, fmt.Errorf("decoding the bootstrap object: %w", err)
	}
	_, infrastructure, err := specOf(p.infrastructure, path)
	if err != nil {
		return inplace.Objects{}, fmt.Errorf("decoding the infrastructure object: %w", err)
	}
	return inplace.Objects{Machine: machine, BootstrapKind: kind, Bootstrap: bootstrap, Infrastructure: infrastructure}, nil
}

// specOf returns the kind and the spec of an object in a request. No object has neither.
func specOf(raw runtime.RawExtension, path string) (string, map[string]any, error) {
	if len(raw.Raw) == 0 {
		return "", nil, nil
	}
	var object map[string]any
	if err := json.Unmarshal(raw.Raw, &object); err != nil {
		return "", nil, err
	}
	kind, _ := object["kind"].(string)
	spec := object
	for name := range strings.SplitSeq(path, ".") {
		next, isObject := spec[name].(map[string]any)
		if !isObject && spec[name] != nil {
			return "", nil, fmt.Errorf("%s of %s is no object", path, kind)
		}
		spec = next
	}
	return kind, spec, nil
}

// answer fills in what all responses have.
func answer(response runtimehooksv1.ResponseObject, verdict inplace.Verdict, err error) {
	if err != nil {
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
		response.SetMessage(err.Error())
		return
	}
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	response.SetMessage(strings.Join(verdict.Replacing, "; "))
}

// patch is the patch of an object whose spec at the path is changed.
func patch(path string, spec map[string]any) runtimehooksv1.Patch {
	data := inplace.Patch(path, spec)
	if data == nil {
		return runtimehooksv1.Patch{}
	}
	return runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType, Patch: data}
}
