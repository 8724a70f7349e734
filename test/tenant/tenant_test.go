package tenant

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTenant: a tenant writes all attempts, and the manager asks for nothing that belongs to others, changes nothing of them, and goes on
// with theirs.
func TestTenant(t *testing.T) {
	w := newWorld(t, managerRole(t))
	before := w.all(t)
	w.run(t)
	calm := w.honest(t, "before")
	refused := map[string]int{}
	var admitted []attempt
	for _, a := range attempts() {
		err := w.write(t, w.tenant, a)
		switch {
		case err == nil:
			admitted = append(admitted, a)
		case a.admitted && !strings.Contains(err.Error(), "ends in Template") && !strings.Contains(err.Error(), "ends with"):
			t.Errorf("%s %s: the API server refused it, so that nothing was tried: %v", a.field, a.name, err)
		default:
			refused[a.field]++
		}
	}
	busy := w.honest(t, "after")
	w.settle(t, admitted)
	again := w.honest(t, "later")
	w.judge(t)
	for key, version := range w.all(t) {
		if was, there := before[key]; !there || was != version {
			t.Errorf("%s was made or changed: %q, before %q", key, version, was)
		}
	}
	t.Logf("attempts %d: refused at admission %d, held by the manager %d; a control plane of others is reported on after %v before them, %v "+
		"among them, %v after them",
		len(attempts()), len(attempts())-len(admitted), len(admitted), calm, busy, again)
}

// settle waits until the manager has said of each control plane what it does with it.
func (w *world) settle(t *testing.T, admitted []attempt) {
	t.Helper()
	reasons := map[string]int{}
	for _, a := range admitted {
		o := parse(t, a.objects[1])
		kind := o.GetKind()
		if !slices.Contains([]string{"KubeadmControlPlane", "ControlPlane", "EtcdCluster"}, kind) {
			continue
		}
		said := ""
		w.eventually(t, a.field+" "+a.name+": a plan", func() bool {
			said = plan(w.get(t, o.GetAPIVersion(), kind, own, a.name))
			return said != "" && !strings.HasPrefix(said, "NoCluster")
		})
		for _, secret := range []string{"secret-of-", "\x1b"} {
			if strings.Contains(said, secret) {
				t.Errorf("%s %s tells what it must not: %s", a.field, a.name, said)
			}
		}
		reasons[strings.Fields(said + " ?")[0]]++
	}
	t.Logf("what the manager says of them: %v", reasons)
}

// all returns the versions of the objects that must stay as they are: those of other namespaces, and those of none.
func (w *world) all(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(version, kind, ns string) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(version)
		list.SetKind(kind + "List")
		must(t, w.admin.List(t.Context(), list, client.InNamespace(ns)))
		for _, o := range list.Items {
			found[fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName())] = o.GetResourceVersion()
		}
	}
	for _, ns := range []string{others, managers} {
		add("v1", "Secret", ns)
		add("v1", "ConfigMap", ns)
		add("cluster.x-k8s.io/v1beta2", "Machine", ns)
		add(infrastructure+"/v1alpha1", "LocalMachineTemplate", ns)
	}
	for _, crd := range targetKinds() {
		add(crd.Spec.Group+"/v1beta1", crd.Spec.Names.Kind, "")
	}
	add("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "")
	add("v1", "Namespace", "")
	add("backup.quorate.io/v1alpha1", "ClusterBackupStore", "")
	// The API server's own, and the history that the manager keeps of the control planes of that team.
	maps.DeleteFunc(found, func(key, _ string) bool {
		return strings.HasSuffix(key, "/kube-root-ca.crt") || strings.HasSuffix(key, "-quorate-history")
	})
	return found
}

// judge reads what the manager asked the API server for.
func (w *world) judge(t *testing.T) {
	t.Helper()
	log, err := os.Open(w.audit)
	must(t, err)
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	n, wrong := 0, map[string]int{}
	for lines.Scan() {
		var e auditv1.Event
		must(t, json.Unmarshal(lines.Bytes(), &e))
		if e.User.Username != managerUser || e.ObjectRef == nil {
			continue
		}
		n++
		if why := offence(&e); why != "" {
			wrong[fmt.Sprintf("%s: %s %s.%s %s/%s", why, e.Verb, e.ObjectRef.Resource, e.ObjectRef.APIGroup, e.ObjectRef.Namespace,
				e.ObjectRef.Name)]++
		}
	}
	must(t, lines.Err())
	for what, times := range wrong {
		t.Errorf("%d times %s", times, what)
	}
	if n == 0 {
		t.Error("the audit log has no request of the manager")
	}
	t.Logf("requests of the manager: %d, not held: %d", n, len(wrong))
}

// watched are the groups whose kinds the manager may keep in its cache, of all namespaces.
var watched = []string{"cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "etcdcluster.cluster.x-k8s.io",
	"upgrade.cluster.x-k8s.io"}

// offence says what is wrong with a request; empty: nothing.
func offence(e *auditv1.Event) string {
	o := e.ObjectRef
	reads := e.Verb == "list" || e.Verb == "watch"
	switch {
	case e.ResponseStatus != nil && e.ResponseStatus.Code == 403:
		return "without the right"
	case o.Namespace == own:
		return ""
	case o.Namespace == others && (o.Resource == "events" || ofHonest(o)):
		return ""
	case o.Namespace != "":
		return "in another namespace"
	case o.Resource == "selfsubjectaccessreviews" || o.Resource == "customresourcedefinitions" && reads:
		return ""
	case o.Resource == "clusterbackupstores" && e.Verb == "get", o.APIGroup == "backup.quorate.io" && reads:
		return ""
	case reads && slices.Contains(watched, o.APIGroup):
		return ""
	case reads && o.APIGroup == infrastructure && strings.HasPrefix(o.Resource, "local"):
		return ""
	}
	return "of the whole cluster"
}

// ofHonest reports whether an object is one of a control plane that a team made for itself.
func ofHonest(o *auditv1.ObjectReference) bool {
	for _, name := range []string{"before", "after", "later"} {
		if o.Name == name || strings.HasPrefix(o.Name, name+"-") || strings.HasPrefix(o.Name, name+".") {
			return true
		}
	}
	return false
}
