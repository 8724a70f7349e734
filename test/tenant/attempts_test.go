package tenant

import (
	"fmt"
	"strings"
)

// attempt is something that a tenant writes to reach what belongs to others.
type attempt struct {
	// field is the one that names it: "Kind path".
	field string
	// name is that of the attempt's objects, Cluster included.
	name string
	// objects are YAML documents of the tenant's own namespace. The Cluster, if one is named, is made first, and owns the next object.
	objects []string
	// admitted: the API server must take it, so that the manager has to hold. Others may be refused.
	admitted bool
}

// target is what a reference may try to name.
type target struct {
	about, group, kind, name string
	// template is the name of the kind for fields that name templates; empty: kind.
	template string
}

// The targets stand for kinds of every sort that a reference must not follow; world_test.go makes them.
var targets = []target{
	{about: "cluster-scoped", group: infrastructure, kind: "SharedIdentity", template: "SharedIdentityTemplate", name: "prize"},
	{about: "without rights", group: foreign, kind: "ForbiddenMachine", template: "ForbiddenMachineTemplate", name: "prize"},
	{about: "without a contract", group: infrastructure, kind: "PlainMachine", template: "PlainMachineTemplate", name: "prize"},
	{about: "not there", group: infrastructure, kind: "NoMachine", template: "NoMachineTemplate", name: "prize"},
	{about: "of another provider", group: "controlplane.cluster.x-k8s.io", kind: "KubeadmControlPlaneTemplate", name: "prize"},
	{about: "of the core", group: "cluster.x-k8s.io", kind: "Cluster", template: "ClusterTemplate", name: "prize"},
	{about: "a role", group: "rbac.authorization.k8s.io", kind: "ClusterRole", template: "ClusterRoleTemplate", name: "prize"},
	{about: "a definition", group: "apiextensions.k8s.io", kind: "CustomResourceDefinition", name: "prize"},
	{about: "in a path", group: infrastructure, kind: "LocalMachine", template: "LocalMachineTemplate", name: "../../victim/prize"},
	{about: "with a namespace", group: infrastructure, kind: "LocalMachine", template: "LocalMachineTemplate", name: "victim/prize"},
}

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	foreign        = "infrastructure.example.com"
)

func (t target) ref(template bool) string {
	kind := t.kind
	if template && t.template != "" {
		kind = t.template
	}
	return fmt.Sprintf("{apiGroup: %q, kind: %q, name: %q}", t.group, kind, t.name)
}

const clusterOf = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: NAME, namespace: tenant}
spec:
  controlPlaneEndpoint: {host: 127.0.0.1, port: 1}
  controlPlaneRef: CONTROLPLANE
  infrastructureRef: INFRASTRUCTURE
`

// clusterFor returns a Cluster that names its control plane and its infrastructure; empty: a harmless one.
func clusterFor(controlPlane, infra string) string {
	if controlPlane == "" {
		controlPlane = "{apiGroup: controlplane.cluster.x-k8s.io, kind: ControlPlane, name: NAME}"
	}
	if infra == "" {
		infra = "{apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalCluster, name: NAME}"
	}
	return strings.NewReplacer("CONTROLPLANE", controlPlane, "INFRASTRUCTURE", infra).Replace(clusterOf)
}

const machinesOf = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: ControlPlane
metadata: {name: NAME, namespace: tenant, labels: {cluster.x-k8s.io/cluster-name: NAME}}
spec:
  replicas: 1
  version: v1.36.3
`

const kubeadmOf = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: NAME, namespace: tenant, labels: {cluster.x-k8s.io/cluster-name: NAME}}
spec:
  replicas: 1
  version: v1.36.3
`

const etcdOf = `
apiVersion: etcdcluster.cluster.x-k8s.io/v1alpha1
kind: EtcdCluster
metadata: {name: NAME, namespace: tenant, labels: {cluster.x-k8s.io/cluster-name: NAME}}
spec:
  replicas: 1
  version: 3.6.5
`

const machineOf = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  name: NAME-1
  namespace: tenant
  labels: {cluster.x-k8s.io/cluster-name: NAME, cluster.x-k8s.io/control-plane: ""}
spec:
  clusterName: NAME
  version: v1.36.3
  infrastructureRef: INFRASTRUCTURE
  bootstrap: BOOTSTRAP
`

const (
	harmlessTemplate = "{apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: own}"
	harmlessMachine  = "{apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachine, name: NAME-1}"
	infraTemplate    = "  machineTemplate: {metadata: {labels: {written-by: tenant}, annotations: {cluster.x-k8s.io/paused: tenant}}, spec: " +
		"{infrastructureRef: %s}}\n"
)

// attempts returns all, with names of their own.
func attempts() []attempt {
	var all []attempt
	add := func(field string, admitted bool, objects ...string) {
		a := attempt{field: field, name: fmt.Sprintf("a%d", len(all)), admitted: admitted}
		for _, o := range objects {
			a.objects = append(a.objects, strings.ReplaceAll(o, "NAME", a.name))
		}
		all = append(all, a)
	}
	for _, t := range targets {
		byReference(t, add)
	}
	olderVersion(add)
	inline(add)
	secrets(add)
	upgrades(add)
	stores(add)
	return all
}

// byReference are the attempts that name a target in each field for references.
func byReference(t target, add func(string, bool, ...string)) {
	template, plain := t.ref(true), t.ref(false)
	good := !strings.Contains(t.name, "/")
	add("KubeadmControlPlane spec.machineTemplate.spec.infrastructureRef", good,
		clusterFor("{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: NAME}", ""),
		kubeadmOf+fmt.Sprintf(infraTemplate, template))
	add("KubeadmControlPlane spec.managedExternalEtcdRef", good,
		clusterFor("{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: NAME}", ""),
		kubeadmOf+fmt.Sprintf(infraTemplate, harmlessTemplate)+"  managedExternalEtcdRef: "+plain+"\n")
	add("ControlPlane spec.machineTemplate.spec.infrastructureRef", good, clusterFor("", ""), machinesOf+fmt.Sprintf(infraTemplate, template))
	add("ControlPlane spec.managedExternalEtcdRef", good, clusterFor("", ""),
		machinesOf+fmt.Sprintf(infraTemplate, harmlessTemplate)+"  managedExternalEtcdRef: "+plain+"\n")
	add("ControlPlane spec.machineTemplate.spec.bootstrap.configRef", good, clusterFor("", ""),
		machinesOf+"  machineTemplate: {spec: {bootstrap: {configRef: "+template+"}, infrastructureRef: "+harmlessTemplate+"}}\n")
	add("EtcdCluster spec.infrastructureTemplate", good, clusterFor("", ""), etcdOf+"  infrastructureTemplate: "+template+"\n")
	add("Cluster spec.infrastructureRef", good, clusterFor("", plain), etcdOf+"  infrastructureTemplate: "+harmlessTemplate+"\n")
	add("Cluster spec.controlPlaneRef", good, clusterFor(plain, ""), etcdOf+"  infrastructureTemplate: "+harmlessTemplate+"\n")
	onMachine := func(infra, bootstrap string) string {
		return strings.NewReplacer("INFRASTRUCTURE", infra, "BOOTSTRAP", bootstrap).Replace(machineOf)
	}
	labelled := machinesOf + fmt.Sprintf(infraTemplate, harmlessTemplate)
	add("Machine spec.infrastructureRef", good, clusterFor("", ""), labelled, onMachine(plain, "{dataSecretName: none}"))
	add("Machine spec.bootstrap.configRef", good, clusterFor("", ""), labelled, onMachine(harmlessMachine, "{configRef: "+plain+"}"))
}

// olderVersion are the attempts in v1beta1, whose references have a namespace.
func olderVersion(add func(string, bool, ...string)) {
	for _, ref := range []string{
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachineTemplate, name: prize, namespace: victim}`,
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: SharedIdentityTemplate, name: prize, namespace: ""}`,
		`{apiVersion: v1, kind: Secret, name: prize, namespace: quorate-system}`,
	} {
		add("KubeadmControlPlane spec.machineTemplate.infrastructureRef", false,
			clusterFor("{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: NAME}", ""),
			strings.Replace(kubeadmOf, "v1beta2", "v1beta1", 1)+"  machineTemplate: {infrastructureRef: "+ref+"}\n")
	}
}

// inline are the attempts that have the manager make what the tenant may not.
func inline(add func(string, bool, ...string)) {
	for _, value := range []string{
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: SharedIdentity, spec: {allowedNamespaces: {}}}`,
		`{apiVersion: v1, kind: Secret, metadata: {annotations: {kubernetes.io/service-account.name: privileged}}, type: ` +
			`kubernetes.io/service-account-token}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ` +
			`ClusterRole, name: cluster-admin}}`,
		`{apiVersion: v1, kind: ConfigMap, data: {a: b}}`,
		`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, spec: {clusterName: prize}}`,
		`{apiVersion: infrastructure.example.com/v1beta1, kind: ForbiddenMachine}`,
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: PlainMachine}`,
		`{apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachine, metadata: {namespace: victim, labels: {written-by: tenant}}}`,
		`{apiVersion: infrastructure.cluster.x-k8s.io/v7, kind: LocalMachine}`,
		`{apiVersion: "", kind: ""}`,
	} {
		add("ControlPlane spec.providerSpec.value", false, clusterFor("", ""), machinesOf+"  providerSpec: {value: "+value+"}\n")
	}
}

// secrets are the attempts that name secrets, and places of the bootstrap provider.
func secrets(add func(string, bool, ...string)) {
	for _, name := range []string{"prize", "../../victim/secrets/prize", "victim/prize", "kube-system/prize"} {
		add("ControlPlane spec.machineTemplate.spec.bootstrap.dataSecretName", false, clusterFor("", ""),
			machinesOf+fmt.Sprintf("  machineTemplate: {spec: {bootstrap: {dataSecretName: %q}, infrastructureRef: %s}}\n", name, harmlessTemplate))
		etcdadm := `
apiVersion: bootstrap.cluster.x-k8s.io/v1alpha1
kind: EtcdadmConfig
metadata: {name: NAME, namespace: tenant, labels: {cluster.x-k8s.io/cluster-name: NAME}}
spec:
  version: 3.6.5
  FIELD
`
		with := func(field, text string) {
			add(field, false, clusterFor("", ""), strings.Replace(etcdadm, "FIELD", fmt.Sprintf(text, name), 1))
		}
		with("EtcdadmConfig spec.files[].contentFrom.secret", "files: [{path: /etc/motd, contentFrom: {secret: {name: %q, key: value}}}]")
		with("EtcdadmConfig spec.users[].passwdFrom.secret", "users: [{name: me, passwdFrom: {secret: {name: %q, key: value}}}]")
	}
}

// stores are the attempts that name stores of backups, their secrets and their addresses. The groups call themselves initialised, as only
// then they are backed up.
func stores(add func(string, bool, ...string)) {
	const store = `
apiVersion: backup.quorate.io/v1alpha1
kind: BackupStore
metadata: {name: NAME, namespace: tenant}
spec: {s3: {endpoint: %q, bucket: prize, pathStyle: true, credentialsSecretRef: {name: %q}}}
`
	initialized := func(object string) string {
		return strings.Replace(object, "namespace: tenant,",
			`namespace: tenant, annotations: {controlplane.cluster.x-k8s.io/quorate-initialized: "true"},`, 1)
	}
	const backups = "  backup: {storeRef: {name: %q}, schedule: '@hourly'}\n"
	const shared = "  backup: {storeRef: {kind: ClusterBackupStore, name: %q}, schedule: '@hourly'}\n"
	kubeadm := clusterFor("{apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: NAME}", "")
	kcp := initialized(kubeadmOf) + fmt.Sprintf(infraTemplate, harmlessTemplate)
	for _, named := range []string{
		fmt.Sprintf(backups, "prize"), fmt.Sprintf(backups, "../../victim/backupstores/prize"), fmt.Sprintf(backups, "victim/prize"),
		fmt.Sprintf(shared, "prize"), fmt.Sprintf(shared, "../../../api/v1/namespaces/quorate-system/secrets/prize"),
		fmt.Sprintf(shared, "prize/../prize"), fmt.Sprintf(shared, ""),
	} {
		add("KubeadmControlPlane spec.backup.storeRef", false, kubeadm, kcp+named)
		add("ControlPlane spec.backup.storeRef", false, clusterFor("", ""), initialized(machinesOf)+"  etcd: {management: Members}\n"+
			fmt.Sprintf(infraTemplate, harmlessTemplate)+named)
		add("EtcdCluster spec.backup.storeRef", false, clusterFor("", ""), initialized(etcdOf)+"  infrastructureTemplate: "+harmlessTemplate+"\n"+
			named)
	}
	add("ClusterBackupStore", false, `
apiVersion: backup.quorate.io/v1alpha1
kind: ClusterBackupStore
metadata: {name: NAME}
spec: {allowedNamespaces: {names: [tenant]}, s3: {endpoint: "https://s3.example.com", bucket: prize, credentialsSecretRef: {name: prize}}}
`)
	own := fmt.Sprintf(backups, "NAME")
	for _, name := range []string{"prize", "../../victim/secrets/prize", "victim/prize", "kube-system/prize"} {
		add("BackupStore spec.s3.credentialsSecretRef", false, kubeadm, kcp+own, fmt.Sprintf(store, "https://s3.example.com", name))
	}
	for _, endpoint := range []string{"http://127.0.0.1:1", "https://localhost:6443", "http://169.254.169.254", "http://[::1]:2379"} {
		add("BackupStore spec.s3.endpoint", false, kubeadm, kcp+own, fmt.Sprintf(store, endpoint, "own"))
	}
}

// upgrades are the attempts that have nodes of others upgraded. The Machine prize of the tenant's namespace belongs to another Cluster
// there.
func upgrades(add func(string, bool, ...string)) {
	const node = `
apiVersion: upgrade.cluster.x-k8s.io/v1alpha1
kind: NodeUpgrade
metadata: {name: NAME, namespace: tenant, labels: {cluster.x-k8s.io/cluster-name: NAME}}
spec: {machine: {name: %q}, kubernetesVersion: v1.36.3, nodeType: ControlPlane}
`
	for _, name := range []string{"prize", "../../victim/machines/prize", "victim/prize"} {
		add("NodeUpgrade spec.machine", false, clusterFor("", ""), fmt.Sprintf(node, name))
	}
	const group = `
apiVersion: upgrade.cluster.x-k8s.io/v1alpha1
kind: KIND
metadata:
  name: NAME
  namespace: tenant
  labels: {cluster.x-k8s.io/cluster-name: NAME}
  ownerReferences: [{apiVersion: "OWNER", uid: 8f7a1f0e-5f3c-4a53-9a0e-6a9d3f1f9d10, controller: true}]
spec:
  kubernetesVersion: v1.36.3
  OF
  machinesRequireUpgrade: [{name: %q}]
`
	for _, t := range targets {
		owner := fmt.Sprintf(`%s/v1", kind: %q, name: "%s`, t.group, t.kind, t.name)
		of := strings.NewReplacer("KIND", "ControlPlaneUpgrade", "OWNER", owner, "OF", "controlPlane: "+t.ref(false)).Replace(group)
		add("ControlPlaneUpgrade spec.controlPlane", false, clusterFor("", ""), fmt.Sprintf(of, "prize"))
	}
	for _, name := range []string{"prize", "victim/prize"} {
		of := strings.NewReplacer("KIND", "ControlPlaneUpgrade", "OWNER",
			`controlplane.cluster.x-k8s.io/v1alpha1", kind: ControlPlane, name: "NAME`,
			"OF", "controlPlane: {apiGroup: controlplane.cluster.x-k8s.io, kind: ControlPlane, name: NAME}").Replace(group)
		add("ControlPlaneUpgrade spec.machinesRequireUpgrade", false, clusterFor("", ""), fmt.Sprintf(of, name))
		owner := fmt.Sprintf(`cluster.x-k8s.io/v1beta2", kind: MachineDeployment, name: "%s`, name)
		of = strings.NewReplacer("KIND", "MachineDeploymentUpgrade", "OWNER", owner, "OF",
			fmt.Sprintf("machineDeployment: {name: %q}", name)).Replace(group)
		add("MachineDeploymentUpgrade spec.machineDeployment", false, clusterFor("", ""), fmt.Sprintf(of, name))
		add("MachineDeploymentUpgrade spec.machinesRequireUpgrade", false, clusterFor("", ""), fmt.Sprintf(of, name))
	}
}
