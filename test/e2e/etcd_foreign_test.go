//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/test/plainetcd"
)

// etcdForeign: a control plane keeps its data in the etcd of a provider that knows nothing of Quorate but the contract, on machines of its
// own. It waits for that etcd, begins nothing while its quorum is lost, goes on with all data when it is back, and goes before it.
//
//quorate:shows kubernetes created newer
func etcdForeign(t *testing.T, e *environment) {
	const name = "foreign"
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", writeManifests(t, name, onlyTemplate)) // for the management plane
	e.installPlainEtcd(t)
	start := time.Now()
	e.createPlainEtcd(t, name, 3)
	e.quorate(t, "up", "--network", e.network, "--wait=false", "-f", e.manifests(t, name, newer, "  replicas: 3\n",
		"  managedExternalEtcdRef: {apiGroup: "+plainetcd.Kind.Group+", kind: "+plainetcd.Kind.Kind+"}\n  replicas: 1\n"))
	e.waitsForEtcd(t, name, "PlainEtcd foreign-etcd is not ready: ")
	e.healthyWith(t, name, 1, nil)
	t.Logf("FIGURE three machines of a foreign etcd and one of the control plane on it: %.1f s", time.Since(start).Seconds())
	etcd := e.etcdMachineNames(t, name)
	e.keepsDataIn(t, name, etcd)

	c, _ := e.workload(t, name)
	written := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "before"}}
	if _, err := c.CoreV1().ConfigMaps("default").Create(context.Background(), written, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.quorate(t, append([]string{"machine", "stop"}, etcd[1:]...)...)
	e.change(t, name, func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To(int32(2)) })
	e.saysEtcdIsLost(t, name)
	if now := e.machines(t, name); len(now) != 1 {
		t.Errorf("while etcd does not answer the machines became %v", now)
	}
	start = time.Now()
	e.quorate(t, append([]string{"machine", "start"}, etcd[1:]...)...)
	e.healthyWith(t, name, 2, nil)
	t.Logf("FIGURE from the start of two lost members of three to a second machine of the control plane: %.1f s", time.Since(start).Seconds())
	if _, err := c.CoreV1().ConfigMaps("default").Get(context.Background(), written.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("what was written before etcd failed: %v", err)
	}

	ctx, stop := context.WithCancel(context.Background())
	early := e.etcdGoesLast(t, ctx, name)
	e.takeDown(t, name)
	stop()
	if found := <-early; found != "" {
		t.Error(found)
	}
	e.plainEtcdGone(t, name)
}

// onlyTemplate is a manifest of which nothing is made.
const onlyTemplate = `apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalMachineTemplate
metadata: {name: unused, namespace: default}
spec: {template: {spec: {}}}
`

// waitsForEtcd waits until a control plane has seen its newest spec and waits for etcd with these words.
func (e *environment) waitsForEtcd(t *testing.T, name, words string) {
	t.Helper()
	eventually(t, words, patience, func() string {
		kcp := e.controlPlane(t, name)
		p := kcp.Status.Plan
		if p.Reason != "EtcdNotReady" || !strings.Contains(p.Message, words) || kcp.Status.ObservedGeneration != kcp.Generation {
			return p.Reason + ": " + p.Message
		}
		return ""
	})
}

// saysEtcdIsLost waits until a control plane, which has seen its newest spec, says that no member of its etcd serves, and waits.
func (e *environment) saysEtcdIsLost(t *testing.T, name string) {
	t.Helper()
	eventually(t, "it says that etcd is lost", patience, func() string {
		kcp := e.controlPlane(t, name)
		said := conditions.Get(kcp, controlplanev1.ExternalEtcdHealthyCondition)
		waits := kcp.Status.ObservedGeneration == kcp.Generation && kcp.Status.Plan.Step == "Wait"
		if said == nil || said.Status != metav1.ConditionFalse || !waits {
			return fmt.Sprintf("%+v; %+v", said, kcp.Status.Plan)
		}
		for n := range 3 {
			if !strings.Contains(said.Message, "* "+e.plainAddress(t, n)+":2379: ") {
				return said.Message
			}
		}
		if out := e.quorate(t, "explain", name); !strings.Contains(out, "no endpoint of the external etcd is healthy: ") {
			return out
		}
		return ""
	})
}

// installPlainEtcd installs the foreign provider as docs/etcd.md says: its definition, the role that Quorate needs for its kind, and the
// provider.
func (e *environment) installPlainEtcd(t *testing.T) {
	t.Helper()
	definition, err := plainetcd.Definition()
	if err != nil {
		t.Fatal(err)
	}
	rule := rbacv1.PolicyRule{
		APIGroups: []string{plainetcd.Kind.Group}, Resources: []string{plainetcd.Resource}, Verbs: []string{"get", "list", "watch"},
	}
	e.granted = append(e.granted, rule)
	meta := metav1.ObjectMeta{Name: "plain-etcd"}
	for _, o := range []client.Object{
		definition,
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "quorate:manager"}},
		},
	} {
		if err := e.management(t).Create(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(plainetcd.Kind.GroupVersion().WithKind(plainetcd.Kind.Kind + "List"))
	eventually(t, "the kind is served", patience, func() string {
		if err := e.management(t).List(context.Background(), all); err != nil {
			return err.Error()
		}
		return ""
	})
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(e.quorate(t, "kubeconfig", "--management")))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- plainetcd.Run(ctx, config) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the foreign provider: %v", err)
		}
	})
}

// createPlainEtcd creates a cluster's etcd of the foreign provider.
func (e *environment) createPlainEtcd(t *testing.T, name string, members int) {
	t.Helper()
	var all []any
	for n := range members {
		address := e.plainAddress(t, n)
		all = append(all, map[string]any{"address": address, "infrastructureSpec": map[string]any{"addresses": []any{address}}})
	}
	const version = "3.6.16"
	etcd := plainEtcd(name)
	etcd.SetLabels(map[string]string{clusterv1.ClusterNameLabel: name})
	etcd.Object["spec"] = map[string]any{
		"archive":        "/var/cache/etcdadm/etcd/v" + version + "/etcd-v" + version + "-linux-amd64.tar.gz",
		"infrastructure": map[string]any{"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "LocalMachine"},
		"members":        all,
	}
	if err := e.management(t).Create(context.Background(), etcd); err != nil {
		t.Fatal(err)
	}
}

// plainAddress is the address of a member of the foreign provider's etcd.
func (e *environment) plainAddress(t *testing.T, n int) string {
	t.Helper()
	return fmt.Sprintf("%s.9.%d", e.prefix(t), n+31)
}

// plainEtcd is a cluster's object of the foreign provider.
func plainEtcd(name string) *unstructured.Unstructured {
	etcd := &unstructured.Unstructured{}
	etcd.SetGroupVersionKind(plainetcd.Kind)
	etcd.SetNamespace("default")
	etcd.SetName(name + "-etcd")
	return etcd
}

// keepsDataIn checks with the members themselves that all of them have a cluster's data, and that its machines run no member.
func (e *environment) keepsDataIn(t *testing.T, name string, members []string) {
	t.Helper()
	if len(members) != 3 {
		t.Fatalf("the machines of etcd are %v, want three", members)
	}
	for n, m := range members {
		command := "/opt/etcd/etcdctl --endpoints https://" + e.plainAddress(t, n) + ":2379 --cacert /etc/etcd/ca.crt" +
			" --cert /etc/etcd/member.crt --key /etc/etcd/member.key get /registry/namespaces/kube-system --keys-only"
		if out := e.quorate(t, "shell", m, "--", "sh", "-c", command); !strings.Contains(out, "/registry/namespaces/kube-system") {
			t.Errorf("the member on %s has not got the cluster's data: %s", m, out)
		}
	}
	for _, m := range e.machines(t, name) {
		if out, err := e.try("shell", m, "--", "pgrep", "-x", "etcd"); err == nil {
			t.Errorf("a member runs on %s of the control plane: process %s", m, out)
		}
	}
}

// plainEtcdGone waits until nothing is left of a cluster's foreign etcd.
func (e *environment) plainEtcdGone(t *testing.T, name string) {
	t.Helper()
	c := e.management(t)
	etcd := plainEtcd(name)
	eventually(t, "etcd is gone", patience, func() string {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(etcd), etcd); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there: %v", err)
		}
		return ""
	})
	secrets := &corev1.SecretList{}
	if err := c.List(context.Background(), secrets, clusterLabels(name)); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets.Items {
		if slices.Contains([]string{name + "-etcd", name + "-managed-etcd", name + "-apiserver-etcd-client"}, s.Name) {
			t.Errorf("secret %s is left", s.Name)
		}
	}
}
