package peer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Provider is the name by which clusterctl gets the flavors: a provider of infrastructure, at the only version that its repository has.
const Provider = "quorate:v0.1.0"

// The machines of the control plane and the workers, as the specs expect them to be named.
const (
	controlPlane = "${CLUSTER_NAME}-control-plane"
	workers      = "${CLUSTER_NAME}-md-0"
)

// WriteRepository writes a repository of one provider of infrastructure into a folder, and clusterctl's configuration, which names it.
// examples is the folder with Quorate's examples. It returns the configuration's path.
func WriteRepository(folder, examples string) (string, error) {
	files, err := flavors(examples)
	if err != nil {
		return "", err
	}
	files["infrastructure-components.yaml"] = ""
	files["metadata.yaml"] = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: 0, minor: 1, " +
		"contract: v1beta2}\n"
	at := filepath.Join(folder, "infrastructure-quorate", "v0.1.0")
	if err := os.MkdirAll(at, 0o750); err != nil {
		return "", err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	config := filepath.Join(folder, "clusterctl.yaml")
	text := fmt.Sprintf("providers:\n- name: quorate\n  type: InfrastructureProvider\n  url: %s\n",
		filepath.Join(at, "infrastructure-components.yaml"))
	return config, os.WriteFile(config, []byte(text), 0o600)
}

// flavors are the templates of clusters by their file's name: a control plane and workers of the examples, with what a spec asks for
// beside.
func flavors(examples string) (map[string]string, error) {
	read := func() (cluster, error) { return readCluster(examples) }
	plain, err := read()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, f := range []struct {
		name   string
		change func(*cluster) error
	}{
		{"", func(*cluster) error { return nil }},
		{"kcp-md-taints", (*cluster).taint},
		{"md-remediation", (*cluster).checkWorkers},
		{"kcp-remediation", (*cluster).hold},
		{"kcp-adoption", (*cluster).orphan},
	} {
		c := plain.copy()
		if err := f.change(&c); err != nil {
			return nil, fmt.Errorf("making the flavor %q: %w", f.name, err)
		}
		text, err := c.text()
		if err != nil {
			return nil, err
		}
		name := "cluster-template.yaml"
		if f.name != "" {
			name = "cluster-template-" + f.name + ".yaml"
		}
		files[name] = text
	}
	return files, ofClass(examples, files)
}

// separateWorkers gives the workers of the class a template of infrastructure of their own, as the spec about changes of a class expects,
// and all machines the image of the specs' pods by its name. No registry can be asked for it.
func (c *cluster) separateWorkers() error {
	class, err := c.the("ClusterClass", "")
	if err != nil {
		return err
	}
	template, err := c.the("LocalMachineTemplate", className)
	if err != nil {
		return err
	}
	pools, _, err := unstructured.NestedSlice(class.Object, "spec", "workers", "machineDeployments")
	if err != nil || len(pools) != 1 {
		return fmt.Errorf("the example's class has %d kinds of workers, want 1: %w", len(pools), err)
	}
	own := template.DeepCopy()
	own.SetName(className + "-worker")
	*c = append(*c, own)
	return errors.Join(
		unstructured.SetNestedField(pools[0].(map[string]any), own.GetName(), "infrastructure", "templateRef", "name"),
		unstructured.SetNestedSlice(class.Object, pools, "spec", "workers", "machineDeployments"),
		c.nameImage("KubeadmControlPlaneTemplate", "spec", "template", "spec", "kubeadmConfigSpec", "preKubeadmCommands"),
		c.nameImage("KubeadmConfigTemplate", "spec", "template", "spec", "preKubeadmCommands"))
}

// nameImage has a machine know its image of a pod's sandbox by the name that the specs' Deployments give as well.
func (c *cluster) nameImage(kind string, path ...string) error {
	o, err := c.the(kind, "")
	if err != nil {
		return err
	}
	commands, _, err := unstructured.NestedStringSlice(o.Object, path...)
	if err != nil {
		return err
	}
	const name = `for i in $(ctr -n k8s.io images ls -q | grep '^registry.k8s.io/pause:'); do ctr -n k8s.io images tag "$i" ` +
		`registry.k8s.io/pause:3.10.1 || true; done`
	return unstructured.SetNestedStringSlice(o.Object, append(commands, name), path...)
}

// labels are some that a cluster of a class gives its machines, which the spec about rollouts replaces.
func labels() map[string]any { return map[string]any{"labels": map[string]any{"peer": "true"}} }

// className is the name of the example's ClusterClass, by which clusterctl finds the file with it.
const className = "classy"

// ofClass adds the flavors topology and topology-taints, clusters of the example's ClusterClass, and the class itself, which clusterctl
// brings along.
func ofClass(examples string, files map[string]string) error {
	all, err := readExample(filepath.Join(examples, "cluster-class.yaml"),
		strings.NewReplacer("namespace: default", "namespace: ${NAMESPACE}"))
	if err != nil {
		return err
	}
	whole, err := all.the("Cluster", "")
	if err != nil {
		return err
	}
	class := slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o == whole })
	if err := class.separateWorkers(); err != nil {
		return err
	}
	whole.SetName("${CLUSTER_NAME}")
	spec := cluster{whole}
	topology := []string{"spec", "topology"}
	controlPlane := append(slices.Clone(topology), "controlPlane")
	pool := map[string]any{"class": "worker", "name": "md-0", "replicas": "${WORKER_MACHINE_COUNT}", "metadata": labels()}
	set := func(value any, path ...string) error {
		return unstructured.SetNestedField(whole.Object, value, path...)
	}
	err = errors.Join(
		set("${KUBERNETES_VERSION}", append(slices.Clone(topology), "version")...),
		set("${CONTROL_PLANE_MACHINE_COUNT}", append(slices.Clone(controlPlane), "replicas")...),
		set(labels(), append(slices.Clone(controlPlane), "metadata")...),
		set([]any{pool}, append(slices.Clone(topology), "workers", "machineDeployments")...))
	if err != nil {
		return err
	}
	if files["cluster-template-topology.yaml"], err = spec.text(); err != nil {
		return err
	}
	pool["taints"] = taints()
	err = errors.Join(
		set(taints(), append(slices.Clone(controlPlane), "taints")...),
		set([]any{pool}, append(slices.Clone(topology), "workers", "machineDeployments")...))
	if err != nil {
		return err
	}
	if files["cluster-template-topology-taints.yaml"], err = spec.text(); err != nil {
		return err
	}
	files["clusterclass-"+className+".yaml"], err = class.text()
	return err
}

// cluster is a template of a cluster: its objects.
type cluster []*unstructured.Unstructured

// readCluster takes the control plane of one example and the workers of another.
func readCluster(examples string) (cluster, error) {
	first, err := readExample(filepath.Join(examples, "cluster.yaml"), strings.NewReplacer(
		"name: demo-cp", "name: "+controlPlane, "name: demo", "name: ${CLUSTER_NAME}", "replicas: 3", "replicas: ${CONTROL_PLANE_MACHINE_COUNT}",
		"cluster-name: demo", "cluster-name: ${CLUSTER_NAME}", "version: v1.37.2", "version: ${KUBERNETES_VERSION}", "namespace: default",
		"namespace: ${NAMESPACE}"))
	if err != nil {
		return nil, err
	}
	second, err := readExample(filepath.Join(examples, "with-workers.yaml"), strings.NewReplacer(
		"name: small-workers", "name: "+workers, "deployment-name: small-workers", "deployment-name: "+workers, "replicas: 2",
		"replicas: ${WORKER_MACHINE_COUNT}",
		"cluster-name: small", "cluster-name: ${CLUSTER_NAME}", "clusterName: small", "clusterName: ${CLUSTER_NAME}",
		"version: v1.37.2", "version: ${KUBERNETES_VERSION}", "namespace: default", "namespace: ${NAMESPACE}"))
	if err != nil {
		return nil, err
	}
	second = slices.DeleteFunc(second, func(o *unstructured.Unstructured) bool { return o.GetName() != workers })
	return append(first, second...), nil
}

// readExample reads the objects of a file, in which words are replaced first.
func readExample(path string, words *strings.Replacer) (cluster, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c cluster
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(words.Replace(string(raw)))))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if len(o.Object) > 0 {
			c = append(c, o)
		}
	}
}

func (c cluster) copy() cluster {
	var all cluster
	for _, o := range c {
		all = append(all, o.DeepCopy())
	}
	return all
}

// text is the template as clusterctl reads it. Variables stand as texts in it, numbers of machines too, which no quotes may surround.
func (c cluster) text() (string, error) {
	var b bytes.Buffer
	for _, o := range c {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			return "", fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		fmt.Fprintf(&b, "---\n%s", raw)
	}
	return b.String(), nil
}

// the returns the object of a kind and, where that is given, of a name.
func (c cluster) the(kind, name string) (*unstructured.Unstructured, error) {
	for _, o := range c {
		if o.GetKind() == kind && (name == "" || o.GetName() == name) {
			return o, nil
		}
	}
	return nil, fmt.Errorf("the examples have no %s %s", kind, name)
}

// set sets a field of an object.
func (c cluster) set(kind string, value any, path ...string) error {
	o, err := c.the(kind, "")
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(o.Object, value, path...)
}

// add parses objects and adds them.
func (c *cluster) add(texts ...string) error {
	for _, text := range texts {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			return err
		}
		*c = append(*c, o)
	}
	return nil
}

// taint gives both kinds of machines the taints that the spec about rollouts expects.
func (c *cluster) taint() error {
	return errors.Join(
		c.set("KubeadmControlPlane", taints(), "spec", "machineTemplate", "spec", "taints"),
		c.set("MachineDeployment", taints(), "spec", "template", "spec", "taints"))
}

// taints are those that the specs about rollouts expect on machines from the beginning.
func taints() []any {
	return []any{
		map[string]any{
			"key": "pre-existing-on-initialization-taint", "value": "on-initialization-value",
			"effect": "PreferNoSchedule", "propagation": "OnInitialization",
		},
		map[string]any{"key": "pre-existing-always-taint", "value": "always-value", "effect": "PreferNoSchedule", "propagation": "Always"},
	}
}

// checkWorkers adds a health check, and the label by which it finds the workers.
func (c *cluster) checkWorkers() error {
	if err := c.set("MachineDeployment", "", "spec", "template", "metadata", "labels", "e2e.remediation.label"); err != nil {
		return err
	}
	return c.add(healthCheck(`{e2e.remediation.label: ""}`, ""))
}

// healthCheck marks the machines that a selector finds once a condition of their Node is false.
func healthCheck(selector, more string) string {
	return `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: "${CLUSTER_NAME}-mhc-0", namespace: "${NAMESPACE}"}
spec:
  clusterName: "${CLUSTER_NAME}"
  selector: {matchLabels: ` + selector + `}
  checks:
    unhealthyNodeConditions: [{type: e2e.remediation.condition, status: "False", timeoutSeconds: 10}]
` + more + `  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 100%}}
`
}

// waitForSignal holds a machine before kubeadm until a ConfigMap of the management cluster tells it to go on, as the spec about remediation
// wants it. It is upstream's but for jq, which local machines do not have.
const waitForSignal = `#!/bin/bash
set -o errexit
set -o pipefail
TOKEN=$1
SERVER=$2
NAMESPACE=$3
AT=$SERVER/api/v1/namespaces/$NAMESPACE/configmaps/mhc-test
while true; do
  sleep 1
  if curl -k -s --header "Authorization: Bearer $TOKEN" $AT | grep -q '"signal": "pass"'; then
    curl -k -s --header "Authorization: Bearer $TOKEN" -XPATCH -H "Content-Type: application/strategic-merge-patch+json" \
      --data '{"data": {"signal": "ack-pass"}}' $AT
    exit 0
  fi
done
`

// hold has machines of the control plane wait for a signal, and one join after the other, which the spec expects: Quorate would make all
// that are missing at once.
func (c *cluster) hold() error {
	kcp, err := c.the("KubeadmControlPlane", "")
	if err != nil {
		return err
	}
	spec := []string{"spec", "kubeadmConfigSpec"}
	files, _, err := unstructured.NestedSlice(kcp.Object, append(slices.Clone(spec), "files")...)
	if err != nil {
		return err
	}
	files = append(files, map[string]any{"path": "/wait-signal.sh", "permissions": "0755", "content": waitForSignal})
	commands, _, err := unstructured.NestedStringSlice(kcp.Object, append(slices.Clone(spec), "preKubeadmCommands")...)
	if err != nil {
		return err
	}
	commands = append([]string{`/wait-signal.sh "${TOKEN}" "${SERVER}" "${NAMESPACE}"`}, commands...)
	return errors.Join(
		unstructured.SetNestedSlice(kcp.Object, files, append(slices.Clone(spec), "files")...),
		unstructured.SetNestedStringSlice(kcp.Object, commands, append(slices.Clone(spec), "preKubeadmCommands")...),
		unstructured.SetNestedField(kcp.Object, int64(1), "spec", "joins", "maxParallel"),
		c.add(healthCheck(`{cluster.x-k8s.io/control-plane: "", mhc-test: "fail"}`, "    nodeStartupTimeoutSeconds: 30\n")),
	)
}

// orphan makes the first machine by hand, without a control plane, and labels what the spec about adoption applies in each of its steps.
func (c *cluster) orphan() error {
	*c = slices.DeleteFunc(*c, func(o *unstructured.Unstructured) bool { return o.GetName() == workers })
	kcp, err := c.the("KubeadmControlPlane", "")
	if err != nil {
		return err
	}
	whole, err := c.the("Cluster", "")
	if err != nil {
		return err
	}
	template, err := c.the("LocalMachineTemplate", controlPlane)
	if err != nil {
		return err
	}
	local, err := c.the("LocalCluster", "")
	if err != nil {
		return err
	}
	config, _, err := unstructured.NestedMap(kcp.Object, "spec", "kubeadmConfigSpec")
	if err != nil {
		return err
	}
	step := func(o *unstructured.Unstructured, n string) *unstructured.Unstructured {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kcp-adoption.step"+n] = ""
		o.SetLabels(labels)
		return o
	}
	first := whole.DeepCopy()
	unstructured.RemoveNestedField(first.Object, "spec", "controlPlaneRef")
	made := func(group, version, kind string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/" + version, "kind": kind, "spec": spec}}
		o.SetName(controlPlane + "-0")
		o.SetNamespace("${NAMESPACE}")
		o.SetLabels(map[string]string{"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/cluster-name": "${CLUSTER_NAME}"})
		return step(o, "1")
	}
	ref := func(group, kind string) map[string]any {
		return map[string]any{"apiGroup": group, "kind": kind, "name": controlPlane + "-0"}
	}
	*c = cluster{
		step(first, "1"), step(local, "1"),
		made("infrastructure.cluster.x-k8s.io", "v1alpha1", "LocalMachine", map[string]any{}),
		made("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfig", config),
		made("cluster.x-k8s.io", "v1beta2", "Machine", map[string]any{
			"clusterName": "${CLUSTER_NAME}", "version": "${KUBERNETES_VERSION}",
			"bootstrap":         map[string]any{"configRef": ref("bootstrap.cluster.x-k8s.io", "KubeadmConfig")},
			"infrastructureRef": ref("infrastructure.cluster.x-k8s.io", "LocalMachine"),
		}),
		step(whole, "2"), step(template, "2"), step(kcp, "2"),
	}
	return nil
}
