//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// adoptLabel is on the Machines that machinesAdopt has adopted.
const adoptLabel = "example.com/control-plane"

// machinesAdopt: Machines, KubeadmConfigs and LocalMachines that nobody controls any more become a ControlPlane's, which a person
// has look at them first. The machines stay what they are.
func machinesAdopt(t *testing.T, e *environment) {
	const name = "yankee"
	e.up(t, name, "--replicas", "3")
	e.orphan(t, name)
	for _, m := range e.machineObjects(t, name) {
		before := m.DeepCopy()
		m.Labels[adoptLabel] = "true"
		delete(m.Annotations, machine.Hook)
		if err := e.management(t).Patch(context.Background(), &m, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	made := e.identities(t, name)

	e.createFrom(t, e.quorate(t, "up", "--dry-run", "--kind", "ControlPlane", "--name", name, "--replicas", "3"))
	before := e.ownership(t, name)
	eventually(t, "it tells what it would do", patience, func() string {
		p := e.machinesOf(t, name).Status.Plan
		if p.Step != "Wait" || p.Reason != "Inactive" || !strings.Contains(p.Message, "Adopt "+e.machines(t, name)[0]) {
			return p.Reason + ": " + p.Message
		}
		t.Log(p.Message)
		return ""
	})
	e.refer(t, name)
	eventually(t, "the cluster owns it", patience, func() string {
		if cp := e.machinesOf(t, name); len(cp.OwnerReferences) == 0 || cp.Status.Plan.Reason != "Inactive" {
			return fmt.Sprintf("%v: %s", cp.OwnerReferences, cp.Status.Plan.Message)
		}
		return ""
	})
	for _, replicas := range []int{1, 3} { // a reason to act, but for its state
		if err := e.scaleTo(t, name, replicas); err != nil {
			t.Fatal(err)
		}
		e.waitsFor(t, name, "is inactive")
	}
	if now := e.ownership(t, name); now != before {
		t.Errorf("while it was inactive, it became\n%s, and was\n%s", now, before)
	}

	start := time.Now()
	e.alter(t, name, func(cp *controlplanev1alpha1.ControlPlane) { cp.Spec.State = controlplanev1alpha1.StateActive })
	e.settled(t, name, 3)
	t.Logf("FIGURE three machines adopted by a ControlPlane: %.1f s", time.Since(start).Seconds())
	e.sameMachines(t, name, made)
	e.controlsAll(t, name)
	if err := e.scaleTo(t, name, 1); err != nil {
		t.Fatal(err)
	}
	e.settled(t, name, 1)
	e.takeDown(t, name)
}

// orphan deletes a KubeadmControlPlane without what it made.
func (e *environment) orphan(t *testing.T, name string) {
	t.Helper()
	e.keptBy(t, name, "nobody")
	c := e.management(t)
	if err := c.Delete(context.Background(), e.controlPlane(t, name), client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no machine has an owner", patience, func() string {
		for _, m := range e.machineObjects(t, name) {
			if metav1.GetControllerOf(&m) != nil {
				return m.Name + " has one"
			}
		}
		return ""
	})
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Finalizers = nil })
	eventually(t, "the control plane's object is gone", patience, func() string {
		var all controlplanev1.KubeadmControlPlaneList
		if err := c.List(context.Background(), &all, client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
			return err.Error()
		}
		if len(all.Items) > 0 {
			return "it is there"
		}
		return ""
	})
}

// createFrom creates the ControlPlane of some manifests, with a selector, and its bootstrap template. All else is there.
func (e *environment) createFrom(t *testing.T, manifests string) {
	t.Helper()
	for text := range strings.SplitSeq(manifests, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		switch o.GetKind() {
		case "ControlPlane":
			if err := unstructured.SetNestedStringMap(o.Object, map[string]string{adoptLabel: "true"}, "spec", "selector",
				"matchLabels"); err != nil {
				t.Fatal(err)
			}
		case "KubeadmConfigTemplate":
		default:
			continue
		}
		if err := e.management(t).Create(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// refer lets the Cluster refer to its ControlPlane.
func (e *environment) refer(t *testing.T, name string) {
	t.Helper()
	c, cluster := e.management(t), &clusterv1.Cluster{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, cluster); err != nil {
		t.Fatal(err)
	}
	before := cluster.DeepCopy()
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1alpha1.GroupVersion.Group,
		Kind: "ControlPlane", Name: e.machinesOf(t, name).Name}
	if err := c.Patch(context.Background(), cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// purposes are those of the secrets that a control plane controls.
var purposes = []secret.Purpose{secret.ClusterCA, secret.EtcdCA, secret.FrontProxyCA, secret.ServiceAccount, secret.Kubeconfig}

// secretsOf are the cluster's own secrets.
func (e *environment) secretsOf(t *testing.T, name string) []corev1.Secret {
	t.Helper()
	var all []corev1.Secret
	for _, p := range purposes {
		s := corev1.Secret{}
		if err := e.management(t).Get(context.Background(), client.ObjectKey{Namespace: "default", Name: secret.Name(name, p)}, &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// ownership writes down whose the Machines and secrets of a cluster are, and what Quorate would write on the Machines.
func (e *environment) ownership(t *testing.T, name string) string {
	t.Helper()
	var b strings.Builder
	for _, m := range e.machineObjects(t, name) {
		fmt.Fprintln(&b, m.Name, m.UID, m.Generation, m.OwnerReferences, m.Labels, m.Annotations)
	}
	for _, s := range e.secretsOf(t, name) {
		fmt.Fprintln(&b, s.Name, s.UID, s.OwnerReferences)
	}
	return b.String()
}

// controlsAll verifies that a ControlPlane controls all Machines of its cluster, and its secrets.
func (e *environment) controlsAll(t *testing.T, name string) {
	t.Helper()
	cp := e.machinesOf(t, name)
	for _, m := range e.machineObjects(t, name) {
		if !metav1.IsControlledBy(&m, cp) || !machine.HasHook(&m) {
			t.Errorf("%s is controlled by %v, annotations %v", m.Name, m.OwnerReferences, m.Annotations)
		}
	}
	eventually(t, "the secrets are the ControlPlane's", patience, func() string {
		for _, s := range e.secretsOf(t, name) {
			if !metav1.IsControlledBy(&s, cp) {
				return fmt.Sprintf("secret %s is controlled by %v", s.Name, s.OwnerReferences)
			}
		}
		return ""
	})
}
