//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// etcdTwice: a second EtcdCluster for a Cluster is refused at admission. One that was made while nothing validates begins nothing, and the
// endpoint leads to the members of the first. A control plane that refers to the etcd of another Cluster is refused.
func etcdTwice(t *testing.T, e *environment) {
	const name, other = "twice", "twice-other"
	e.up(t, name, "--replicas", "1", "--etcd", "1")
	e.etcdSettled(t, name, 1)
	c, ctx := e.management(t), context.Background()

	err := c.Create(ctx, e.secondEtcd(t, name))
	if err == nil || !strings.Contains(err.Error(), "EtcdCluster "+name+"-etcd keeps the etcd of Cluster "+name) {
		t.Fatalf("a second EtcdCluster gave %v, want it refused", err)
	}
	t.Logf("refused at admission: %v", err)

	second := e.secondEtcd(t, name)
	e.withoutAdmission(t, "etcdclusters", func() {
		if err := c.Create(ctx, second); err != nil {
			t.Fatal(err)
		}
	})
	eventually(t, "the second EtcdCluster says that there is another", patience, func() string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(second), second); err != nil {
			return err.Error()
		}
		if p := second.Status.Plan; p.Reason != "AnotherEtcdCluster" || !strings.Contains(p.Message, name+"-etcd") {
			return fmt.Sprintf("%+v", p)
		}
		return ""
	})
	t.Logf("refused by the rule: %s", second.Status.Plan.Message)
	if made := namesOf(e.machinesWith(t, client.MatchingLabels{etcdclusterv1alpha1.MachineLabel: second.Name})); len(made) > 0 {
		t.Errorf("the second EtcdCluster made the machines %v", made)
	}

	e.refersToOthers(t, other, name+"-etcd")
	if err := c.Delete(ctx, second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second EtcdCluster is gone", patience, func() string {
		if err := c.Get(ctx, client.ObjectKeyFromObject(second), second); apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("it is there: %s", second.Status.Plan.Message)
	})
	e.etcdSettled(t, name, 1)
	eventually(t, "a healthy node", patience, e.healthy(t, name, 1))
	e.takeDown(t, name)
}

// secondEtcd is an EtcdCluster as a cluster's own, of another name.
func (e *environment) secondEtcd(t *testing.T, name string) *etcdclusterv1alpha1.EtcdCluster {
	t.Helper()
	first := e.etcdClusterOf(t, name)
	second := &etcdclusterv1alpha1.EtcdCluster{Spec: first.Spec}
	second.Name, second.Namespace = name+"-second", first.Namespace
	second.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
	return second
}

// withoutAdmission does something while nothing validates a resource.
func (e *environment) withoutAdmission(t *testing.T, resource string, do func()) {
	t.Helper()
	c, ctx := e.management(t), context.Background()
	var all admissionv1.ValidatingWebhookConfigurationList
	if err := c.List(ctx, &all); err != nil {
		t.Fatal(err)
	}
	validates := func(w admissionv1.ValidatingWebhook) bool {
		return slices.ContainsFunc(w.Rules, func(r admissionv1.RuleWithOperations) bool { return slices.Contains(r.Resources, resource) })
	}
	found := 0
	for i := range all.Items {
		before := all.Items[i].DeepCopy()
		all.Items[i].Webhooks = slices.DeleteFunc(all.Items[i].Webhooks, validates)
		if len(all.Items[i].Webhooks) == len(before.Webhooks) {
			continue
		}
		found++
		if err := c.Update(ctx, &all.Items[i]); err != nil {
			t.Fatal(err)
		}
		defer func() {
			before.ResourceVersion = ""
			after := all.Items[i].DeepCopy()
			after.Webhooks = before.Webhooks
			if err := c.Update(ctx, after); err != nil {
				t.Error(err)
			}
		}()
	}
	if found == 0 {
		t.Fatalf("nothing validates %s", resource)
	}
	// An API server learns of the change by its watch.
	eventually(t, "nothing validates "+resource, time.Minute, func() string {
		invalid := &etcdclusterv1alpha1.EtcdCluster{}
		invalid.Name, invalid.Namespace = "a.b", "default"
		if err := c.Create(ctx, invalid, client.DryRunAll); err != nil && strings.Contains(err.Error(), "admission webhook") {
			return err.Error()
		}
		return ""
	})
	do()
}

// refersToOthers asks for a cluster whose control plane refers to the EtcdCluster of another, which is refused, and nothing is made.
func (e *environment) refersToOthers(t *testing.T, name, etcd string) {
	t.Helper()
	manifests := writeManifests(t, name, e.quorate(t, "up", "--dry-run", "--name", name, "--replicas", "1"),
		"\nspec:\n  kubeadmConfigSpec:\n",
		"\nspec:\n  managedExternalEtcdRef:\n    apiGroup: etcdcluster.cluster.x-k8s.io\n    kind: EtcdCluster\n    name: "+etcd+
			"\n  kubeadmConfigSpec:\n")
	_, err := e.try("up", "--network", e.network, "--wait=false", "-f", manifests)
	if err == nil || !strings.Contains(err.Error(), "a control plane can use only the etcd of its own Cluster") {
		t.Fatalf("a reference to the etcd of another Cluster gave %v, want it refused", err)
	}
	t.Logf("refused: %v", err)
	if made := namesOf(e.machinesWith(t, clusterLabels(name))); len(made) > 0 {
		t.Errorf("machines %v were made", made)
	}
}
