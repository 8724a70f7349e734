package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// upstreamControlPlane writes upstream's kubeadm control plane provider into a repository, as its sources have it, and a configuration file
// that names it too.
func upstreamControlPlane(t *testing.T, repository string) string {
	t.Helper()
	module := moduleDir(t, "sigs.k8s.io/cluster-api")
	data, err := render(filepath.Join(module, "controlplane", "kubeadm", "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := os.ReadFile(filepath.Join(module, "metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(repository, "control-plane-kubeadm", upstreamVersion)
	if err := (provider{Components: "control-plane-components.yaml"}).write(folder, data, metadata); err != nil {
		t.Fatal(err)
	}
	file := configuration(t, repository, nil)
	var config map[string]any
	if data, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	config["providers"] = append(config["providers"].([]any), map[string]any{
		"name": "kubeadm", "type": string(clusterctlv1.ControlPlaneProviderType), "url": "file://" +
			filepath.Join(folder, "control-plane-components.yaml"),
	})
	if data, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// migration is a management cluster whose provider of KubeadmControlPlanes changes.
type migration struct {
	*testing.T
	*cluster
	clusterctl clusterctl.Client
	// plane is the control plane as it was written last.
	plane *unstructured.Unstructured
}

// install installs a control plane provider. Writes pass that its webhooks are asked about: no pod runs here that could answer.
func (m *migration) install(name string, o clusterctl.InitOptions) {
	m.Helper()
	o.Kubeconfig.Path, o.ControlPlaneProviders = m.kubeconfig, []string{name}
	if _, err := m.clusterctl.Init(m.Context(), o); err != nil {
		m.Fatal(err)
	}
	m.unanswered()
	// clusterctl takes the namespace in which it tries cert-manager for one that is there while it is being deleted, and then waits for
	// objects in a namespace that is gone.
	eventually(m.T, "deleting the namespace in which clusterctl tried cert-manager", func(ctx context.Context) bool {
		return apierrors.IsNotFound(m.client.Get(ctx, client.ObjectKey{Name: "cert-manager-test"}, &corev1.Namespace{}))
	})
}

// remove removes a control plane provider.
func (m *migration) remove(name string, withKinds bool) error {
	return m.clusterctl.Delete(m.Context(), clusterctl.DeleteOptions{
		Kubeconfig: clusterctl.Kubeconfig{Path: m.kubeconfig}, ControlPlaneProviders: []string{name}, IncludeCRDs: withKinds,
	})
}

// unanswered lets writes pass that webhooks are asked about.
func (m *migration) unanswered() {
	m.Helper()
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	if err := m.client.List(m.Context(), &validating); err != nil {
		m.Fatal(err)
	}
	if err := m.client.List(m.Context(), &mutating); err != nil {
		m.Fatal(err)
	}
	if len(validating.Items) == 0 || len(mutating.Items) == 0 {
		m.Error("there are no webhooks")
	}
	for _, w := range validating.Items {
		for i := range w.Webhooks {
			w.Webhooks[i].FailurePolicy, w.Webhooks[i].TimeoutSeconds = ptr.To(admissionregistrationv1.Ignore), ptr.To(int32(1))
		}
		if err := m.client.Update(m.Context(), &w); err != nil {
			m.Fatal(err)
		}
	}
	for _, w := range mutating.Items {
		for i := range w.Webhooks {
			w.Webhooks[i].FailurePolicy, w.Webhooks[i].TimeoutSeconds = ptr.To(admissionregistrationv1.Ignore), ptr.To(int32(1))
		}
		if err := m.client.Update(m.Context(), &w); err != nil {
			m.Fatal(err)
		}
	}
}

// kept reads the control plane and its definition: the first must be as it was, the second be a provider's.
func (m *migration) kept(label, service string) {
	m.Helper()
	now := m.plane.DeepCopy()
	if err := m.client.Get(m.Context(), client.ObjectKeyFromObject(now), now); err != nil {
		m.Fatal(err)
	}
	for _, field := range []string{"spec", "status"} {
		if !apiequality.Semantic.DeepEqual(now.Object[field], m.plane.Object[field]) {
			m.Errorf("%s is %v, was %v", field, now.Object[field], m.plane.Object[field])
		}
	}
	if now.GetUID() != m.plane.GetUID() || now.GetGeneration() != m.plane.GetGeneration() {
		m.Errorf("it is %s, generation %d; was %s, %d", now.GetUID(), now.GetGeneration(), m.plane.GetUID(), m.plane.GetGeneration())
	}
	for _, kind := range []string{"kubeadmcontrolplanes", "kubeadmcontrolplanetemplates"} {
		got := m.kubectl(m.T, "get", "crd", kind+".controlplane.cluster.x-k8s.io",
			"--output=jsonpath={.metadata.labels.cluster\\.x-k8s\\.io/provider} {.spec.conversion.webhook.clientConfig.service.name} "+
				"{.status.storedVersions}")
		if want := fmt.Sprintf(`%s %s ["v1beta2"]`, label, service); got != want {
			m.Errorf("the definition of %s is %s, want %s", kind, got, want)
		}
	}
}

// left are the objects that say that they are a provider's, but for its definitions.
func (m *migration) left(label string) []string {
	m.Helper()
	kinds := strings.Fields(m.kubectl(m.T, "api-resources", "--verbs=list", "--output=name"))
	kinds = slices.DeleteFunc(kinds, func(k string) bool {
		return k == "events" || k == "componentstatuses" || k == "endpoints" || strings.HasPrefix(k, "events.") ||
			strings.HasPrefix(k, "customresourcedefinitions.")
	})
	found := strings.Fields(m.kubectl(m.T, "get", strings.Join(kinds, ","), "--all-namespaces", "--selector=cluster.x-k8s.io/provider="+label,
		"--output=name"))
	slices.Sort(found)
	return found
}

const (
	upstreamNamespace = "capi-kubeadm-control-plane-system"
	upstreamService   = "capi-kubeadm-control-plane-webhook-service"
)

// TestMigrate: Quorate comes in the place of upstream's provider, and upstream's again in its place, as docs/migrate.md says, and the
// control plane stays as it was.
func TestMigrate(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	m := &migration{T: t, cluster: start(t), plane: &unstructured.Unstructured{}}
	repository := repositoryOf(t)
	core(t, repository)
	upstream(t, repository, "bootstrap/kubeadm", "bootstrap-kubeadm", "bootstrap-components.yaml", "capi-kubeadm-bootstrap-system")
	var err error
	if m.clusterctl, err = clusterctl.New(t.Context(), upstreamControlPlane(t, repository)); err != nil {
		t.Fatal(err)
	}
	m.install("kubeadm", clusterctl.InitOptions{CoreProvider: "cluster-api:" + upstreamVersion, BootstrapProviders: []string{"kubeadm"}})
	if err := yaml.Unmarshal([]byte(migrated), &m.plane.Object); err != nil {
		t.Fatal(err)
	}
	if err := m.client.Create(t.Context(), m.plane); err != nil {
		t.Fatal(err)
	}
	m.write()
	m.kept("control-plane-kubeadm", upstreamService)

	m.there()
	m.back()
	m.withoutClusterctl()
}

// write writes the status, as the controller does that is there.
func (m *migration) write() {
	m.Helper()
	now := m.plane.DeepCopy()
	if err := m.client.Get(m.Context(), client.ObjectKeyFromObject(now), now); err != nil {
		m.Fatal(err)
	}
	now.Object["status"] = map[string]any{"initialization": map[string]any{"controlPlaneInitialized": true},
		"observedGeneration": now.GetGeneration()}
	if err := m.client.Status().Update(m.Context(), now); err != nil {
		m.Fatal(err)
	}
	m.plane = now
}

// there goes to Quorate by clusterctl.
func (m *migration) there() {
	if err := m.remove("kubeadm", true); err == nil || !strings.Contains(err.Error(), "found existing objects") {
		m.Fatalf("--include-crd while there is a control plane: %v", err)
	}
	if err := m.remove("kubeadm", false); err != nil {
		m.Fatal(err)
	}
	m.kept("control-plane-kubeadm", upstreamService) // the definitions stay
	if got, want := m.left("control-plane-kubeadm"), []string{
		"clusterrole.rbac.authorization.k8s.io/capi-kubeadm-control-plane-aggregated-manager-role",
		"clusterrole.rbac.authorization.k8s.io/capi-kubeadm-control-plane-manager-role",
		"clusterrolebinding.rbac.authorization.k8s.io/capi-kubeadm-control-plane-manager-rolebinding", "namespace/" + upstreamNamespace,
	}; !slices.Equal(got, want) {
		m.Errorf("left of upstream's provider are %q, want %q", got, want)
	}
	m.install(name, clusterctl.InitOptions{})
	m.kept("control-plane-quorate", "quorate-webhook-service")
}

// back goes back by clusterctl. A field of Quorate's that was left in the spec is not seen any more, and gone with the first write.
func (m *migration) back() {
	with := m.plane.DeepCopy()
	if err := unstructured.SetNestedField(with.Object, true, "spec", "joins", "eager"); err != nil {
		m.Fatal(err)
	}
	if err := m.client.Update(m.Context(), with); err != nil {
		m.Fatal(err)
	}
	if eager, _, _ := unstructured.NestedBool(with.Object, "spec", "joins", "eager"); !eager {
		m.Error("a field of Quorate's is dropped by its own definition")
	}
	m.plane.SetGeneration(with.GetGeneration())
	if err := m.remove(name, false); err != nil {
		m.Fatal(err)
	}
	if got := m.left("control-plane-quorate"); slices.ContainsFunc(got, func(o string) bool {
		return !strings.Contains(o, "clusterrole") && o != "namespace/quorate-system" && !strings.HasPrefix(o, "priorityclass")
	}) {
		m.Errorf("left of Quorate's provider are %q", got)
	}
	m.install("kubeadm", clusterctl.InitOptions{})
	m.kept("control-plane-kubeadm", upstreamService)
	m.write()
}

// withoutClusterctl goes to Quorate by kubectl alone, step by step.
func (m *migration) withoutClusterctl() {
	const n = "capi-kubeadm-control-plane"
	m.kubectl(m.T, "--namespace", upstreamNamespace, "scale", "deployment/"+n+"-controller-manager", "--replicas=0")
	m.kubectl(m.T, "--namespace", upstreamNamespace, "wait", "--for=delete", "pod",
		"--selector=cluster.x-k8s.io/provider=control-plane-kubeadm", "--timeout=2m")
	var pods corev1.PodList
	if err := m.client.List(m.Context(), &pods, client.InNamespace(upstreamNamespace)); err != nil || len(pods.Items) > 0 {
		m.Errorf("%d pods are left, %v", len(pods.Items), err)
	}
	m.kubectl(m.T, "delete", "validatingwebhookconfiguration/"+n+"-validating-webhook-configuration", "mutatingwebhookconfiguration/"+n+
		"-mutating-webhook-configuration")
	m.kubectl(m.T, "apply", "--server-side", "--force-conflicts", "--kustomize", filepath.Join(sources, "config", "default"))
	m.unanswered()
	m.kept("control-plane-quorate", "quorate-webhook-service")
	m.kubectl(m.T, "delete", "clusterrolebinding,clusterrole", "--selector=cluster.x-k8s.io/provider=control-plane-kubeadm")
	m.kubectl(m.T, "delete", "namespace", upstreamNamespace, "--timeout=1m")
	if got := m.left("control-plane-kubeadm"); len(got) > 0 {
		m.Errorf("left of upstream's provider are %q", got)
	}
	m.kept("control-plane-quorate", "quorate-webhook-service")
}

// migrated is a control plane as upstream's users have it.
const migrated = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: demo-cp, namespace: default}
spec:
  replicas: 3
  version: v1.36.3
  kubeadmConfigSpec: {clusterConfiguration: {apiServer: {certSANs: [api.example.org]}}}
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.example.com, kind: ExampleMachineTemplate, name: demo-cp}
  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}
`
