package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/manager"
)

// serviceAccount is whom the manager of config/default is to the API server.
const serviceAccount = "system:serviceaccount:quorate-system:quorate-manager"

// watched are the kinds that controllers watch, or read from the cache, wherever Quorate runs.
func watched() []client.Object {
	return []client.Object{
		&clusterv1.Cluster{}, &clusterv1.Machine{}, &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}, &clusterv1.MachineHealthCheck{},
		&clusterv1.MachinePool{},
		&controlplanev1.KubeadmControlPlane{}, &controlplanev1alpha1.ControlPlane{}, &etcdclusterv1alpha1.EtcdCluster{},
		&bootstrapv1alpha1.EtcdadmConfig{},
		&upgradev1.NodeUpgrade{}, &upgradev1.ControlPlaneUpgrade{}, &upgradev1.MachineDeploymentUpgrade{},
		&apiextensionsv1.CustomResourceDefinition{},
	}
}

// objects returns what is rendered from a folder of config/, by what it is called.
func objects(t *testing.T, folder string) map[string]unstructured.Unstructured {
	t.Helper()
	data, err := render(filepath.Join(sources, "config", folder))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, data)
}

func read(t *testing.T, data []byte) map[string]unstructured.Unstructured {
	t.Helper()
	all, err := utilyaml.ToUnstructured(data)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]unstructured.Unstructured{}
	for _, o := range all {
		named[fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())] = o
	}
	if len(named) != len(all) {
		t.Errorf("of %d objects %d have names of their own", len(all), len(named))
	}
	return named
}

// TestNoVariables: only clusterctl puts something in for variables.
func TestNoVariables(t *testing.T) {
	for _, folder := range []string{"default", "namespaced"} {
		data, err := render(filepath.Join(sources, "config", folder))
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`.*\$\{.*`).Find(data); found != nil {
			t.Errorf("config/%s has %s", folder, found)
		}
	}
}

// TestImage: kustomize's images change the image, as docs/install.md says.
func TestImage(t *testing.T) {
	overlay := t.TempDir()
	absolute, err := filepath.Abs(filepath.Join(sources, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(overlay, absolute)
	if err != nil {
		t.Fatal(err)
	}
	text := "resources: [" + relative +
		"]\nimages:\n- {name: ghcr.io/quorate/quorate-manager, newName: registry.example.com/mine, newTag: v9}\n"
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := render(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "image: registry.example.com/mine:v9\n") || strings.Contains(string(data), "ghcr.io/") {
		t.Error("the image is another")
	}
}

// TestDefault: what config/default renders is applied by kubectl to a real API server, its pods are admitted where the strictest profile is
// enforced, and its rights are those that the manager needs.
func TestDefault(t *testing.T) {
	c := start(t, coreKinds(t))
	// What manifests of before left there.
	c.kubectl(t, "create", "clusterrolebinding", "quorate-manager", "--clusterrole=quorate-manager",
		"--serviceaccount=quorate-system:quorate-manager")
	c.kubectl(t, "apply", "-k", filepath.Join(sources, "config", "default"))
	shell(t, c.kubeconfig, documented(t, "docs/operating.md", "## After an update of the manager"))
	c.kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd", "-l", "clusterctl.cluster.x-k8s.io")
	for name, want := range objects(t, "default") {
		got := want.DeepCopy()
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(&want), got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Run("pods", c.pods)
	t.Run("budget", c.budget)
	t.Run("rights", c.rights)
	t.Run("manager", func(t *testing.T) { c.run(t, serviceAccount, manager.Options{}, watched()...) })
}

// pods: both replicas are admitted, with the priority of their class.
func (c *cluster) pods(t *testing.T) {
	var pods corev1.PodList
	eventually(t, "two pods", func(ctx context.Context) bool {
		return c.client.List(ctx, &pods, client.InNamespace("quorate-system")) == nil && len(pods.Items) == 2
	})
	for _, p := range pods.Items {
		if p.Spec.Priority == nil || *p.Spec.Priority != 1000000000 {
			t.Errorf("its priority is %v", p.Spec.Priority)
		}
		if p.Spec.ServiceAccountName != "quorate-manager" {
			t.Errorf("its service account is %s", p.Spec.ServiceAccountName)
		}
		var limited bool
		for _, e := range p.Spec.Containers[0].Env {
			limited = limited || e.Name == "GOMEMLIMIT" && e.ValueFrom.ResourceFieldRef.Resource == "limits.memory"
		}
		if !limited || p.Spec.Containers[0].Resources.Limits.Memory().IsZero() {
			t.Errorf("Go's limit is not the container's: %+v", p.Spec.Containers[0].Env)
		}
	}
	// Beside what any image gets, the image may be replaced by one that asks for more: the namespace does not let it.
	bad := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "quorate-system", Name: "root"}, Spec: *pods.Items[0].Spec.DeepCopy()}
	bad.Spec.SecurityContext = nil
	bad.Spec.Containers[0].SecurityContext = nil
	if err := c.client.Create(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("a pod without restrictions: %v", err)
	}
}

// budget: the disruption budget is for the manager's pods.
func (c *cluster) budget(t *testing.T) {
	eventually(t, "a budget of two pods", func(ctx context.Context) bool {
		var b policyv1.PodDisruptionBudget
		return c.client.Get(ctx, client.ObjectKey{Namespace: "quorate-system", Name: "quorate-manager"}, &b) == nil && b.Status.ExpectedPods == 2
	})
}

// rights: the manager has its own role, and what others add to it by the label that upstream's provider has.
func (c *cluster) rights(t *testing.T) {
	ctx := t.Context()
	eventually(t, "the manager's own rights", func(ctx context.Context) bool {
		return c.may(ctx, t, serviceAccount, "patch", "kubeadmcontrolplanes", "controlplane.cluster.x-k8s.io", "any")
	})
	for _, r := range []struct {
		verb, resource, group string
		allowed               bool
	}{
		{"create", "awsmachines", "infrastructure.cluster.x-k8s.io", true},
		{"create", "tokenreviews", "authentication.k8s.io", true},
		{"list", "secrets", "", false},
		{"get", "pods", "", false},
		{"create", "machines", "infrastructure.example.com", false},
	} {
		if got := c.may(ctx, t, serviceAccount, r.verb, r.resource, r.group, "any"); got != r.allowed {
			t.Errorf("%s %s.%s: %t, want %t", r.verb, r.resource, r.group, got, r.allowed)
		}
	}
	if c.may(ctx, t, serviceAccount, "update", "leases", "coordination.k8s.io", "any") ||
		!c.may(ctx, t, serviceAccount, "update", "leases", "coordination.k8s.io", "quorate-system") {
		t.Error("the lease is to be kept in the manager's own namespace only")
	}
	// Cluster API's core has the second label on its own role too, whose rights over secrets and Nodes are nothing to have.
	for _, role := range []struct{ label, group string }{
		{"cluster.x-k8s.io/aggregate-to-manager", "core.example.com"},
		{"kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager", "infrastructure.example.com"},
	} {
		err := c.client.Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: role.group, Labels: map[string]string{role.label: "true"}},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{role.group}, Resources: []string{"machines"}, Verbs: []string{"create"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "rights that an infrastructure provider adds", func(ctx context.Context) bool {
		return c.may(ctx, t, serviceAccount, "create", "machines", "infrastructure.example.com", "any")
	})
	if c.may(ctx, t, serviceAccount, "create", "machines", "core.example.com", "any") {
		t.Error("it has the rights of Cluster API's core")
	}
}

// TestNamespaced: with config/namespaced the manager may work in one namespace, and needs no more than it may.
func TestNamespaced(t *testing.T) {
	c := start(t, coreKinds(t))
	c.kubectl(t, "apply", "--server-side", "-k", filepath.Join(sources, "config", "namespaced"))
	c.kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "crd", "-l", "clusterctl.cluster.x-k8s.io")
	ctx := t.Context()
	eventually(t, "rights in the namespace", func(ctx context.Context) bool {
		return c.may(ctx, t, serviceAccount, "patch", "kubeadmcontrolplanes", "controlplane.cluster.x-k8s.io", "default")
	})
	for _, namespace := range []string{"", "kube-system"} {
		for _, r := range [][3]string{{"patch", "kubeadmcontrolplanes", "controlplane.cluster.x-k8s.io"}, {"get", "secrets", ""},
			{"list", "machines", "cluster.x-k8s.io"}} {
			if c.may(ctx, t, serviceAccount, r[0], r[1], r[2], namespace) {
				t.Errorf("it may %s %s in the namespace %q", r[0], r[1], namespace)
			}
		}
	}
	var d appsv1.Deployment
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: "quorate-system", Name: "quorate-manager"}, &d); err != nil {
		t.Fatal(err)
	}
	if args := d.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--namespace=default") {
		t.Errorf("the manager has %q", args)
	}
	t.Run("manager", func(t *testing.T) { c.run(t, serviceAccount, manager.Options{Namespace: "default"}, watched()...) })
	t.Run("a second release", c.secondRelease)
}

// TestNamespacedDiffers: config/namespaced is config/default but for rights and one argument.
func TestNamespacedDiffers(t *testing.T) {
	all, namespaced := objects(t, "default"), objects(t, "namespaced")
	var different []string
	for name := range maps.Keys(all) {
		if o, ok := namespaced[name]; !ok {
			different = append(different, "-"+name)
		} else if !maps.EqualFunc(o.Object, all[name].Object, func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			different = append(different, name)
		}
	}
	for name := range maps.Keys(namespaced) {
		if _, ok := all[name]; !ok {
			different = append(different, "+"+name)
		}
	}
	slices.Sort(different)
	want := []string{
		"+ClusterRole /quorate-cluster", "+ClusterRoleBinding /quorate-cluster", "+RoleBinding default/quorate-namespace",
		"-ClusterRoleBinding /quorate-aggregated-manager", "Deployment quorate-system/quorate-manager",
	}
	if !slices.Equal(different, want) {
		t.Errorf("%q differ, want %q", different, want)
	}
}

// TestCertificates verifies that each Certificate has a subject. A self-signed one without a subject has no issuer either, and OpenSSL
// (curl) refuses it. TestChart compares the chart's with config/default's.
func TestCertificates(t *testing.T) {
	for _, folder := range []string{"default", "namespaced", "clusterctl/bootstrap", "clusterctl/control-plane",
		"clusterctl/runtime-extension"} {
		found := 0
		for name, o := range objects(t, folder) {
			if o.GetKind() != "Certificate" {
				continue
			}
			found++
			if of, _, err := unstructured.NestedStringSlice(o.Object, "spec", "subject", "organizations"); err != nil || len(of) == 0 {
				t.Errorf("%s: %s has no spec.subject.organizations: %q, %v", folder, name, of, err)
			}
		}
		if found == 0 {
			t.Errorf("%s has no Certificate", folder)
		}
	}
}
