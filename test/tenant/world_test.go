package tenant

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// The users, and the namespaces of the tenant, of another team and of the manager.
const (
	managerUser, tenantUser = "manager", "tenant"
	own, others, managers   = "tenant", "victim", "quorate-system"
)

// world is a management cluster with the manager, a tenant, and what the tenant must not reach.
type world struct {
	env           *envtest.Environment
	admin, tenant client.Client
	audit         string
	kubeconfig    string
}

// kind is the definition of a kind that stands for one of a provider.
func kind(group, name string, scope apiextensionsv1.ResourceScope, contract bool) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(name) + "s"
	if strings.HasSuffix(plural, "ys") {
		plural = strings.TrimSuffix(plural, "ys") + "ies"
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group}}
	if contract {
		crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta1"}
	}
	any := true
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: scope,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: name, ListKind: name + "List", Plural: plural,
			Singular: strings.ToLower(name)},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &any},
			}}},
	}
	return crd
}

// targetKinds are the definitions of the targets that no file has.
func targetKinds() []*apiextensionsv1.CustomResourceDefinition {
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, suffix := range []string{"", "Template"} {
		all = append(all, kind(infrastructure, "SharedIdentity"+suffix, apiextensionsv1.ClusterScoped, true),
			kind(foreign, "ForbiddenMachine"+suffix, apiextensionsv1.NamespaceScoped, true),
			kind(infrastructure, "PlainMachine"+suffix, apiextensionsv1.NamespaceScoped, false))
	}
	return all
}

// managerRole is the role of config/rbac.
func managerRole(t testing.TB) *rbacv1.ClusterRole {
	t.Helper()
	return roleIn(t, "../../config/rbac/role.yaml")
}

func roleIn(t testing.TB, file string) *rbacv1.ClusterRole {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(bytes.TrimPrefix(text, []byte("---\n")), role); err != nil {
		t.Fatal(err)
	}
	return role
}

// policy has the API server log what the manager asks for.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: [` + managerUser + `]}
- {level: None}
`

// upstreamModule is the folder of Cluster API's module.
func upstreamModule(t testing.TB) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatalf("finding the module of Cluster API: %v", err)
	}
	return strings.TrimSpace(string(dir))
}

// newWorld starts a management cluster in which the manager has a role.
func newWorld(t testing.TB, role *rbacv1.ClusterRole) *world {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS names no programs of an API server")
	}
	ctrl.SetLogger(logr.Discard())
	root, dir := upstreamModule(t), t.TempDir()
	w := &world{audit: filepath.Join(dir, "audit.log"), env: &envtest.Environment{
		ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: 3 * time.Minute, CRDs: targetKinds(),
		CRDDirectoryPaths: []string{"../../config/crd", filepath.Join(root, "core/config/crd/bases"),
			filepath.Join(root, "bootstrap/kubeadm/config/crd/bases")},
	}}
	policyFile := filepath.Join(dir, "policy.yaml")
	must(t, os.WriteFile(policyFile, []byte(policy), 0o600))
	args := w.env.ControlPlane.GetAPIServer().Configure()
	args.Set("audit-policy-file", policyFile).Set("audit-log-path", w.audit)
	t.Cleanup(func() { _ = w.env.Stop() })
	config, err := w.env.Start()
	must(t, err)
	w.admin, err = client.New(config, client.Options{})
	must(t, err)
	w.people(t, role, dir)
	w.prizes(t)
	return w
}

// people makes the users and their rights.
func (w *world) people(t testing.TB, role *rbacv1.ClusterRole, dir string) {
	t.Helper()
	for _, ns := range []string{own, others, managers} {
		must(t, w.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	}
	must(t, w.admin.Create(t.Context(), role))
	must(t, w.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Subjects: user(managerUser),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}}))
	// As clusterctl and Helm grant it, beside the role.
	must(t, w.admin.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"cluster.x-k8s.io", "*.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io",
			"etcdcluster.cluster.x-k8s.io",
			"upgrade.cluster.x-k8s.io", infrastructure}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"backup.quorate.io"}, Resources: []string{"backupstores"}, Verbs: []string{"*"}}}}))
	must(t, w.admin.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "tenant"},
		Subjects: user(tenantUser),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"}}))
	someone, err := w.env.AddUser(envtest.User{Name: tenantUser}, nil)
	must(t, err)
	config := someone.Config()
	config.QPS, config.Burst = 200, 400
	w.tenant, err = client.New(config, client.Options{})
	must(t, err)
	manager, err := w.env.AddUser(envtest.User{Name: managerUser}, nil)
	must(t, err)
	text, err := manager.KubeConfig()
	must(t, err)
	w.kubeconfig = filepath.Join(dir, "manager.kubeconfig")
	must(t, os.WriteFile(w.kubeconfig, text, 0o600))
}

func user(name string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}
}

// prizes makes what the tenant tries to reach, and what is the tenant's own.
func (w *world) prizes(t testing.TB) {
	t.Helper()
	for _, ns := range []string{own, others, managers} {
		must(t, w.admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prize",
			Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "prize"}}, StringData: map[string]string{"value": "secret-of-" + ns}}))
	}
	store := w.make(t, w.admin, `{apiVersion: backup.quorate.io/v1alpha1, kind: ClusterBackupStore, metadata: {name: prize}, spec: {
		allowedNamespaces: {names: [victim], selector: {matchLabels: {team: victim}}},
		s3: {endpoint: "https://s3.example.com", bucket: prize, credentialsSecretRef: {name: prize}}}}`)
	store.Object["status"] = map[string]any{"userCount": int64(0)} // as the manager reports it before the tenant comes
	must(t, w.admin.Status().Update(t.Context(), store))
	for _, crd := range targetKinds() {
		ns := own
		if crd.Spec.Scope == apiextensionsv1.ClusterScoped {
			ns = ""
		}
		w.make(t, w.admin, fmt.Sprintf("{apiVersion: %s/v1beta1, kind: %s, metadata: {name: prize, namespace: %q}, spec: {template: {spec: {}}}}",
			crd.Spec.Group, crd.Spec.Names.Kind, ns))
	}
	for _, ns := range []string{own, others} {
		w.make(t, w.admin, fmt.Sprintf("{apiVersion: %s/v1alpha1, kind: LocalMachineTemplate, metadata: {name: %q, namespace: %q}, spec: "+
			"{template: {spec: {}}}}",
			infrastructure, map[string]string{own: "own", others: "prize"}[ns], ns))
		w.make(t, w.admin, fmt.Sprintf(
			`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: prize, namespace: %q}, spec: {clusterName: prize,
			bootstrap: {dataSecretName: prize}, infrastructureRef: {apiGroup: %s, kind: LocalMachine, name: prize}}}`, ns, infrastructure))
	}
}

// make creates the object of a manifest.
func (*world) make(t testing.TB, c client.Client, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := parse(t, manifest)
	must(t, c.Create(t.Context(), o))
	return o
}

func parse(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		t.Fatalf("%v in %s", err, manifest)
	}
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// buildManager builds the manager's program.
func buildManager(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "manager")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/manager").CombinedOutput(); err != nil {
		t.Fatalf("building the manager: %v\n%s", err, out)
	}
	return program
}

// run runs the manager until the test ends. It must live until then.
func (w *world) run(t testing.TB, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "manager.log"))
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, buildManager(t), append([]string{"--kubeconfig=" + w.kubeconfig, "--health-addr=0",
		"--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics"}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("the manager ended: %v", err)
		default:
			cancel()
			<-ended
		}
		if text, _ := os.ReadFile(log.Name()); t.Failed() || strings.Contains(string(text), "panic") {
			t.Errorf("the end of the manager's log:\n%s", text[max(0, len(text)-8000):])
		}
	})
}

// write creates the objects of an attempt. The Cluster owns the second object, that owns the third.
func (w *world) write(t testing.TB, c client.Client, a attempt) error {
	t.Helper()
	var owner *unstructured.Unstructured
	for _, manifest := range a.objects {
		o := parse(t, manifest)
		if owner != nil {
			controller := owner.GetKind() != "Cluster"
			o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{
				APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &controller,
			}))
		}
		if err := c.Create(t.Context(), o); err != nil {
			return err
		}
		if o.GetKind() == "Cluster" {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"initialization":{"infrastructureProvisioned":true}}}`))
			if err := c.Status().Patch(t.Context(), o.DeepCopy(), patch); err != nil {
				return err
			}
		}
		owner = o
	}
	return nil
}

// honest makes a control plane of another team, and returns how long it took until the manager said something of it.
func (w *world) honest(t testing.TB, name string) time.Duration {
	t.Helper()
	a := attempt{name: name, objects: []string{clusterFor("", ""), machinesOf + fmt.Sprintf(infraTemplate, harmlessTemplate)}}
	for i, o := range a.objects {
		a.objects[i] = strings.NewReplacer("NAME", name, "namespace: tenant", "namespace: "+others).Replace(o)
	}
	began := time.Now()
	must(t, w.write(t, w.admin, a))
	w.eventually(t, "the manager reports on "+others+"/"+name, func() bool {
		return plan(w.get(t, "controlplane.cluster.x-k8s.io/v1alpha1", "ControlPlane", others, name)) != ""
	})
	return time.Since(began)
}

// get reads an object as the administrator; nil: there is none.
func (w *world) get(t testing.TB, version, kind, ns, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, o); err != nil {
		must(t, client.IgnoreNotFound(err))
		return nil
	}
	return o
}

// plan is what a status says of the next step, and why.
func plan(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	reason, _, _ := unstructured.NestedString(o.Object, "status", "plan", "reason")
	message, _, _ := unstructured.NestedString(o.Object, "status", "plan", "message")
	return strings.TrimSpace(reason + " " + message)
}

// eventually waits for a condition, for a long time.
func (*world) eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) { return met(), nil })
	if err != nil {
		t.Fatalf("%s: not within two minutes", what)
	}
}
