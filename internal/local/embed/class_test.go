package embed

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1beta1 "github.com/quorate/quorate/api/controlplane/v1beta1"
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
		return c.List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault),
			client.MatchingLabels{"cluster.x-k8s.io/cluster-name": "classy"}) == nil &&
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
		s.Rollout.Strategy.RollingUpdate.MaxSurge.IntValue() != 0 ||
		len(s.KubeadmConfigSpec.ClusterConfiguration.ControllerManager.ExtraArgs) != 1 ||
		s.MachineTemplate.Spec.InfrastructureRef.Kind != "LocalMachineTemplate" {
		t.Errorf("control plane %v: %+v", kcp.Labels, s)
	}
}

const machinesClassAndCluster = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: ControlPlaneTemplate
metadata: {name: machines, namespace: default}
spec:
  template:
    metadata: {labels: {from: the-template}}
    spec:
      joins: {maxParallel: 3}
      machineTemplate:
        spec: {bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: machines}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: machines, namespace: default}
spec:
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalClusterTemplate, name: class}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1alpha1, kind: ControlPlaneTemplate, name: machines}
    machineInfrastructure:
      templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachineTemplate, name: class}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: machines, namespace: default}
spec:
  topology:
    classRef: {name: machines}
    version: v1.36.3
    controlPlane:
      replicas: 3
      metadata: {labels: {from-cluster: yes-it-is}}
      deletion: {nodeDrainTimeoutSeconds: 60}
      readinessGates: [{conditionType: example.com/ready}]
`

// machinesClass: a Cluster of a ClusterClass gets a ControlPlane as the template, the class and the Cluster say.
func (l *life) machinesClass(t *testing.T) {
	c := l.client(t)
	for _, o := range objects(t, machinesClassAndCluster) {
		// A Cluster is refused until the controller has looked at its class.
		eventually(t, o.GetObjectKind().GroupVersionKind().Kind+" is accepted", func() bool { return c.Create(t.Context(), o) == nil })
	}
	var all controlplanev1alpha1.ControlPlaneList
	eventually(t, "the Cluster has a control plane of machines", func() bool {
		return c.List(t.Context(), &all, client.InNamespace(metav1.NamespaceDefault),
			client.MatchingLabels{"cluster.x-k8s.io/cluster-name": "machines"}) == nil && len(all.Items) == 1
	})
	s := all.Items[0].Spec
	if s.Version != "v1.36.3" || ptr.Deref(s.Replicas, 0) != 3 || ptr.Deref(s.Joins.MaxParallel, 0) != 3 ||
		all.Items[0].Labels["from"] != "the-template" {
		t.Errorf("control plane %v: %+v", all.Items[0].Labels, s)
	}
	m := s.MachineTemplate
	if m.Spec.InfrastructureRef.Kind != "LocalMachineTemplate" || m.Spec.Bootstrap.ConfigRef.Name != "machines" ||
		m.ObjectMeta.Labels["from-cluster"] != "yes-it-is" ||
		ptr.Deref(m.Spec.Deletion.NodeDrainTimeoutSeconds, 0) != 60 || len(m.Spec.ReadinessGates) != 1 {
		t.Errorf("template of machines: %+v", m)
	}
	// What the topology controller applies a second time is as it is.
	var cluster clusterv1.Cluster
	eventually(t, "the topology is reconciled", func() bool {
		return c.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "machines"}, &cluster) == nil &&
			cluster.Spec.ControlPlaneRef.Kind == "ControlPlane" && conditions.IsTrue(&cluster, clusterv1.ClusterTopologyReconciledCondition)
	})
}

const oldControlPlane = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: ancient, namespace: default}
spec:
  replicas: 3
  version: v1.36.3
  machineTemplate:
    infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachineTemplate, name: class}
    nodeDrainTimeout: 2m
  rolloutStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}
  kubeadmConfigSpec: {clusterConfiguration: {controllerManager: {extraArgs: {v: "2"}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlaneTemplate
metadata: {name: ancient, namespace: default}
spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {controllerManager: {extraArgs: {v: "2"}}}}}}}
`

// oldVersion: upstream's manifests of v1beta1 are taken, and what v1beta1 has no fields for survives who reads and writes it there.
func (l *life) oldVersion(t *testing.T) {
	c := l.client(t)
	create(t, c, objects(t, oldControlPlane)...)
	key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "ancient"}
	now := &controlplanev1.KubeadmControlPlane{}
	if err := c.Get(t.Context(), key, now); err != nil {
		t.Fatal(err)
	}
	if d := now.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds; d == nil || *d != 120 ||
		now.Spec.MachineTemplate.Spec.InfrastructureRef.Name != "class" {
		t.Errorf("written in v1beta1, read in v1beta2: %+v", now.Spec.MachineTemplate)
	}
	// By patches, as a controller may have written the object since.
	changed := now.DeepCopy()
	two := int32(2)
	changed.Spec.Joins.MaxParallel = &two
	if err := c.Patch(t.Context(), changed, client.MergeFrom(now)); err != nil {
		t.Fatal(err)
	}
	old := &controlplanev1beta1.KubeadmControlPlane{}
	if err := c.Get(t.Context(), key, old); err != nil {
		t.Fatal(err)
	}
	if ref := old.Spec.MachineTemplate.InfrastructureRef; ref.APIVersion != "infrastructure.cluster.x-k8s.io/v1alpha1" || ref.Name != "class" {
		t.Errorf("reference in v1beta1: %+v", ref)
	}
	before := old.DeepCopy()
	five := int32(5)
	old.Spec.Replicas = &five
	if err := c.Patch(t.Context(), old, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), key, now); err != nil {
		t.Fatal(err)
	}
	if m := now.Spec.Joins.MaxParallel; m == nil || *m != 2 || *now.Spec.Replicas != 5 {
		t.Errorf("after a change in v1beta1: replicas %d, joins %+v; want 5, and two at a time", *now.Spec.Replicas, now.Spec.Joins)
	}
	template := &controlplanev1beta1.KubeadmControlPlaneTemplate{ObjectMeta: named("ancient")}
	err := c.Patch(t.Context(), template, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"template":{"spec":{"kubeadmConfigSpec":{"verbosity":2}}}}}`)))
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("changing a template in v1beta1: %v, want a refusal", err)
	}
}
