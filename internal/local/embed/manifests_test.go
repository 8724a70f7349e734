package embed

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/config/rbac"
)

const (
	oldAndNew = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kubeadmconfigs.bootstrap.cluster.x-k8s.io}
spec:
  group: bootstrap.cluster.x-k8s.io
  names: {kind: KubeadmConfig, plural: kubeadmconfigs}
  scope: Namespaced
  versions:
  - {name: v1beta1, served: true, storage: false}
  - {name: v1beta2, served: true, storage: true}
`
	ownKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
  labels: {cluster.x-k8s.io/provider: someone, cluster.x-k8s.io/v1beta2: v1alpha1}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: true}
`
	patchOnly = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kubeadmconfigs.bootstrap.cluster.x-k8s.io}
spec: {conversion: {strategy: Webhook}}
`
	webhooks = `---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating-webhook-configuration}
webhooks:
- name: default.machine
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate-machine}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating-webhook-configuration}
webhooks:
- name: validate.machine
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate-machine}}
`
	roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager-role}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}
---
apiVersion: v1
kind: Service
metadata: {name: webhook-service}
`
)

func TestManifests(t *testing.T) {
	const base = "https://127.0.0.1:9"
	m := &manifests{}
	if err := m.readAll("up", fstest.MapFS{
		"core/crd/bases/a.yaml":       {Data: []byte(oldAndNew)},
		"core/crd/patches/a.yaml":     {Data: []byte(patchOnly)},
		"core/webhook/manifests.yaml": {Data: []byte(webhooks)},
		"core/rbac/role.yaml":         {Data: []byte(roles)},
		"bootstrap/rbac/role.yaml":    {Data: []byte(roles)},
		"bootstrap/README.md":         {Data: []byte("not YAML: {")},
		"own.yaml":                    {Data: []byte(ownKind)},
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.crds {
		adaptCRD(c, base, []byte("authority"))
	}
	for _, h := range m.hooks {
		adaptWebhooks(h, base, []byte("authority"))
	}
	m.bindRoles()
	checkCRDs(t, m.crds)
	checkWebhooks(t, m)
	checkRoles(t, m)
}

func checkCRDs(t *testing.T, crds []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if len(crds) != 2 {
		t.Fatalf("%d definitions, want 2", len(crds))
	}
	bootstrap, own := crds[0], crds[1]
	if c := bootstrap.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter ||
		*c.Webhook.ClientConfig.URL != "https://127.0.0.1:9/convert" || string(c.Webhook.ClientConfig.CABundle) != "authority" {
		t.Errorf("conversion of a kind with two versions: %+v", c)
	}
	if own.Spec.Conversion != nil {
		t.Errorf("conversion of a kind with one version: %+v", own.Spec.Conversion)
	}
	for label, want := range map[string]string{
		"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2", "cluster.x-k8s.io/provider": "bootstrap-kubeadm",
		"clusterctl.cluster.x-k8s.io": "",
	} {
		if got, ok := bootstrap.Labels[label]; !ok || got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	if own.Labels["cluster.x-k8s.io/v1beta2"] != "v1alpha1" || own.Labels["cluster.x-k8s.io/provider"] != "someone" {
		t.Errorf("labels of a kind that says whose it is were changed: %v", own.Labels)
	}
}

func checkWebhooks(t *testing.T, m *manifests) {
	t.Helper()
	if len(m.hooks) != 2 {
		t.Fatalf("%d webhook configurations, want 2", len(m.hooks))
	}
	for _, h := range m.hooks {
		var c admissionv1.WebhookClientConfig
		path := ""
		switch o := h.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			c, path = o.Webhooks[0].ClientConfig, "/mutate-machine"
		case *admissionv1.ValidatingWebhookConfiguration:
			c, path = o.Webhooks[0].ClientConfig, "/validate-machine"
		}
		if c.Service != nil || c.URL == nil || *c.URL != "https://127.0.0.1:9"+path || string(c.CABundle) != "authority" {
			t.Errorf("%T calls %+v, want %s at the server", h, c, path)
		}
	}
}

func checkRoles(t *testing.T, m *manifests) {
	t.Helper()
	users := map[string]string{}
	var defined []string
	for _, o := range m.rbac {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			defined = append(defined, o.Name)
		case *rbacv1.ClusterRoleBinding:
			users[o.RoleRef.Name] = o.Subjects[0].Name
		}
	}
	slices.Sort(defined)
	if want := []string{"up-bootstrap-rbac-manager-role", "up-core-rbac-manager-role"}; !slices.Equal(defined, want) {
		t.Errorf("roles %v, want %v", defined, want)
	}
	for _, role := range defined {
		if users[role] != controllersUser {
			t.Errorf("role %s is bound to %q, want %q", role, users[role], controllersUser)
		}
	}
	for role, user := range users {
		if strings.HasPrefix(role, "system:") && user != collectorUser {
			t.Errorf("role %s is bound to %q, want %q", role, user, collectorUser)
		}
	}
	if len(users) != 4 {
		t.Errorf("bindings %v, want 4", users)
	}
}

// Quorate's own controllers have the role that they have in every management cluster, and nobody else has it.
func TestOwnRole(t *testing.T) {
	m := &manifests{}
	if err := m.readAll("quorate", rbac.Files); err != nil {
		t.Fatal(err)
	}
	m.bindRoles()
	bound := map[string]string{}
	for _, o := range m.rbac {
		if b, ok := o.(*rbacv1.ClusterRoleBinding); ok {
			bound[b.Subjects[0].Name] = b.RoleRef.Name
		}
	}
	if bound[managerUser] != managerRole || bound[controllersUser] != "" {
		t.Errorf("the roles of the users are %v", bound)
	}
}

// The local provider is among the controllers of the one daemon, and may see upgrades in place and say how far it is with them.
func TestLocalRole(t *testing.T) {
	m := &manifests{rbac: []client.Object{localRole()}}
	m.bindRoles()
	for _, o := range m.rbac {
		b, ok := o.(*rbacv1.ClusterRoleBinding)
		if ok && b.RoleRef.Name == localRole().Name && b.Subjects[0].Name == controllersUser {
			return
		}
	}
	t.Errorf("nobody is bound to the role %s", localRole().Name)
}

func TestFingerprint(t *testing.T) {
	print := func(base, extra string) string {
		m := &manifests{}
		if err := m.readAll("up", fstest.MapFS{"a.yaml": {Data: []byte(oldAndNew)},
			"b.yaml": {Data: []byte(roles + "---" + extra)}}); err != nil {
			t.Fatal(err)
		}
		adaptCRD(m.crds[0], base, nil)
		m.bindRoles()
		got, err := m.fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	one := print("https://127.0.0.1:1", "")
	for range 10 {
		if again := print("https://127.0.0.1:1", ""); again != one {
			t.Fatalf("the same manifests: %s and %s", one, again)
		}
	}
	if print("https://127.0.0.1:2", "") == one {
		t.Error("another address of the webhook server is not noticed")
	}
	if print("https://127.0.0.1:1", strings.ReplaceAll(roles, "manager-role", "more")) == one {
		t.Error("another role is not noticed")
	}
}

func TestBadManifest(t *testing.T) {
	m := &manifests{}
	err := m.readAll("up", fstest.MapFS{"dir/a.yaml": {Data: []byte("kind: ClusterRole\nmetadata: {nam: x}\n")}})
	if err == nil || !strings.Contains(err.Error(), "dir/a.yaml") {
		t.Errorf("error %v, want one that names the file", err)
	}
}
