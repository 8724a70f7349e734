// Package admission stands in for Cluster API's package of this name while Cluster API's own tests of its webhooks run: TestUpstreamTables
// compiles their files beside this one. Each write that a row asks about goes on to Cluster API's webhook, and is printed with its answer.
package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/featuregate"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Question is a write that a row asks about, and Cluster API's answer.
type Question struct {
	Kind    string                       `json:"kind"`
	Verb    string                       `json:"verb"`
	Before  runtime.Object               `json:"before,omitempty"`
	After   runtime.Object               `json:"after,omitempty"`
	Gates   map[featuregate.Feature]bool `json:"gates"`
	Refusal string                       `json:"refusal,omitempty"`
}

// gates are the feature gates that the webhooks look at.
var gates = []featuregate.Feature{feature.KubeadmBootstrapFormatIgnition, feature.MachineTaintPropagation, feature.ClusterTopology}

// tell prints a question. The objects are copies of before the webhook saw them, which changes some.
func tell(kind, verb string, before, after runtime.Object, answer error) error {
	q := Question{Kind: kind, Verb: verb, Before: before, After: after, Gates: map[featuregate.Feature]bool{}}
	for _, name := range gates {
		q.Gates[name] = feature.Gates.Enabled(name)
	}
	if answer != nil {
		q.Refusal = answer.Error()
	}
	text, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	fmt.Printf("\nquestion %s\n", text)
	return answer
}

// KubeadmControlPlane is Cluster API's webhook of this kind.
type KubeadmControlPlane struct{ theirs upstream.KubeadmControlPlane }

func (w *KubeadmControlPlane) Default(ctx context.Context, k *controlplanev1.KubeadmControlPlane) error {
	after := k.DeepCopy()
	return tell("KubeadmControlPlane", "default", nil, after, w.theirs.Default(ctx, k))
}

func (w *KubeadmControlPlane) ValidateCreate(ctx context.Context, k *controlplanev1.KubeadmControlPlane) (admission.Warnings, error) {
	after := k.DeepCopy()
	warnings, err := w.theirs.ValidateCreate(ctx, k)
	return warnings, tell("KubeadmControlPlane", "create", nil, after, err)
}

func (w *KubeadmControlPlane) ValidateUpdate(ctx context.Context, b, k *controlplanev1.KubeadmControlPlane) (admission.Warnings, error) {
	before, after := b.DeepCopy(), k.DeepCopy()
	warnings, err := w.theirs.ValidateUpdate(ctx, b, k)
	return warnings, tell("KubeadmControlPlane", "update", before, after, err)
}

func (w *KubeadmControlPlane) ValidateDelete(ctx context.Context, k *controlplanev1.KubeadmControlPlane) (admission.Warnings, error) {
	after := k.DeepCopy()
	warnings, err := w.theirs.ValidateDelete(ctx, k)
	return warnings, tell("KubeadmControlPlane", "delete", nil, after, err)
}

// validateVersion is not exported: an update of a valid control plane to the other version is asked about.
func (w *KubeadmControlPlane) validateVersion(b, k *controlplanev1.KubeadmControlPlane) field.ErrorList {
	whole := func(version string) *controlplanev1.KubeadmControlPlane {
		object := &controlplanev1.KubeadmControlPlane{}
		object.Name, object.Namespace = "test", "foo"
		object.Spec.Version = version
		object.Spec.KubeadmConfigSpec = *k.Spec.KubeadmConfigSpec.DeepCopy()
		object.Spec.MachineTemplate.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: clusterv1.GroupVersionInfrastructure.Group, Kind: "LocalMachineTemplate", Name: "test",
		}
		if err := w.theirs.Default(context.Background(), object); err != nil {
			panic(err)
		}
		return object
	}
	if _, err := w.ValidateUpdate(context.Background(), whole(b.Spec.Version), whole(k.Spec.Version)); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec", "version"), err)}
	}
	return nil
}

type controlPlaneTemplate = controlplanev1.KubeadmControlPlaneTemplate

// KubeadmControlPlaneTemplate is Cluster API's webhook of this kind.
type KubeadmControlPlaneTemplate struct {
	theirs upstream.KubeadmControlPlaneTemplate
}

func (w *KubeadmControlPlaneTemplate) ValidateCreate(ctx context.Context, k *controlPlaneTemplate) (admission.Warnings, error) {
	after := k.DeepCopy()
	warnings, err := w.theirs.ValidateCreate(ctx, k)
	return warnings, tell("KubeadmControlPlaneTemplate", "create", nil, after, err)
}

func (w *KubeadmControlPlaneTemplate) ValidateUpdate(ctx context.Context, b, k *controlPlaneTemplate) (admission.Warnings, error) {
	before, after := b.DeepCopy(), k.DeepCopy()
	warnings, err := w.theirs.ValidateUpdate(ctx, b, k)
	return warnings, tell("KubeadmControlPlaneTemplate", "update", before, after, err)
}

// ScaleValidator is Cluster API's webhook of the scale subresource.
type ScaleValidator struct {
	Client  client.Reader
	decoder admission.Decoder
}

// manager is as much of one as the webhook of the scale subresource needs to have a decoder.
type manager struct {
	ctrl.Manager
	scheme *runtime.Scheme
}

func (m *manager) GetScheme() *runtime.Scheme { return m.scheme }

func (m *manager) GetWebhookServer() webhook.Server { return webhook.NewServer(webhook.Options{}) }

// Handle asks Cluster API's webhook, and prints what the control plane was and would become.
func (v *ScaleValidator) Handle(ctx context.Context, request admission.Request) admission.Response {
	scheme := runtime.NewScheme()
	theirs := &upstream.ScaleValidator{Client: v.Client}
	wanted, before := &autoscalingv1.Scale{}, &controlplanev1.KubeadmControlPlane{}
	if err := errors.Join(
		autoscalingv1.AddToScheme(scheme),
		theirs.SetupWebhookWithManager(&manager{scheme: scheme}),
		json.Unmarshal(request.Object.Raw, wanted),
		v.Client.Get(ctx, client.ObjectKeyFromObject(wanted), before),
	); err != nil {
		panic(err)
	}
	after := before.DeepCopy()
	after.Spec.Replicas = &wanted.Spec.Replicas
	response := theirs.Handle(ctx, request)
	var refusal error
	if !response.Allowed {
		refusal = errors.New(response.Result.Message)
	}
	_ = tell("KubeadmControlPlane", "scale", before, after, refusal)
	return response
}

// What the tests of Cluster API's own helpers need; these tests are not run.
func pathsMatch(_, _ []string) bool { panic("not run") }

func allowed(_ [][]string, _ []string) bool { panic("not run") }

func paths(_ []string, _ map[string]any) [][]string { panic("not run") }
