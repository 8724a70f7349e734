package envtest

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// TestEtcd asks an API server without webhooks what it makes of the kinds of etcd clusters.
func TestEtcd(t *testing.T) {
	needAssets(t)
	c := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true})
	t.Run("EtcdCluster", func(t *testing.T) { dryRun(t, c, etcdCluster, etcdClusterRows) })
	t.Run("EtcdadmConfig", func(t *testing.T) { dryRun(t, c, etcdadmConfig, etcdadmConfigRows) })
	t.Run("templates", func(t *testing.T) { etcdTemplates(t, c) })
	t.Run("scale", func(t *testing.T) { scaledEtcd(t, c) })
	t.Run("status", func(t *testing.T) { etcdStatus(t, c) })
}

const etcdCluster = `
apiVersion: etcdcluster.cluster.x-k8s.io/v1alpha1
kind: EtcdCluster
metadata: {name: demo-etcd, namespace: default}
spec:
  replicas: 3
  version: v3.6.16
  infrastructureTemplate: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: etcd}
  etcdadmConfigSpec: {preEtcdadmCommands: ["true"]}
  machineTemplate:
    metadata: {labels: {a: b}}
    spec:
      deletion: {nodeDrainTimeoutSeconds: 60}
`

// etcdClusterRows are changes of etcdCluster, and the refusals of its creation.
var etcdClusterRows = []row{
	{"as it is", "", "", ""},
	{"one member", "replicas: 3", "replicas: 1", ""},
	{"seven members", "replicas: 3", "replicas: 7", ""},
	{"two members", "replicas: 3", "replicas: 2", "spec.replicas: Invalid value: 2: replicas is 2: 1, 3, 5 or 7 members are accepted"},
	{"no member", "replicas: 3", "replicas: 0", "replicas is 0"},
	{"nine members", "replicas: 3", "replicas: 9", "replicas is 9"},
	{"no version", "  version: v3.6.16\n", "", ""},
	{"a version without v", "v3.6.16", "3.5.35", ""},
	{"a version of Kubernetes", "v3.6.16", "v1.36.3",
		"spec.version: Invalid value: \"v1.36.3\": version is v1.36.3: a version of etcd 3 such as 3.6.16 is accepted"},
	{"a version of the members' own", "etcdadmConfigSpec: {", "etcdadmConfigSpec: {version: 3.5.35, ",
		"spec.etcdadmConfigSpec.version: Invalid value: version is 3.5.35: none is accepted here, as spec.version says it for all machines"},
	{"no infrastructure", "infrastructureTemplate:", "x:", "spec.infrastructureTemplate: Required value"},
	{"an infrastructure that is no template", "LocalMachineTemplate", "LocalMachine",
		"spec.infrastructureTemplate.kind: Invalid value: kind is LocalMachine: the kind of a template is accepted"},
	{"surge 1", "replicas: 3", "rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}", ""},
	{"surge 0", "replicas: 3", "rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}", ""},
	{"surge 2", "replicas: 3", "rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2}}}", "maxSurge must be 0 or 1"},
	{"repair", "replicas: 3", "autoRepair: {}", ""},
	{"too little time to join", "replicas: 3", "joins: {timeoutSeconds: 599}",
		"spec.joins.timeoutSeconds in body should be greater than or equal to 600"},
	{"no time to repair", "replicas: 3", "autoRepair: {unhealthyTimeoutSeconds: 0}", "spec.autoRepair.unhealthyTimeoutSeconds"},
	{"failure domains", "replicas: 3", "failureDomains: [a, b]", ""},
	{"a failure domain twice", "replicas: 3", "failureDomains: [a, a]", "Duplicate value"},
}

const etcdadmConfig = `
apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1
kind: EtcdadmConfig
metadata: {name: etcd-1, namespace: default}
spec:
  version: 3.6.16
  etcdadmArgs: {log-level: debug}
  files: [{path: /a, content: b, permissions: "0640"}]
  users: [{name: anna, sudo: "ALL=(ALL) NOPASSWD:ALL"}]
  ntp: {enabled: true, servers: [ntp.example]}
  proxy: {httpsProxy: "http://proxy:3128"}
  format: cloud-config
`

// etcdadmConfigRows are changes of etcdadmConfig, and the refusals of its creation.
var etcdadmConfigRows = []row{
	{"as it is", "", "", ""},
	{"ignition", "format: cloud-config", "format: ignition", ""},
	{"a format that there is not", "format: cloud-config", "format: bottlerocket",
		`spec.format: Unsupported value: "bottlerocket": supported values: "cloud-config", "ignition"`},
	{"etcd 2", "version: 3.6.16", "version: 2.3.8", "version is 2.3.8: a version of etcd 3"},
	{"an empty command", "format: cloud-config", "preEtcdadmCommands: ['']", "spec.preEtcdadmCommands[0]"},
	{"an empty proxy", `proxy: {httpsProxy: "http://proxy:3128"}`, "proxy: {}", "spec.proxy"},
}

// etcdTemplates: what can be made from a template can be said in it.
func etcdTemplates(t *testing.T, c client.Client) {
	for _, manifest := range []string{`
apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1
kind: EtcdadmConfigTemplate
metadata: {name: etcd, namespace: default}
spec: {template: {metadata: {labels: {a: b}}, spec: {version: 3.6.16}}}
`, `
apiVersion: etcdcluster.cluster.x-k8s.io/v1alpha1
kind: EtcdClusterTemplate
metadata: {name: etcd, namespace: default}
spec: {template: {spec: {infrastructureTemplate: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: etcd}}}}
`} {
		if err := c.Create(context.Background(), object(t, manifest), client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Error(err)
		}
	}
}

// scaledEtcd: the scale subresource obeys the same rules.
func scaledEtcd(t *testing.T, c client.Client) {
	e := object(t, etcdCluster)
	create(t, c, e)
	t.Cleanup(func() { remove(t, c, e) })
	for _, row := range []struct{ patch, refusal string }{
		{`{"spec":{"replicas":5}}`, ""}, {`{"spec":{"replicas":4}}`, "replicas is 4"},
	} {
		scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
		err := c.SubResource("scale").Patch(context.Background(), e.DeepCopy(),
			client.RawPatch("application/merge-patch+json", []byte(row.patch)), client.WithSubResourceBody(scale))
		wantRefusal(t, err, row.refusal)
	}
}

// etcdStatus: what controllers report is kept, field by field.
func etcdStatus(t *testing.T, c client.Client) {
	for _, manifest := range []string{etcdCluster, etcdadmConfig} {
		o := object(t, manifest)
		create(t, c, o)
		t.Cleanup(func() { remove(t, c, o) })
	}
	e := &etcdclusterv1alpha1.EtcdCluster{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "demo-etcd"}, e); err != nil {
		t.Fatal(err)
	}
	e.Status.Ready, e.Status.Initialized, e.Status.Endpoints = ptr.To(true), ptr.To(true), "https://10.0.0.1:2379"
	e.Status.Members, e.Status.InitMachineAddress, e.Status.ReadyReplicas, e.Status.Selector = "https://10.0.0.1:2379", "10.0.0.1",
		ptr.To(int32(3)), "a=b"
	want := e.Status
	if err := c.Status().Update(context.Background(), e); err != nil {
		t.Fatal(err)
	}
	if got := e.Status; got.Endpoints != want.Endpoints || got.Members != want.Members || !*got.Ready || !*got.Initialized ||
		*got.ReadyReplicas != 3 || got.InitMachineAddress != "10.0.0.1" || got.Selector != "a=b" {
		t.Errorf("%+v", got)
	}
	config := &bootstrapv1alpha1.EtcdadmConfig{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "etcd-1"}, config); err != nil {
		t.Fatal(err)
	}
	config.Status.DataSecretName, config.Status.Initialization.DataSecretCreated = "etcd-1", ptr.To(true)
	if err := c.Status().Update(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	if got := config.Status; got.DataSecretName != "etcd-1" || !ptr.Deref(got.Initialization.DataSecretCreated, false) {
		t.Errorf("%+v", got)
	}
}
