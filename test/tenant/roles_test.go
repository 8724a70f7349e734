package tenant

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestBootstrapRole: the manager of clusterctl's bootstrap provider gives machines of etcd their data with the rights that it is shipped
// with, whatever infrastructure their Cluster names. One whose kind it may not read is no reason to hang.
func TestBootstrapRole(t *testing.T) {
	w := newWorld(t, roleIn(t, "../../config/clusterctl/bootstrap/role.yaml"))
	w.run(t, "--providers=bootstrap")
	w.make(t, w.admin, "{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalCluster, metadata: {name: readable, namespace: "+
		"tenant}, spec: {}}")
	for name, c := range map[string]struct{ infra, want string }{
		"readable":   {"{apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalCluster, name: readable}", "True Available"},
		"forbidden":  {"{apiGroup: infrastructure.example.com, kind: ForbiddenMachine, name: prize}", "False ReferenceRefused"},
		"secret":     {"{apiGroup: apps, kind: Deployment, name: prize}", "False ReferenceRefused"},
		"everywhere": {"{apiGroup: infrastructure.cluster.x-k8s.io, kind: SharedIdentity, name: prize}", "False ReferenceRefused"},
	} {
		cluster := clusterFor("", c.infra)
		etcd := etcdOf + "  infrastructureTemplate: " + harmlessTemplate + "\n"
		machine := strings.NewReplacer("INFRASTRUCTURE", harmlessMachine, "BOOTSTRAP",
			"{configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: EtcdadmConfig, name: NAME-1}}").Replace(machineOf)
		a := attempt{name: name}
		for _, o := range []string{cluster, etcd, machine} {
			a.objects = append(a.objects, strings.ReplaceAll(o, "NAME", name))
		}
		must(t, w.write(t, w.admin, a))
		made := w.get(t, "cluster.x-k8s.io/v1beta2", "Machine", own, name+"-1")
		config := parse(t, fmt.Sprintf("{apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1, kind: EtcdadmConfig, metadata: {name: %s-1, "+
			"namespace: tenant}, spec: {version: 3.6.5}}", name))
		config.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: made.GetAPIVersion(), Kind: "Machine", Name: made.GetName(),
			UID: made.GetUID()}})
		must(t, w.admin.Create(t.Context(), config))
		said := ""
		w.eventually(t, name+": the condition is "+c.want, func() bool {
			said = condition(w.get(t, "bootstrap.cluster.x-k8s.io/v1alpha1", "EtcdadmConfig", own, name+"-1"), "DataSecretAvailable")
			return strings.HasPrefix(said, c.want)
		})
		t.Logf("%s: %s", name, said)
	}
	w.judge(t)
}

// condition returns status, reason and message of a condition.
func condition(o *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if c, is := c.(map[string]any); is && c["type"] == kind {
			return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}
