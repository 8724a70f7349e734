package envtest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
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

// TestEtcdadmConfigs: Quorate's definition installs over that of aws/etcdadm-bootstrap-provider, with objects that are stored. They are
// read in both versions, and changed. What Quorate cannot carry out is refused with its reason.
func TestEtcdadmConfigs(t *testing.T) {
	needAssets(t)
	env := &envtest.Environment{CRDDirectoryPaths: []string{clusterAPI(t)}, ErrorIfCRDPathMissing: true}
	c := start(t, env)
	given := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(theirs), given); err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{given}}); err != nil {
		t.Fatal(err)
	}
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
	wantRefusal(t, c.Patch(context.Background(), o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))), "")
}
