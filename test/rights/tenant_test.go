package rights

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// withheld are the kinds that a tenant does not write, and why.
var withheld = map[string]string{
	"clusterbackupstores.backup.quorate.io": "it belongs to no namespace, and its credentials are an administrator's",
	"etcdrecoveries.backup.quorate.io":      "it copies the data of etcd into a store of the namespace, and gives machines up",
	"clusterclasses.cluster.x-k8s.io":       "other Clusters may be of it",
	"machinedrainrules.cluster.x-k8s.io": "it holds for all Clusters of the namespace that match, and may keep a drain " +
		"from ending",
	"clusterresourcesets.addons.cluster.x-k8s.io":           "it writes secrets and ConfigMaps of the namespace to clusters",
	"clusterresourcesetbindings.addons.cluster.x-k8s.io":    "a controller writes it",
	"ipaddresses.ipam.cluster.x-k8s.io":                     "a provider of addresses writes it",
	"ipaddressclaims.ipam.cluster.x-k8s.io":                 "infrastructure providers write it",
	"extensionconfigs.runtime.cluster.x-k8s.io":             "it belongs to no namespace, and its server is asked about all clusters",
	"nodeupgrades.upgrade.cluster.x-k8s.io":                 "whoever creates it decides what runs as root on a node",
	"controlplaneupgrades.upgrade.cluster.x-k8s.io":         "Quorate creates it, and NodeUpgrades from it",
	"machinedeploymentupgrades.upgrade.cluster.x-k8s.io":    "Quorate creates NodeUpgrades from it",
	"localclusters.infrastructure.cluster.x-k8s.io":         "root in a local machine is root on the host",
	"localclustertemplates.infrastructure.cluster.x-k8s.io": "root in a local machine is root on the host",
	"localmachines.infrastructure.cluster.x-k8s.io":         "root in a local machine is root on the host",
	"localmachinetemplates.infrastructure.cluster.x-k8s.io": "root in a local machine is root on the host",
}

// kind is what a definition says of a kind.
type kind struct{ namespaced, scales bool }

// kinds are all of Quorate's and of Cluster API's core and kubeadm bootstrap provider, by resource and group.
func kinds(t *testing.T) map[string]kind {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	module := strings.TrimSpace(string(out))
	all := map[string]kind{}
	for _, folder := range []string{"../../config/crd", filepath.Join(module, "core/config/crd/bases"),
		filepath.Join(module, "bootstrap/kubeadm/config/crd/bases")} {
		files, err := filepath.Glob(filepath.Join(folder, "*_*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d definitions, %v", folder, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var d apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal(data, &d); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			scales := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return v.Subresources != nil && v.Subresources.Scale != nil
			})
			all[d.Spec.Names.Plural+"."+d.Spec.Group] = kind{d.Spec.Scope == apiextensionsv1.NamespaceScoped, scales}
		}
	}
	return all
}

// reads are the verbs that change nothing.
var reads = []string{"get", "list", "watch"}

// TestTenantRole: of each kind it is decided whether a tenant writes it, and a tenant has no more than that: nothing of all kinds, nothing
// that belongs to no namespace, no status, no secret.
func TestTenantRole(t *testing.T) {
	role := roleFile(t, "../../config/tenant/role.yaml")
	all := kinds(t)
	if role.AggregationRule != nil {
		t.Error("whoever writes ClusterRoles adds to it")
	}
	written := map[string]bool{}
	for _, right := range grants(role) {
		resource, sub, _ := strings.Cut(right.Resource, "/")
		name := resource + "." + right.Group
		k, known := all[name]
		switch {
		case resource == "events" && slices.Contains(reads, right.Verb):
		case strings.Contains(right.String(), "*"):
			t.Errorf("%s: what comes later is granted unseen", right)
		case !known:
			t.Errorf("%s: a tenant has no business there", right)
		case !k.namespaced:
			t.Errorf("%s: it belongs to no namespace", right)
		case sub != "" && (sub != "scale" || !k.scales):
			t.Errorf("%s: tenants have no subresource but scale", right)
		case slices.Contains(reads, right.Verb):
		case !slices.Contains([]string{"create", "update", "patch", "delete"}, right.Verb):
			t.Errorf("%s: tenants create, change and delete objects one by one", right)
		case withheld[name] != "":
			t.Errorf("%s: %s", right, withheld[name])
		case sub == "":
			written[name] = true
		}
	}
	for name := range all {
		if !written[name] && withheld[name] == "" {
			t.Errorf("%s: give it to tenants in config/tenant/role.yaml, or say in this test why not", name)
		}
	}
	for name := range withheld {
		if _, known := all[name]; !known {
			t.Errorf("there is no kind %s: strike it off the list", name)
		}
	}
}

func roleFile(t *testing.T, file string) *rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, role); err != nil {
		t.Fatal(err)
	}
	return role
}
