package envtest

import (
	"context"
	"os"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// TestTenant: whoever has the role for tenants in a namespace, and the kubeconfig of one cluster there, has clusters there, and nothing
// elsewhere.
func TestTenant(t *testing.T) {
	needAssets(t)
	c := start(t, &envtest.Environment{})
	data, err := os.ReadFile("../../config/tenant/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, role); err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "team-a"}}
	inA := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team-a", Name: name} }
	kubeconfig := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"demo-kubeconfig"}, Verbs: []string{"get"},
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, role,
		&rbacv1.RoleBinding{ObjectMeta: inA("team-a"), Subjects: subjects, RoleRef: roleRef("ClusterRole", role.Name)},
		&rbacv1.Role{ObjectMeta: inA("demo-kubeconfig"), Rules: []rbacv1.PolicyRule{kubeconfig}},
		&rbacv1.RoleBinding{ObjectMeta: inA("demo-kubeconfig"), Subjects: subjects, RoleRef: roleRef("Role", "demo-kubeconfig")},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, ask := range []struct {
		what    string // VERB RESOURCE[.GROUP] [NAME] in NAMESPACE
		allowed bool
	}{
		{"create clusters.cluster.x-k8s.io in team-a", true},
		{"patch kubeadmcontrolplanes.controlplane.cluster.x-k8s.io in team-a", true},
		{"patch kubeadmcontrolplanes/scale.controlplane.cluster.x-k8s.io in team-a", true},
		{"delete controlplanes.controlplane.cluster.x-k8s.io in team-a", true},
		{"create etcdclusters.etcdcluster.cluster.x-k8s.io in team-a", true},
		{"get nodeupgrades.upgrade.cluster.x-k8s.io in team-a", true},
		{"get secrets demo-kubeconfig in team-a", true},
		{"create clusters.cluster.x-k8s.io in team-b", false},
		{"get kubeadmcontrolplanes.controlplane.cluster.x-k8s.io in team-b", false},
		{"list clusters.cluster.x-k8s.io in ", false},
		{"get secrets demo-ca in team-a", false},
		{"get secrets demo-kubeconfig in team-b", false},
		{"list secrets in team-a", false},
		{"update secrets demo-kubeconfig in team-a", false},
		{"create secrets in team-a", false},
		{"create nodeupgrades.upgrade.cluster.x-k8s.io in team-a", false},
		{"patch kubeadmcontrolplanes/status.controlplane.cluster.x-k8s.io in team-a", false},
		{"patch clusterclasses.cluster.x-k8s.io in team-a", false},
		{"create pods in team-a", false},
		{"create serviceaccounts/token in team-a", false},
		{"create awsclusterroleidentities.infrastructure.cluster.x-k8s.io in ", false},
		{"create awsmachinetemplates.infrastructure.cluster.x-k8s.io in team-a", false},
		{"create extensionconfigs.runtime.cluster.x-k8s.io in ", false},
		{"create rolebindings.rbac.authorization.k8s.io in team-a", false},
		{"get secrets in quorate-system", false},
	} {
		if got := mayTenant(t.Context(), t, c, ask.what); got != ask.allowed {
			t.Errorf("a tenant may %s: %t, want %t", ask.what, got, ask.allowed)
		}
	}
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// mayTenant asks the API server whether somebody of team-a may do something.
func mayTenant(ctx context.Context, t *testing.T, c client.Client, what string) bool {
	t.Helper()
	left, namespace, _ := strings.Cut(what, " in ")
	words := strings.Fields(left + " ")
	resource, group, _ := strings.Cut(words[1], ".")
	resource, sub, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "somebody", Groups: []string{"team-a", "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace:   namespace,
			Verb:        words[0],
			Group:       group,
			Resource:    resource,
			Subresource: sub,
		},
	}}
	if len(words) > 2 {
		review.Spec.ResourceAttributes.Name = words[2]
	}
	if err := c.Create(ctx, review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}
