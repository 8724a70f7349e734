package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/tree"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// state is what a namespace holds that management clusters are about: by kind and name, all that is written for others to read, but no
// status.
type state map[string]map[string]any

// state reads a namespace.
func (c *cluster) state(t *testing.T, namespace string) state {
	t.Helper()
	found := state{}
	for _, o := range c.read(t, namespace) {
		found[o.GetKind()+"/"+o.GetName()] = said(o)
	}
	return found
}

// read reads the objects of a namespace that management clusters are about.
func (c *cluster) read(t *testing.T, namespace string) []unstructured.Unstructured {
	t.Helper()
	var definitions apiextensionsv1.CustomResourceDefinitionList
	if err := c.client.List(t.Context(), &definitions, client.HasLabels{clusterctlv1.ClusterctlLabel}); err != nil {
		t.Fatal(err)
	}
	kinds := []schema.GroupVersionKind{{Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ConfigMap"}}
	for _, d := range definitions.Items {
		if d.Spec.Scope == apiextensionsv1.NamespaceScoped && d.Spec.Group != clusterctlv1.GroupVersion.Group {
			i := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
			kinds = append(kinds, schema.GroupVersionKind{Group: d.Spec.Group, Version: d.Spec.Versions[i].Name, Kind: d.Spec.Names.Kind})
		}
	}
	var found []unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.GetName() != "kube-root-ca.crt" {
				found = append(found, o)
			}
		}
	}
	return found
}

// said is what an object says, whatever its management cluster made of it: owners are known by their names.
func said(o unstructured.Unstructured) map[string]any {
	kept := maps.Clone(o.Object)
	delete(kept, "status")
	var owners []string
	for _, r := range o.GetOwnerReferences() {
		owners = append(owners, fmt.Sprintf("%s %s/%s controller=%t", r.APIVersion, r.Kind, r.Name, ptr.Deref(r.Controller, false)))
	}
	slices.Sort(owners)
	kept["metadata"] = map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "finalizers": o.GetFinalizers(),
		"owners": owners}
	return kept
}

// compare fails the test where two states differ.
func compare(t *testing.T, got, want state) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] == nil {
			t.Errorf("%s is not there", name)
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(want[name])) {
			if !apiequality.Semantic.DeepEqual(got[name][field], want[name][field]) {
				t.Errorf("%s: %s is %v, was %v", name, field, got[name][field], want[name][field])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if want[name] == nil {
			t.Errorf("%s is there", name)
		}
	}
}

// install installs all of Quorate's providers and Cluster API's kinds. Webhooks are removed: no pod runs that could answer.
func (c *cluster) install(ctx context.Context, cli clusterctl.Client) error {
	_, err := cli.Init(ctx, clusterctl.InitOptions{
		Kubeconfig: clusterctl.Kubeconfig{Path: c.kubeconfig}, CoreProvider: "cluster-api:" + upstreamVersion,
		BootstrapProviders: []string{"kubeadm", name}, ControlPlaneProviders: []string{name},
		InfrastructureProviders: []string{name}, RuntimeExtensionProviders: []string{name},
	})
	for _, o := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{},
		&admissionregistrationv1.MutatingWebhookConfiguration{}} {
		if err == nil {
			err = c.client.DeleteAllOf(ctx, o)
		}
	}
	return err
}

// owners fails the test where an owner that somebody names is not there by that UID: the garbage collector would take what it owns.
func (c *cluster) owners(t *testing.T, namespace string) {
	t.Helper()
	all := c.read(t, namespace)
	there := map[types.UID]string{}
	for _, o := range all {
		there[o.GetUID()] = o.GetKind() + "/" + o.GetName()
	}
	for _, o := range all {
		for _, r := range o.GetOwnerReferences() {
			if there[r.UID] != r.Kind+"/"+r.Name {
				t.Errorf("%s/%s: its owner %s %s is not there by the UID %s", o.GetKind(), o.GetName(), r.Kind, r.Name, r.UID)
			}
		}
	}
}

// TestMove: `clusterctl move` takes all along that Quorate's decisions rest on, and leaves nothing behind.
func TestMove(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	a, b := start(t), start(t)
	repository := repositoryOf(t)
	core(t, repository)
	upstream(t, repository, "bootstrap/kubeadm", "bootstrap-kubeadm", "bootstrap-components.yaml", "capi-kubeadm-bootstrap-system")
	cli, err := clusterctl.New(t.Context(), configuration(t, repository, nil))
	if err != nil {
		t.Fatal(err)
	}
	installed := make(chan error, 1)
	go func() { installed <- b.install(t.Context(), cli) }()
	if err := errors.Join(a.install(t.Context(), cli), <-installed); err != nil {
		t.Fatal(err)
	}
	a.fill(t)
	t.Run("describe", func(t *testing.T) { testDescribe(t, a, cli) })
	t.Run("move", func(t *testing.T) { testMove(t, a, b, cli) })
	t.Run("etcd", func(t *testing.T) { testMoveEtcd(t, a, b, cli) })
	t.Run("upgrade", func(t *testing.T) { testUpgrade(t, b, cli, repository) })
}

// testDescribe: `clusterctl describe cluster` shows control planes of all kinds, with their conditions, and their machines.
func testDescribe(t *testing.T, c *cluster, cli clusterctl.Client) {
	for _, row := range []struct {
		namespace, cluster string
		want               []string
	}{
		{"default", "small", []string{
			"KubeadmControlPlane/small-cp Available", "  Machine/small-cp-1", "LocalCluster/small",
			"WorkerGroup/Workers", "  MachineDeployment/small-workers", "    Machine/small-worker-1",
		}},
		{"default", "machines", []string{"ControlPlane/machines-cp Available", "  Machine/machines-cp-1", "LocalCluster/machines"}},
		{apart, apart, []string{"KubeadmControlPlane/apart-cp Available", "LocalCluster/apart", "WorkerGroup/Workers", "  OtherGroup/Other",
			"    Machine/apart-etcd-1"}},
	} {
		found, err := cli.DescribeCluster(t.Context(), clusterctl.DescribeClusterOptions{
			Kubeconfig: clusterctl.Kubeconfig{Path: c.kubeconfig}, Namespace: row.namespace, ClusterName: row.cluster,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := below(found, found.GetRoot(), ""); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(row.want))) {
			t.Errorf("%s:\n%s\nwant\n%s", row.cluster, strings.Join(got, "\n"), strings.Join(row.want, "\n"))
		}
	}
}

// below are the objects below another one in a tree. Of what belongs to one Machine nothing is said.
func below(all *tree.ObjectTree, parent client.Object, indent string) []string {
	var lines []string
	for _, o := range all.GetObjectsByParent(parent.GetUID()) {
		line := indent + o.GetObjectKind().GroupVersionKind().Kind + "/" + o.GetName()
		if condition := tree.GetAvailableCondition(o); condition != nil && strings.HasSuffix(o.GetName(), "-cp") {
			line += " " + condition.Type
		}
		lines = append(lines, line)
		if _, is := o.(*clusterv1.Machine); !is {
			lines = append(lines, below(all, o, indent+"  ")...)
		}
	}
	return lines
}

// testMove: all in a namespace goes to another management cluster, in the middle of an update in place.
func testMove(t *testing.T, a, b *cluster, cli clusterctl.Client) {
	o := clusterctl.MoveOptions{FromKubeconfig: clusterctl.Kubeconfig{Path: a.kubeconfig}, Namespace: "default", DryRun: true}
	before := a.state(t, "default")
	if err := cli.Move(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	compare(t, a.state(t, "default"), before)
	o.DryRun, o.ToKubeconfig.Path = false, b.kubeconfig
	if err := cli.Move(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	compare(t, b.state(t, "default"), before)
	b.owners(t, "default")
	compare(t, a.state(t, "default"), state{})
}

// testMoveEtcd: machines of etcd have no Nodes, and clusterctl refuses to move or to save such a cluster until they say that they have.
// Saved and restored, it is as it was.
func testMoveEtcd(t *testing.T, a, b *cluster, cli clusterctl.Client) {
	o := clusterctl.MoveOptions{FromKubeconfig: clusterctl.Kubeconfig{Path: a.kubeconfig}, Namespace: apart, ToDirectory: t.TempDir()}
	if err := cli.Move(t.Context(), o); err == nil || !strings.Contains(err.Error(), "still provisioning the node") {
		t.Fatalf("machines without Nodes: %v", err)
	}
	untouched := a.state(t, apart)
	commands := strings.NewReplacer("name=NAME", "name="+apart, "=NEW", "="+b.inNamespace(t, apart)).Replace(documented(t, "docs/operating.md",
		"### With an EtcdCluster"))
	mine, _, _ := strings.Cut(commands, "\n")
	pause, unpause, found := strings.Cut(commands, "clusterctl move ...\n")
	if !found {
		t.Fatalf("clusterctl does not move anything:\n%s", commands)
	}
	shell(t, a.inNamespace(t, apart), pause)
	before := a.state(t, apart)
	if err := cli.Move(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	compare(t, a.state(t, apart), before)
	if err := cli.Move(t.Context(), clusterctl.MoveOptions{ToKubeconfig: clusterctl.Kubeconfig{Path: b.kubeconfig},
		FromDirectory: o.ToDirectory}); err != nil {
		t.Fatal(err)
	}
	compare(t, b.state(t, apart), before)
	b.owners(t, apart)
	shell(t, a.inNamespace(t, apart), mine+"\n"+unpause)
	compare(t, b.state(t, apart), untouched)
}

// testUpgrade: `clusterctl upgrade` plans and installs a newer version of all of Quorate's providers, and no object that they keep changes.
func testUpgrade(t *testing.T, c *cluster, cli clusterctl.Client, repository string) {
	const newer = "v0.1.8"
	o := options{root: sources, out: repository, version: newer, image: "registry.example.com/manager"}
	if err := o.write(); err != nil {
		t.Fatal(err)
	}
	// What the newer version does not have any more: of it clusterctl deletes what is in a namespace.
	ofBefore := metav1.ObjectMeta{Name: "quorate-of-before", Labels: map[string]string{"clusterctl.cluster.x-k8s.io": "",
		"cluster.x-k8s.io/provider": "control-plane-quorate"}}
	role, account := &rbacv1.ClusterRole{ObjectMeta: ofBefore}, &corev1.ServiceAccount{ObjectMeta: ofBefore}
	account.Namespace = "quorate-system"
	for _, object := range []client.Object{role, account} {
		if err := c.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	before := c.state(t, "default")
	from := clusterctl.Kubeconfig{Path: c.kubeconfig}
	plans, err := cli.PlanUpgrade(t.Context(), clusterctl.PlanUpgradeOptions{Kubeconfig: from})
	if err != nil || len(plans) != 1 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	for _, p := range plans[0].Providers {
		if want := map[bool]string{true: newer}[p.ProviderName == name]; p.NextVersion != want {
			t.Errorf("%s goes from %s to %q, want %q", p.Name, p.Version, p.NextVersion, want)
		}
	}
	if err := cli.ApplyUpgrade(t.Context(), clusterctl.ApplyUpgradeOptions{Kubeconfig: from, Contract: plans[0].Contract}); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(account), account); !apierrors.IsNotFound(err) {
		t.Errorf("a ServiceAccount of the version before: %v", err)
	}
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
		t.Errorf("a ClusterRole of the version before: %v", err)
	}
	images := c.kubectl(t, "get", "deployments", "--all-namespaces", "--output=jsonpath={.items[*].spec.template.spec.containers[*].image}")
	if want := strings.TrimSpace(strings.Repeat("registry.example.com/manager:"+newer+" ", 3)); images != want {
		t.Errorf("managers run %s, want %s", images, want)
	}
	compare(t, c.state(t, "default"), before)
}
