package manifest

import (
	"errors"
	"strings"
	"testing"
)

const kcp = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp}
spec:
  replicas: 3
  version: v1.37.2
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: tpl}
`

const template = `
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalMachineTemplate
metadata: {name: tpl}
spec: {template: {spec: {}}}
`

const machines = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: ControlPlane
metadata: {name: cp}
spec: {replica: 3}
`

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		objects    int
		err        string
	}{
		{"two documents", kcp + template, 2, ""},
		{"comments and empty documents", "# only this\n---\n---\n" + kcp + "---\n# end\n", 1, ""},
		{"a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: " +
			"ConfigMap, metadata: {name: b}}\n", 2, ""},
		{"a kind that is not ours", "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: x}\nwhatever: 1\n", 1, ""},
		{"nothing", "# nothing\n", 0, "in.yaml has no object"},
		{"misspelt field", strings.Replace(kcp, "replicas", "replica", 1), 0, `in.yaml, document 1 (KubeadmControlPlane cp): `},
		{"misspelt field, named", strings.Replace(kcp, "replicas", "replica", 1), 0, `unknown field "spec.replica"`},
		{"misspelt field of a control plane of machines", machines, 0, `unknown field "spec.replica"`},
		{"wrong type", strings.Replace(kcp, "replicas: 3", "replicas: three", 1), 0, "document 1"},
		{"key twice", kcp + "spec: {}\n", 0, `already set in map`},
		{"no YAML", "a: [\n", 0, "in.yaml, document 1 is not YAML"},
		{"no object", "- 1\n", 0, "in.yaml, document 1 is not an object"},
		{"no kind", "apiVersion: v1\nmetadata: {name: x}\n", 0, "document 1 has no kind"},
		{"no name", template + "---\napiVersion: v1\nkind: ConfigMap\n", 0, "has no metadata.name"},
		{"a list with a bad item", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap}\n", 0, "has no metadata.name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects, err := Parse(strings.NewReader(tt.text), "in.yaml")
			expectError(t, err, tt.err)
			if err == nil && len(objects) != tt.objects {
				t.Errorf("%d objects, want %d", len(objects), tt.objects)
			}
		})
	}
}

func TestCheckObjects(t *testing.T) {
	const deployment = `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md}
spec:
  clusterName: c
  selector: {}
  template:
    spec:
      clusterName: c
      version: v1.36.3
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: join}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: tpl}
`
	const machines = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: ControlPlane
metadata: {name: cp}
spec:
  replicas: 3
  version: v1.37.2
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: tpl}
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: join}}
`
	const evenMachines = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: ControlPlane
metadata: {name: cp}
spec: {replicas: 2, etcd: {management: %s}}
`
	const external = `
  kubeadmConfigSpec:
    clusterConfiguration:
      etcd: {external: {endpoints: ["https://e:2379"], caFile: /a, certFile: /b, keyFile: /c}}
`
	const managed = "  managedExternalEtcdRef: {apiGroup: etcdcluster.cluster.x-k8s.io, kind: EtcdCluster, name: e}\n"
	const nameless = "  managedExternalEtcdRef: {apiGroup: etcdcluster.cluster.x-k8s.io, kind: EtcdCluster}\n"
	ofCluster := func(text string) string {
		return strings.Replace(text, "{name: cp}", "{name: cp, labels: {cluster.x-k8s.io/cluster-name: c}}", 1)
	}
	const cluster = `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: %s}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: cp}
`
	const topology = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c}
spec: {topology: {classRef: {name: class}, version: %s}}
`
	for _, tt := range []struct {
		name, text string
		exists     string // name of an object that was applied before
		err        string
	}{
		{"all there", kcp + template, "", ""},
		{"template applied before", kcp, "tpl", ""},
		{"template missing", kcp, "", "KubeadmControlPlane cp: spec.machineTemplate.spec.infrastructureRef is LocalMachineTemplate tpl, which " +
			"is neither in the manifests nor applied before"},
		{"bootstrap template missing", kcp + template + deployment, "",
			"MachineDeployment md: spec.template.spec.bootstrap.configRef is KubeadmConfigTemplate join, which is neither"},
		{"cluster finds its control plane", kcp + template + strings.Replace(cluster, "%s", "c", 1), "", ""},
		{"bad cluster name", kcp + template + strings.Replace(cluster, "%s", "c.d", 1), "", `invalid metadata.name "c.d"`},
		{"even", strings.Replace(kcp, "replicas: 3", "replicas: 2", 1) + template, "",
			`KubeadmControlPlane cp: invalid spec.replicas "2": must be 1, 3, 5 or 7: 2 members`},
		{"even with external etcd", strings.Replace(kcp, "replicas: 3", "replicas: 2", 1) + external + template, "", ""},
		{"version of the control plane", strings.Replace(kcp, "v1.37.2", "v1.20.0", 1) + template, "",
			`KubeadmControlPlane cp: invalid spec.version "v1.20.0": must be v1.37.2 or v1.36.3`},
		{"version of workers", kcp + template + strings.Replace(deployment, "v1.36.3", "v1.20.0", 1), "join",
			`MachineDeployment md: invalid spec.template.spec.version "v1.20.0"`},
		{"version of a set of workers", template + strings.Replace(strings.Replace(deployment, "v1.36.3", "v1.20.0", 1), "MachineDeployment",
			"MachineSet", 1), "join", `MachineSet md: invalid spec.template.spec.version "v1.20.0"`},
		{"version of a topology", strings.Replace(topology, "%s", "v1.20.0", 1), "",
			`Cluster c: invalid spec.topology.version "v1.20.0": must be v1.37.2 or v1.36.3`},
		{"a topology", strings.Replace(topology, "%s", "v1.36.3", 1), "", ""},
		{"machines", machines + template, "join", ""},
		{"machines without a template", machines, "join",
			"ControlPlane cp: spec.machineTemplate.spec.infrastructureRef is LocalMachineTemplate tpl, which is neither"},
		{"machines without a bootstrap template", machines + template, "",
			"ControlPlane cp: spec.machineTemplate.spec.bootstrap.configRef is KubeadmConfigTemplate join, which is neither"},
		{"cluster finds its machines", machines + template + strings.Replace(strings.Replace(cluster, "%s", "c", 1), "KubeadmControlPlane",
			"ControlPlane", 1), "join", ""},
		{"cluster of another kind", machines + template + strings.Replace(cluster, "%s", "c", 1), "join",
			"Cluster c: spec.controlPlaneRef is KubeadmControlPlane cp, which is neither"},
		{"machines, even", strings.Replace(evenMachines, "%s", "Members", 1), "",
			`ControlPlane cp: invalid spec.replicas "2": must be 1, 3, 5 or 7: 2 members`},
		{"machines, even without etcd", strings.Replace(evenMachines, "%s", "None", 1), "", ""},
		{"version of machines", strings.Replace(machines, "v1.37.2", "v1.20.0", 1) + template, "join",
			`ControlPlane cp: invalid spec.version "v1.20.0": must be v1.37.2 or v1.36.3`},
		{"an etcd cluster of its own, even machines", strings.Replace(kcp, "replicas: 3", "replicas: 2", 1) + managed + template, "e", ""},
		{"an etcd cluster that is missing", kcp + managed + template, "",
			"KubeadmControlPlane cp: spec.managedExternalEtcdRef is EtcdCluster e, which is neither"},
		{"an etcd cluster named by the cluster", ofCluster(kcp) + nameless + template, "c-etcd", ""},
		{"an etcd cluster named by a cluster that has none", ofCluster(kcp) + nameless + template, "",
			"KubeadmControlPlane cp: spec.managedExternalEtcdRef is EtcdCluster c-etcd, which is neither"},
		{"an etcd cluster named by a cluster that is not known", kcp + nameless + template, "", ""},
		{"machines on an etcd cluster", ofCluster(machines) + nameless + template, "join",
			"ControlPlane cp: spec.managedExternalEtcdRef is EtcdCluster c-etcd, which is neither"},
		{"twice", kcp + template + template, "", "LocalMachineTemplate tpl is given twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects, err := Parse(strings.NewReader(tt.text), "in.yaml")
			if err != nil {
				t.Fatal(err)
			}
			err = CheckObjects(objects, versions, func(r Reference) (bool, error) { return r.Name == tt.exists, nil })
			expectError(t, err, tt.err)
		})
	}
}

func TestCheckObjectsReportsFailedLookups(t *testing.T) {
	objects, err := Parse(strings.NewReader(kcp), "in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("connection refused")
	err = CheckObjects(objects, versions, func(Reference) (bool, error) { return false, broken })
	if !errors.Is(err, broken) {
		t.Errorf("error is %v, want one that wraps %v", err, broken)
	}
}
