// Package envtest asks a real API server what our kinds accept and refuse. It
// needs the binaries etcd and kube-apiserver in KUBEBUILDER_ASSETS; `make unit` sets it.
package envtest

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/manager"
)

func TestAdmission(t *testing.T) {
	needAssets(t)
	c := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true})
	t.Run("create", func(t *testing.T) { created(t, c) })
	t.Run("create in v1beta1", func(t *testing.T) { createdOld(t, c) })
	t.Run("update", func(t *testing.T) { updated(t, c) })
	t.Run("scale", func(t *testing.T) { scaled(t, c) })
	t.Run("made before the rules", func(t *testing.T) { ratcheted(t, c) })
}

func needAssets(t *testing.T) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
}

// start starts an API server, and returns its administrator's client.
func start(t *testing.T, env *envtest.Environment) client.Client {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	t.Cleanup(func() { // also after a Start that failed half-way
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const controlPlane = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp, namespace: default}
spec:
  replicas: 3
  version: v1.36.3
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: cp}
  kubeadmConfigSpec: {format: cloud-config}
`

const externalEtcd = `kubeadmConfigSpec:
    clusterConfiguration: {etcd: {external: {endpoints: ["https://10.0.0.1:2379"], caFile: /ca, certFile: /cert, keyFile: /key}}}`

// changed replaces a part of a manifest; "#external" at the end of the new part stands for external etcd.
func changed(text, old, part string) string {
	if old != "" {
		text = strings.Replace(text, old, strings.TrimSuffix(part, "#external"), 1)
	}
	if strings.HasSuffix(part, "#external") {
		text = strings.Replace(text, "kubeadmConfigSpec: {format: cloud-config}", externalEtcd, 1)
	}
	return text
}

const machineTemplate = `
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalMachineTemplate
metadata: {name: cp, namespace: default}
spec: {template: {spec: {}}}
`

// row is a control plane that is to be created: in its manifest old is replaced by changed. A refusal says this.
type row struct{ name, old, changed, refusal string }

// sizes are numbers of machines. The schema and the webhook say the same of them.
var sizes = []row{
	{"three replicas", "", "", ""},
	{"one replica", "replicas: 3", "replicas: 1", ""},
	{"seven replicas", "replicas: 3", "replicas: 7", ""},
	{"an even number", "replicas: 3", "replicas: 4", "replicas is 4: a control plane with stacked etcd needs an odd number"},
	{"eight replicas", "replicas: 3", "replicas: 8", "replicas is 8: a control plane with stacked etcd needs an odd number"},
	{"zero replicas", "replicas: 3", "replicas: 0", "replicas is 0: at least one machine is needed; 1, 3, 5 or 7 are accepted"},
	{"nine replicas", "replicas: 3", "replicas: 9", "replicas is 9: stacked etcd is supported with 1, 3, 5 or 7 members"},
	{"many", "replicas: 3", "replicas: 101", "replicas is 101: stacked etcd is supported with 1, 3, 5 or 7 members"},
	{"an even number with external etcd", "replicas: 3", "replicas: 4#external", ""},
	{"nine with external etcd", "replicas: 3", "replicas: 9#external", ""},
	{"zero with external etcd", "replicas: 3", "replicas: 0#external",
		"replicas is 0: at least one machine is needed; any number from 1 is accepted"},
}

// negative are numbers of machines that the API server refuses for every kind with a scale, before any webhook.
var negative = []row{
	{"less than zero", "replicas: 3", "replicas: -1", "replicas is -1: at least one machine is needed; 1, 3, 5 or 7 are accepted"},
	{"less than zero with external etcd", "replicas: 3", "replicas: -1#external",
		"replicas is -1: at least one machine is needed; any number from 1 is accepted"},
}

// created: what may be created, and what the refusal of the rest says.
func created(t *testing.T, c client.Client) {
	createRows(t, c, sizes)
	createRows(t, c, negative)
	createRows(t, c, []row{
		{"upstream's rollout", "replicas: 3", "replicas: 3\n  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}", ""},
		{"two surplus machines", "replicas: 3", "replicas: 3\n  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2}}}",
			"maxSurge must be 0 or 1"},
		{"joins one by one", "replicas: 3", "replicas: 3\n  joins: {maxParallel: 1}", ""},
		{"no joins at all", "replicas: 3", "replicas: 3\n  joins: {maxParallel: 0}", "spec.joins.maxParallel: Invalid value: 0"},
		{"defragmented with the defaults", "replicas: 3", "replicas: 3\n  etcdMaintenance: {defragment: {}}", ""},
		{"defragmented as wanted", "replicas: 3",
			"replicas: 3\n  etcdMaintenance: {defragment: {freePercent: 20, minSize: 1Gi, onlyMember: Defragment}}", ""},
		{"maintained, without a word", "replicas: 3", "replicas: 3\n  etcdMaintenance: {}",
			"spec.etcdMaintenance: Invalid value: 0: spec.etcdMaintenance in body should have at least 1 properties"},
		{"defragmented all the time", "replicas: 3", "replicas: 3\n  etcdMaintenance: {defragment: {freePercent: 9}}",
			"spec.etcdMaintenance.defragment.freePercent in body should be greater than or equal to 10"},
		{"defragmented never", "replicas: 3", "replicas: 3\n  etcdMaintenance: {defragment: {freePercent: 91}}",
			"spec.etcdMaintenance.defragment.freePercent in body should be less than or equal to 90"},
		{"defragmented below nothing", "replicas: 3", "replicas: 3\n  etcdMaintenance: {defragment: {minSize: -1}}",
			"minSize is -1: it must not be less than 0"},
		{"defragmented alone, somehow", "replicas: 3", "replicas: 3\n  etcdMaintenance: {defragment: {onlyMember: Always}}",
			`spec.etcdMaintenance.defragment.onlyMember: Unsupported value: "Always": supported values: "Keep", "Defragment"`},
		{"too little time to join", "replicas: 3", "replicas: 3\n  joins: {timeoutSeconds: 599}",
			"spec.joins.timeoutSeconds in body should be greater than or equal to 600"},
		{"more than a day to join", "replicas: 3", "replicas: 3\n  joins: {timeoutSeconds: 86401}",
			"spec.joins.timeoutSeconds in body should be less than or equal to 86400"},
		{"no kubeadm configuration", "\n  kubeadmConfigSpec: {format: cloud-config}", "", ""},
		{"no version", "version: v1.36.3", "", "spec.version: Required value"},
		{"a version that is none", "version: v1.36.3", "version: latest", "version is latest: it must be of the form v1.36.3"},
	})
}

// createRows creates what each row makes of the control plane.
func createRows(t *testing.T, c client.Client, rows []row) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			o := object(t, changed(controlPlane, row.old, row.changed))
			wantRefusal(t, c.Create(context.Background(), o), row.refusal)
			if row.refusal == "" {
				if err := c.Delete(context.Background(), o); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

const oldControlPlane = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: cp, namespace: default}
spec:
  replicas: 3
  version: v1.36.3
  machineTemplate:
    infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachineTemplate, name: cp}
  kubeadmConfigSpec: {format: cloud-config}
`

// createdOld: what is written in v1beta1 is checked in v1beta1 only. Nobody converts here, so nothing is stored.
func createdOld(t *testing.T, c client.Client) {
	for _, row := range []struct{ name, old, changed, refusal string }{
		{"three replicas", "", "", ""},
		{"an even number", "replicas: 3", "replicas: 4", "replicas is 4: a control plane with stacked etcd needs an odd number"},
		{"nine replicas", "replicas: 3", "replicas: 9", "replicas is 9: stacked etcd is supported with 1, 3, 5 or 7 members"},
		{"zero replicas", "replicas: 3", "replicas: 0", "replicas is 0: at least one machine is needed; 1, 3, 5 or 7 are accepted"},
		{"less than zero", "replicas: 3", "replicas: -1", "replicas is -1: at least one machine is needed"},
		{"an even number with external etcd", "replicas: 3", "replicas: 4#external", ""},
		{"zero with external etcd", "replicas: 3", "replicas: 0#external",
			"replicas is 0: at least one machine is needed; any number from 1 is accepted"},
		{"upstream's rollout", "replicas: 3", "replicas: 3\n  rolloutStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}", ""},
		{"two surplus machines", "replicas: 3", "replicas: 3\n  rolloutStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2}}",
			"maxSurge must be 0 or 1"},
		{"a version that is none", "version: v1.36.3", "version: latest", "version is latest: it must be of the form v1.36.3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := object(t, changed(oldControlPlane, row.old, row.changed))
			wantRefusal(t, c.Create(context.Background(), o, client.DryRunAll), row.refusal)
		})
	}
}

// updated: what may be changed of what exists.
func updated(t *testing.T, c client.Client) {
	cp, template := object(t, controlPlane), object(t, machineTemplate)
	create(t, c, cp, template)
	for _, row := range []struct {
		name    string
		object  *unstructured.Unstructured
		patch   string
		refusal string
	}{
		{"to five replicas", cp, `{"spec":{"replicas":5}}`, ""},
		{"to two replicas", cp, `{"spec":{"replicas":2}}`, "replicas is 2"},
		{"a machine template", template, `{"spec":{"template":{"spec":{"providerID":"local://x"}}}}`, "a machine template cannot be changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := c.Patch(context.Background(), row.object.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(row.patch)))
			wantRefusal(t, err, row.refusal)
		})
	}
	remove(t, c, cp, template)
}

// scaled: the scale subresource obeys the same rules.
func scaled(t *testing.T, c client.Client) {
	cp := object(t, controlPlane)
	create(t, c, cp)
	for _, row := range []struct{ patch, refusal string }{
		{`{"spec":{"replicas":5}}`, ""}, {`{"spec":{"replicas":6}}`, "replicas is 6"},
	} {
		scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
		err := c.SubResource("scale").Patch(context.Background(), cp.DeepCopy(),
			client.RawPatch("application/merge-patch+json", []byte(row.patch)), client.WithSubResourceBody(scale))
		wantRefusal(t, err, row.refusal)
	}
	remove(t, c, cp)
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func create(t *testing.T, c client.Client, all ...*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		if err := c.Create(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, c client.Client, all ...*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		if err := c.Delete(context.Background(), o); err != nil {
			t.Error(err)
		}
	}
}

func wantRefusal(t *testing.T, err error, refusal string) {
	t.Helper()
	switch {
	case refusal == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refusal != "" && err == nil:
		t.Errorf("accepted, want a refusal with %q", refusal)
	case refusal != "" && !strings.Contains(err.Error(), refusal):
		t.Errorf("refused with %q, want %q", err, refusal)
	case refusal != "" && strings.Count(err.Error(), "replicas is ") > 1:
		t.Errorf("refused more than once: %q", err)
	}
}
