package envtest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	etcdclusterv1beta1 "github.com/quorate/quorate/api/etcdcluster/v1beta1"
	"github.com/quorate/quorate/config/crd"
)

// theirs is a definition as aws/etcdadm-bootstrap-provider has it, but for the schema, which accepts anything.
const theirs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: etcdadmconfigs.bootstrap.cluster.x-k8s.io
  labels: {cluster.x-k8s.io/v1beta1: v1alpha3_v1beta1, cluster.x-k8s.io/provider: bootstrap-etcdadm-bootstrap}
spec:
  group: bootstrap.cluster.x-k8s.io
  names: {kind: EtcdadmConfig, listKind: EtcdadmConfigList, plural: etcdadmconfigs, singular: etcdadmconfig}
  scope: Namespaced
  versions:
  - name: v1alpha3
    served: true
    storage: false
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// theirConfigs are objects of it.
var theirConfigs = []string{`
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: EtcdadmConfig
metadata: {name: given, namespace: default, labels: {cluster.x-k8s.io/cluster-name: demo, cluster.x-k8s.io/etcd-cluster: demo-etcd}}
spec:
  etcdadmBuiltin: true
  format: cloud-config
  cipherSuites: TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
  cloudInitConfig: {version: 3.5.26, installDir: /usr/bin}
  preEtcdadmCommands: [hostname]
  users: [{name: ec2-user, sudo: 'ALL=(ALL) NOPASSWD:ALL', sshAuthorizedKeys: [ssh-rsa a]}]
`, `
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: EtcdadmConfig
metadata: {name: bottle, namespace: default}
spec:
  format: bottlerocket
  bottlerocketConfig: {etcdImage: etcd, bootstrapImage: boot, adminImage: admin, controlImage: control, pauseImage: pause}
`}

// theirClusters is the definition of the kind EtcdadmCluster as aws/etcdadm-controller has it, but for the schema.
var theirClusters = strings.NewReplacer("etcdadmconfig", "etcdadmcluster", "EtcdadmConfig", "EtcdadmCluster", "bootstrap.cluster",
	"etcdcluster.cluster",
	"bootstrap-etcdadm-bootstrap", "bootstrap-etcdadm-controller").Replace(theirs)

// theirCluster is an etcd cluster with three machines that aws/etcdadm-controller keeps; itsCluster is the Cluster.
const (
	theirCluster = `
apiVersion: etcdcluster.cluster.x-k8s.io/v1beta1
kind: EtcdadmCluster
metadata: {name: demo-etcd, namespace: default, finalizers: [etcdcluster.cluster.x-k8s.io], labels: {cluster.x-k8s.io/cluster-name: demo}}
spec:
  replicas: 3
  infrastructureTemplate: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: VSphereMachineTemplate, name: etcd, namespace: default}
  etcdadmConfigSpec:
    etcdadmBuiltin: true
    format: cloud-config
    cloudInitConfig: {version: 3.5.26, installDir: /usr/bin}
    preEtcdadmCommands: [hostname]
    users: [{name: ec2-user, sudo: 'ALL=(ALL) NOPASSWD:ALL', sshAuthorizedKeys: [ssh-rsa a]}]
`
	itsCluster = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: demo, namespace: default}, " +
		"spec: {controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: demo}}}"
)

// TestEtcdadmConfigs: Quorate's definition installs over that of aws/etcdadm-bootstrap-provider, with objects that are stored. They are
// read in both versions, and changed. What Quorate cannot carry out is refused with its reason.
func TestEtcdadmConfigs(t *testing.T) {
	needAssets(t)
	env := &envtest.Environment{CRDDirectoryPaths: []string{clusterAPI(t)}, ErrorIfCRDPathMissing: true}
	c := start(t, env)
	given := installTheirs(t, env, theirs)
	for _, manifest := range theirConfigs {
		o := object(t, manifest)
		create(t, c, o)
		o.Object["status"] = map[string]any{"ready": true, "dataSecretName": o.GetName(), "conditions": []any{
			map[string]any{"type": "DataSecretAvailable", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"},
		}}
		if err := c.Status().Update(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
	at := hook(t, env.Config)
	installOver(t, env, at)
	run(t, env.Config, at)
	storedVersions(t, c, given.Name, "v1beta1", "v1alpha1")
	t.Run("read in v1alpha1", func(t *testing.T) { readTaken(t, c) })
	t.Run("read and changed in v1beta1", func(t *testing.T) { changeTaken(t, c) })
	t.Run("refused", func(t *testing.T) { refuseBottlerocket(t, c) })
}

// installTheirs installs a definition of the other provider, and returns it.
func installTheirs(t *testing.T, env *envtest.Environment, manifest string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	given := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(manifest), given); err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(env.Config,
		envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{given}}); err != nil {
		t.Fatal(err)
	}
	return given
}

// installOver installs Quorate's definitions, whose conversions the webhooks are to answer.
func installOver(t *testing.T, env *envtest.Environment, at *envtest.WebhookInstallOptions) {
	t.Helper()
	entries, err := crd.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, e := range entries {
		text, err := crd.Files.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, d); err != nil {
			t.Fatal(err)
		}
		if d.Kind != "CustomResourceDefinition" {
			continue // kustomize's own
		}
		if len(d.Spec.Versions) > 1 {
			url := "https://" + net.JoinHostPort(at.LocalServingHost, strconv.Itoa(at.LocalServingPort)) + "/convert"
			d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ConversionReviewVersions: []string{"v1"},
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: at.LocalServingCAData},
				},
			}
		}
		all = append(all, d)
	}
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{CRDs: all}); err != nil {
		t.Fatalf("installing over the other provider's definitions: %v", err)
	}
}

func storedVersions(t *testing.T, c client.Client, name string, want ...string) {
	t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(context.Background(), client.ObjectKey{Name: name}, d); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Status.StoredVersions, want) {
		t.Errorf("stored versions of %s are %v, want %v", name, d.Status.StoredVersions, want)
	}
}

func readTaken(t *testing.T, c client.Client) {
	config := &bootstrapv1alpha1.EtcdadmConfig{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "given"}, config); err != nil {
		t.Fatal(err)
	}
	s := config.Spec
	if s.Version != "3.5.26" || s.EtcdadmArgs["install-dir"] != "/usr/bin" || len(s.Users) != 1 || s.Users[0].Name != "ec2-user" {
		t.Errorf("spec is %+v", s)
	}
	if !ptr.Deref(config.Status.Initialization.DataSecretCreated, false) || config.Status.DataSecretName != "given" {
		t.Errorf("status is %+v", config.Status)
	}
	// Written, it is stored in v1alpha1.
	before := config.DeepCopy()
	config.Labels["a"] = "b"
	if err := c.Patch(context.Background(), config, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func changeTaken(t *testing.T, c client.Client) {
	o := object(t, theirConfigs[0])
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"cloudInitConfig":{"version":"3.5.27"}}}`))
	if err := c.Patch(context.Background(), o, patch); err != nil {
		t.Fatal(err)
	}
	suites, _, _ := unstructured.NestedString(o.Object, "spec", "cipherSuites")
	version, _, _ := unstructured.NestedString(o.Object, "spec", "cloudInitConfig", "version")
	builtin, _, _ := unstructured.NestedBool(o.Object, "spec", "etcdadmBuiltin")
	if suites == "" || version != "3.5.27" || !builtin || o.GetLabels()["a"] != "b" {
		t.Errorf("the changed object is %v", o.Object)
	}
}

func refuseBottlerocket(t *testing.T, c client.Client) {
	made := object(t, theirConfigs[1])
	made.SetName("another")
	wantRefusal(t, c.Create(context.Background(), made), "spec.bottlerocketConfig: Forbidden: Quorate makes etcd machines with cloud-init")
	suites := object(t, theirConfigs[0])
	suites.SetName("suites")
	wantRefusal(t, c.Create(context.Background(), suites), "spec.cipherSuites: Forbidden")
	unstructured.RemoveNestedField(suites.Object, "spec", "cipherSuites")
	wantRefusal(t, c.Create(context.Background(), suites), "")
	// What is stored stays changeable.
	o := object(t, theirConfigs[1])
	wantRefusal(t, c.Patch(context.Background(), o, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`))), "")
}

// TestEtcdadmCluster: an etcd cluster that aws/etcdadm-controller keeps is taken over. Its machines are adopted as they are, and count as
// what is wanted; its secrets get the EtcdCluster as their controller.
func TestEtcdadmCluster(t *testing.T) {
	needAssets(t)
	env := &envtest.Environment{CRDDirectoryPaths: []string{clusterAPI(t)}, ErrorIfCRDPathMissing: true}
	c := start(t, env)
	installTheirs(t, env, theirs)
	installTheirs(t, env, theirClusters)
	keeper := object(t, theirCluster)
	create(t, c, object(t, itsCluster), keeper)
	keeper.Object["status"] = map[string]any{"initialized": true, "ready": true, "creationComplete": true,
		"endpoints": "https://10.0.0.1:2379", "initMachineAddress": "etcd-init"}
	if err := c.Status().Update(context.Background(), keeper); err != nil {
		t.Fatal(err)
	}
	machines := []string{"demo-etcd-x7k2p", "demo-etcd-9dq5w", "demo-etcd-bb4lz"}
	for _, name := range machines {
		theirMachine(t, c, keeper, name)
	}
	secrets := []string{"demo-managed-etcd", "demo-etcd", "demo-apiserver-etcd-client"}
	theirSecrets(t, c, keeper, secrets)

	at := hook(t, env.Config)
	installOver(t, env, at)
	run(t, env.Config, at)
	until(t, "the condition says what to do", func() bool {
		now := &etcdclusterv1beta1.EtcdadmCluster{}
		return c.Get(context.Background(), client.ObjectKeyFromObject(keeper), now) == nil && len(now.Status.Conditions) == 1 &&
			now.Status.Conditions[0].Reason == "WaitingForTakeOver"
	})
	for _, name := range machines {
		if kind := controllerOf(t, c, &clusterv1.Machine{}, name); kind != "EtcdadmCluster" {
			t.Errorf("before it was allowed, Machine %s is controlled by %q", name, kind)
		}
	}
	allow := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"etcdcluster.cluster.x-k8s.io/quorate-take-over":"true"}}}`))
	if err := c.Patch(context.Background(), keeper, allow); err != nil {
		t.Fatal(err)
	}
	until(t, "the machines are adopted and as wanted", func() bool {
		now := &etcdclusterv1alpha1.EtcdCluster{}
		err := c.Get(context.Background(), client.ObjectKeyFromObject(keeper), now)
		return err == nil && ptr.Deref(now.Status.Replicas, 0) == 3 && ptr.Deref(now.Status.UpToDateReplicas, 0) == 3
	})
	for _, name := range machines {
		m := &clusterv1.Machine{}
		if kind := controllerOf(t, c, m, name); kind != "EtcdCluster" || !m.DeletionTimestamp.IsZero() {
			t.Errorf("Machine %s is controlled by %q, deleted %v", name, kind, m.DeletionTimestamp)
		}
	}
	for _, name := range secrets {
		if kind := controllerOf(t, c, &corev1.Secret{}, name); kind != "EtcdCluster" {
			t.Errorf("secret %s is controlled by %q", name, kind)
		}
	}
	now := &etcdclusterv1beta1.EtcdadmCluster{}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(keeper), now); err != nil || !now.Status.Ready ||
		now.Status.Endpoints != "https://10.0.0.1:2379" || len(now.Finalizers) > 0 {
		t.Errorf("%v: the EtcdadmCluster is %+v", err, now)
	}
}

// theirMachine creates a Machine with its objects as aws/etcdadm-controller does, but for the infrastructure machine, whose kind is not
// installed.
func theirMachine(t *testing.T, c client.Client, keeper *unstructured.Unstructured, name string) {
	t.Helper()
	labels := map[string]string{"cluster.x-k8s.io/cluster-name": "demo", "cluster.x-k8s.io/etcd-cluster": "demo-etcd"}
	config := object(t, theirConfigs[0])
	config.SetName(name)
	spec, _, _ := unstructured.NestedMap(keeper.Object, "spec", "etcdadmConfigSpec")
	config.Object["spec"] = spec
	create(t, c, config)
	config.Object["status"] = map[string]any{"ready": true, "dataSecretName": name}
	if err := c.Status().Update(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(keeper, keeper.GroupVersionKind())},
	}}
	m.Spec.ClusterName = "demo"
	m.Spec.Bootstrap.DataSecretName = &name
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "EtcdadmConfig",
		Name: name}
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "VSphereMachine",
		Name: name}
	if err := c.Create(context.Background(), m); err != nil {
		t.Fatal(err)
	}
}

func theirSecrets(t *testing.T, c client.Client, keeper *unstructured.Unstructured, names []string) {
	t.Helper()
	for _, name := range names {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "demo"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(keeper, keeper.GroupVersionKind())},
		}, Type: clusterv1.ClusterSecretType}
		if err := c.Create(context.Background(), made); err != nil {
			t.Fatal(err)
		}
	}
}

// controllerOf reads an object, and returns the kind of its controller; empty: it has none.
func controllerOf(t *testing.T, c client.Client, into client.Object, name string) string {
	t.Helper()
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, into); err != nil {
		t.Fatal(err)
	}
	if owner := metav1.GetControllerOf(into); owner != nil {
		return owner.Kind
	}
	return ""
}

// until waits for what the manager does by itself.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("%s: it is not so", what)
	}
}
