package embed

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

const controlPlaneTemplate = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: class, namespace: default}
spec:
  template:
    metadata: {labels: {from: the-template}}
    spec:
      joins: {maxParallel: 1}
      autoRepair: {unhealthyTimeoutSeconds: 120}
      rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}
      kubeadmConfigSpec: {clusterConfiguration: {controllerManager: {extraArgs: [{name: v, value: "2"}]}}}
`

// The local provider leaves a paused LocalCluster alone, and the host as it is.
const classAndCluster = `
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalClusterTemplate
metadata: {name: class, namespace: default}
spec: {template: {metadata: {annotations: {cluster.x-k8s.io/paused: ""}}, spec: {}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalMachineTemplate
metadata: {name: class, namespace: default}
spec: {template: {spec: {}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: class, namespace: default}
spec:
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalClusterTemplate, name: class}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: class}
    machineInfrastructure:
      templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachineTemplate, name: class}
  patches:
  - name: patience
    definitions:
    - selector:
        apiVersion: controlplane.cluster.x-k8s.io/v1beta2
        kind: KubeadmControlPlaneTemplate
        matchResources: {controlPlane: true}
      jsonPatches: [{op: add, path: /spec/template/spec/autoRepair/nodeStartupTimeoutSeconds, value: 900}]
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: classy, namespace: default}
spec:
  topology:
    classRef: {name: class}
    version: v1.36.3
    controlPlane: {replicas: 3}
`

// objects parses YAML documents.
func objects(t *testing.T, text string) []client.Object {
	t.Helper()
	var all []client.Object
	for _, document := range strings.Split(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// template: what upstream refuses in a template is refused, and its spec stays as it is, Quorate's additions included.
func (l *life) template(t *testing.T) {
	c := l.client(t)
	surplus := objects(t, strings.Replace(controlPlaneTemplate, "maxSurge: 0", "maxSurge: 2", 1))[0]
	if err := c.Create(t.Context(), surplus); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "maxSurge") {
		t.Errorf("creating a template with two surplus machines: %v, want a refusal", err)
	}
	create(t, c, objects(t, controlPlaneTemplate)...)
	for _, row := range []struct {
		name, patch string
		refused     bool
	}{
		{"a label", `{"metadata":{"labels":{"a":"b"}}}`, false},
		{"a label of the control plane", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, false},
		{"upstream's field", `{"spec":{"template":{"spec":{"kubeadmConfigSpec":{"verbosity":2}}}}}`, true},
		{"joins", `{"spec":{"template":{"spec":{"joins":{"maxParallel":2}}}}}`, true},
		{"no auto-repair", `{"spec":{"template":{"spec":{"autoRepair":null}}}}`, true},
	} {
		template := &controlplanev1.KubeadmControlPlaneTemplate{ObjectMeta: named("class")}
		err := c.Patch(t.Context(), template, client.RawPatch("application/merge-patch+json", []byte(row.patch)))
		if row.refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "immutable")) || !row.refused && err != nil {
			t.Errorf("changing %s: %v; refused %t", row.name, err, row.refused)
		}
	}
}

// class: a Cluster of a ClusterClass gets a control plane as the template says, Quorate's additions included.
func (l *life) class(t *testing.T) {
	c := l.client(t)
	for _, o := range objects(t, classAndCluster) {
		// A Cluster is refused until the controller has looked at its class.
		eventually(t, o.GetObjectKind().GroupVersionKind().Kind+" is accepted", func() bool { return c.Create(t.Context(), o) == nil })
	}
	var all controlplanev1.KubeadmControlPlaneList
	eventually(t, "the Cluster has a control plane, and Quorate has looked at it", func() bool {
		return c.List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"cluster.x-k8s.io/cluster-name": "classy"}) == nil &&
			len(all.Items) == 1 && all.Items[0].Status.Plan.Step != ""
	})
	kcp := all.Items[0]
	if got := kcp.Spec.Joins.MaxParallel; got == nil || *got != 1 {
		t.Errorf("joins: %+v, want one at a time", kcp.Spec.Joins)
	}
	if r := kcp.Spec.AutoRepair; r == nil || r.UnhealthyTimeoutSeconds == nil || *r.UnhealthyTimeoutSeconds != 120 ||
		r.NodeStartupTimeoutSeconds == nil || *r.NodeStartupTimeoutSeconds != 900 {
		t.Errorf("auto-repair: %+v, want 120 s by the template and 900 s by the class's patch", r)
	}
	if s := kcp.Spec; s.Version != "v1.36.3" || s.Replicas == nil || *s.Replicas != 3 || kcp.Labels["from"] != "the-template" ||
		s.Rollout.Strategy.RollingUpdate.MaxSurge.IntValue() != 0 || len(s.KubeadmConfigSpec.ClusterConfiguration.ControllerManager.ExtraArgs) != 1 ||
		s.MachineTemplate.Spec.InfrastructureRef.Kind != "LocalMachineTemplate" {
		t.Errorf("control plane %v: %+v", kcp.Labels, s)
	}
}
