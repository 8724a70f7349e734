package tenant

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// names matches the fields of a spec whose value names an object, a kind, a place or an image.
var names = regexp.MustCompile(
	`(?i)(name|names|namespace|ref|refs|url|urls|image|imageRepository|secret|endpoint|endpoints|host|kind|apiGroup|apiVersion|` +
		`server|address|providerID|from|value)$`)

// use is what becomes of the value of a field.
type use int

const (
	// followed: the manager looks for what the field names. There are attempts for it in attempts_test.go.
	followed use = iota
	// onNodes: the value goes into bootstrap data or onto machines of the tenant's own cluster, and is nothing to the manager.
	onNodes
	// inCluster: the value names an object of the managed cluster, which is the tenant's own.
	inCluster
	// unread: the manager has no controller for the kind: it cannot even list it.
	unread
	// atService: the value goes to a service that the tenant chose.
	atService
	// copied: the manager copies the value into the field of an EtcdCluster, which has its own attempts, and reads nothing by it.
	copied
	// ofAdmin: the kind is an administrator's: config/tenant/role.yaml does not let a tenant write it.
	ofAdmin
	// onHost: the kind is one of local machines, which no management cluster has.
	onHost
)

// kinds whose fields have one use all together.
var kinds = map[string]use{
	"KubeadmControlPlaneTemplate": unread, "ControlPlaneTemplate": unread, "EtcdClusterTemplate": unread, "EtcdadmConfigTemplate": unread,
	"EtcdadmCluster": copied, "ClusterBackupStore": ofAdmin, "EtcdRecovery": ofAdmin,
	"LocalCluster": onHost, "LocalClusterTemplate": onHost, "LocalMachine": onHost, "LocalMachineTemplate": onHost,
}

// uses are those of the fields of other kinds, by the longest prefix.
var uses = map[string]use{
	"KubeadmControlPlane spec.kubeadmConfigSpec":                      onNodes,
	"KubeadmControlPlane spec.machineTemplate.spec.infrastructureRef": followed,
	"KubeadmControlPlane spec.managedExternalEtcdRef":                 followed,
	"ControlPlane spec.etcd.operator":                                 inCluster,
	"ControlPlane spec.machineTemplate.spec.bootstrap.configRef":      followed,
	"ControlPlane spec.machineTemplate.spec.bootstrap.dataSecretName": followed,
	"ControlPlane spec.machineTemplate.spec.infrastructureRef":        followed,
	"ControlPlane spec.machineTemplate.spec.taints":                   onNodes,
	"ControlPlane spec.managedExternalEtcdRef":                        followed,
	"ControlPlane spec.providerSpec.value":                            followed,
	"KubeadmControlPlane spec.machineTemplate.infrastructureRef":      followed,
	"KubeadmControlPlane spec.machineTemplate.taints":                 onNodes,
	"KubeadmControlPlane spec.machineTemplate.spec.taints":            onNodes,
	"EtcdCluster spec.endpoint":                                       onNodes,
	"EtcdCluster spec.etcdadmConfigSpec":                              onNodes,
	"EtcdCluster spec.infrastructureTemplate":                         followed,
	"EtcdadmConfig spec":                                              onNodes,
	"EtcdadmConfig spec.files[].contentFrom.secret":                   followed,
	"EtcdadmConfig spec.users[].passwdFrom.secret":                    followed,
	"ControlPlaneUpgrade spec.controlPlane":                           followed,
	"ControlPlaneUpgrade spec.machinesRequireUpgrade":                 followed,
	"MachineDeploymentUpgrade spec.machineDeployment":                 followed,
	"MachineDeploymentUpgrade spec.machinesRequireUpgrade":            followed,
	"NodeUpgrade spec.kubelet":                                        onNodes,
	"NodeUpgrade spec.machine":                                        followed,
	"NodeUpgrade spec.upgraderImage":                                  onNodes,
	"KubeadmControlPlane spec.backup.storeRef":                        followed,
	"ControlPlane spec.backup.storeRef":                               followed,
	"EtcdCluster spec.backup.storeRef":                                followed,
	"BackupStore spec.s3.credentialsSecretRef":                        followed,
	"BackupStore spec.s3.endpoint":                                    followed,
	"BackupStore spec.s3.encryption.keyName":                          atService,
}

// field is one that names something.
type field struct{ kind, path string }

func (f field) String() string { return f.kind + " " + f.path }

// use returns what becomes of the field's value; false: nobody has said.
func (f field) use() (use, bool) {
	if of, ok := kinds[f.kind]; ok {
		return of, true
	}
	longest := ""
	for prefix := range uses {
		if below(f.String(), prefix) && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	return uses[longest], longest != ""
}

// below reports whether a path is a prefix or lies below it.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".[{"))
}

// definitions reads the definitions of Quorate's kinds.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/*_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d definitions, %v", len(files), err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, crd)
	}
	return all
}

// namingFields returns all fields of the specs that name something.
func namingFields(t *testing.T) []field {
	t.Helper()
	found := map[field]bool{}
	for _, crd := range definitions(t) {
		for _, v := range crd.Spec.Versions {
			walk(v.Schema.OpenAPIV3Schema.Properties["spec"], "spec", func(path string) { found[field{crd.Spec.Names.Kind, path}] = true })
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b field) int { return cmp.Compare(a.String(), b.String()) })
}

// walk calls found with the path of each field below a schema that names something: values of any type, and texts.
func walk(s apiextensionsv1.JSONSchemaProps, path string, found func(string)) {
	for name, p := range s.Properties {
		at := path + "." + name
		text := p.Type == "string" || p.Items != nil && p.Items.Schema != nil && p.Items.Schema.Type == "string"
		if names.MatchString(name) && (text || p.XPreserveUnknownFields != nil) {
			found(at)
		}
		walk(p, at, found)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(*s.Items.Schema, path+"[]", found)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(*s.AdditionalProperties.Schema, path+"{}", found)
	}
}

// TestFields: of each field that names something it is known what becomes of its value, and each that the manager follows has its attempts.
func TestFields(t *testing.T) {
	count := map[use]int{}
	used := map[string]bool{}
	for _, f := range namingFields(t) {
		use, known := f.use()
		if !known {
			t.Errorf("%s names something: say in uses what becomes of it, and if the manager follows it, add attempts", f)
		}
		count[use]++
		for prefix := range uses {
			used[prefix] = used[prefix] || below(f.String(), prefix)
		}
		if use == followed && !slices.ContainsFunc(attempts(), func(a attempt) bool { return below(f.String(), a.field) }) {
			t.Errorf("%s: the manager follows it, and no attempt writes something into it", f)
		}
	}
	for prefix := range uses {
		if !used[prefix] {
			t.Errorf("%s names nothing any more: strike it off", prefix)
		}
	}
	t.Logf("fields that name something: %d followed, %d for nodes, %d in the managed cluster, %d of kinds without a controller, %d copied "+
		"to another kind, %d of local machines",
		count[followed], count[onNodes], count[inCluster], count[unread], count[copied], count[onHost])
}

// TestUnread: the manager's role grants nothing on the kinds of which its controllers read none.
func TestUnread(t *testing.T) {
	granted := managerRole(t)
	for _, crd := range definitions(t) {
		if kinds[crd.Spec.Names.Kind] != unread {
			continue
		}
		for _, rule := range granted.Rules {
			if slices.Contains(rule.APIGroups, crd.Spec.Group) && slices.Contains(rule.Resources, crd.Spec.Names.Plural) {
				t.Errorf("the role grants %v on %s", rule.Verbs, crd.Name)
			}
		}
	}
}
