package envtest

import (
	"context"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
)

// TestControlPlane asks an API server without webhooks what it makes of the kind ControlPlane.
func TestControlPlane(t *testing.T) {
	needAssets(t)
	c := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true})
	t.Run("machines", func(t *testing.T) { dryRun(t, c, machines, machinesRows) })
	t.Run("template", func(t *testing.T) { dryRun(t, c, machinesTemplate, templateRows) })
	t.Run("providerSpec", func(t *testing.T) { dryRun(t, c, inline, inlineRows) })
	t.Run("defaults", func(t *testing.T) { defaulted(t, c) })
	t.Run("scale", func(t *testing.T) { scaledMachines(t, c) })
	t.Run("stored before the rules", func(t *testing.T) { storedMachines(t, c) })
	t.Run("where the data are stays", func(t *testing.T) { dataStay(t, c) })
	t.Run("status", func(t *testing.T) { reported(t, c) })
}

const machines = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: ControlPlane
metadata: {name: machines, namespace: default}
spec:
  replicas: 3
  version: v1.36.3
  machineTemplate:
    metadata: {labels: {a: b}}
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: cp}
      bootstrap:
        configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: cp}
      deletion: {nodeDrainTimeoutSeconds: 60, nodeVolumeDetachTimeoutSeconds: 60, nodeDeletionTimeoutSeconds: 60}
      readinessGates: [{conditionType: example.com/ready}]
`

// machinesRows are changes of machines, and the refusals of their creation.
var machinesRows = []row{
	{"as it is", "", "", ""},
	{"one machine", "replicas: 3", "replicas: 1", ""},
	{"nine machines", "replicas: 3", "replicas: 9", ""},
	{"two machines", "replicas: 3", "replicas: 2",
		"spec.replicas: Invalid value: 2: replicas is 2: a control plane needs an odd number of machines (1, 3, 5 and so on)"},
	{"no machine", "replicas: 3", "replicas: 0",
		"spec.replicas: Invalid value: 0: replicas is 0: at least one machine is needed; 1, 3, 5 and other odd numbers are accepted"},
	{"less than none", "replicas: 3", "replicas: -1", "replicas is -1: at least one machine is needed"},
	{"no version", "  version: v1.36.3\n", "", ""},
	{"a version that is none", "version: v1.36.3", "version: latest",
		"spec.version: Invalid value: \"latest\": version is latest: it must be of the form v1.36.3"},
	{"active", "replicas: 3", "state: Active", ""},
	{"repair, as a design document spells it", "replicas: 3", "enableautorepair: false",
		"spec.enableautorepair: Invalid value: false: enableautorepair is not a field: set enableAutorepair, with a capital A"},
	{"another state", "replicas: 3", "state: Stopped", `spec.state: Unsupported value: "Stopped": supported values: "Active", "Inactive"`},

	{"no infrastructure", "infrastructureRef:", "x:",
		"machineTemplate.spec.infrastructureRef and providerSpec.value are both missing: exactly one of them is needed"},
	{"no machineTemplate", "machineTemplate:", "x:", "machineTemplate.spec.infrastructureRef and providerSpec.value are both missing"},
	{"an empty providerSpec", "replicas: 3", "providerSpec: {}", ""},
	{"two infrastructures", "replicas: 3", "providerSpec: {value: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachine}}",
		"machineTemplate.spec.infrastructureRef is LocalMachineTemplate cp, and providerSpec.value is given too: exactly one of " +
			"machineTemplate.spec.infrastructureRef and providerSpec.value is accepted"},
	{"an infrastructure that is no template", "LocalMachineTemplate", "LocalMachine", "spec.machineTemplate.spec.infrastructureRef.kind: " +
		"Invalid value: kind is LocalMachine: the kind of a template is accepted, which ends in Template"},

	{"changed in place, without bootstrap data", "      bootstrap:\n        configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: " +
		"KubeadmConfigTemplate, name: cp}\n      deletion: {nodeDrainTimeoutSeconds: 60, nodeVolumeDetachTimeoutSeconds: 60, " +
		"nodeDeletionTimeoutSeconds: 60}\n      readinessGates: [{conditionType: example.com/ready}]", "  inPlace: {policy: Only}",
		"spec.inPlace.policy: Invalid value: inPlace.policy Preferred and Only need a KubeadmConfigTemplate in " +
			"machineTemplate.spec.bootstrap.configRef"},
	{"no bootstrap data", "bootstrap:", "x:", ""},
	{"bootstrap data in a secret", "configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: cp}",
		"dataSecretName: secret", ""},
	{"an empty bootstrap", "configRef:", "x:", "configRef and dataSecretName are both missing: exactly one of them is needed"},
	{"two sources of bootstrap data", "configRef:", "dataSecretName: secret\n        configRef:",
		"configRef is KubeadmConfigTemplate cp and dataSecretName is secret: exactly one of configRef and dataSecretName is accepted"},
	{"a bootstrap configuration that is no template", "KubeadmConfigTemplate", "KubeadmConfig",
		"spec.machineTemplate.spec.bootstrap.configRef.kind: Invalid value: kind is KubeadmConfig: the kind of a template is accepted"},

	{"a selector", "replicas: 3", "selector: {matchExpressions: [{key: node-role.kubernetes.io/master, operator: Exists}]}", ""},
	{"a selector of all machines", "replicas: 3", "selector: {}",
		"selector is empty: it would adopt every Machine of the cluster; at least one of matchLabels and matchExpressions is needed"},
	{"a selector of no labels", "replicas: 3", "selector: {matchLabels: {}}", "selector is empty"},
	{"failure domains", "replicas: 3", "failureDomains: [a, b]", ""},
	{"a failure domain twice", "replicas: 3", "failureDomains: [a, a]", `spec.failureDomains[1]: Duplicate value: "a"`},
	{"an empty failure domain", "replicas: 3", "failureDomains: ['']", "spec.failureDomains[0]: Invalid value"},
	{"no time to start", "replicas: 3", "health: {nodeStartupTimeoutSeconds: 59}", "spec.health.nodeStartupTimeoutSeconds: Invalid value: " +
		"59: spec.health.nodeStartupTimeoutSeconds in body should be greater than or equal to 60"},
	{"no time to recover", "replicas: 3", "health: {unhealthyTimeoutSeconds: 0}", "spec.health.unhealthyTimeoutSeconds: Invalid value: 0"},
	{"joins one by one", "replicas: 3", "joins: {maxParallel: 1}", ""},
	{"no joins at all", "replicas: 3", "joins: {maxParallel: 0}", "spec.joins.maxParallel: Invalid value: 0"},
	{"ten minutes to join", "replicas: 3", "joins: {timeoutSeconds: 600}", ""},
	{"too little time to join", "replicas: 3", "joins: {timeoutSeconds: 599}",
		"spec.joins.timeoutSeconds: Invalid value: 599: spec.joins.timeoutSeconds in body should be greater than or equal to 600"},
	{"more than a day to join", "replicas: 3", "joins: {timeoutSeconds: 86401}",
		"spec.joins.timeoutSeconds in body should be less than or equal to 86400"},

	{"etcd's members", "replicas: 3", "etcd: {management: Members}", ""},
	{"an etcd operator", "replicas: 3", "etcd: {management: Operator}", ""},
	{"a named etcd operator", "replicas: 3", "etcd: {management: Operator, operator: {name: main, conditionType: Healthy}}", ""},
	{"an etcd operator of another kind", "replicas: 3",
		"etcd: {management: Operator, operator: {apiVersion: etcd.example.com/v1, kind: EtcdCluster, name: main, namespace: etcd}}", ""},
	{"an etcd operator's kind without a version", "replicas: 3", "etcd: {management: Operator, operator: {kind: EtcdCluster}}",
		"kind is EtcdCluster and apiVersion is missing: both or none are accepted"},
	{"an etcd operator's version without a kind", "replicas: 3", "etcd: {management: Operator, operator: {apiVersion: v1}}",
		"apiVersion is v1 and kind is missing: both or none are accepted"},
	{"an etcd operator beside members", "replicas: 3", "etcd: {management: Members, operator: {name: main}}",
		"operator is given, and management is Members: operator is accepted only with management Operator"},
	{"an etcd operator only", "replicas: 3", "etcd: {operator: {name: main}}",
		"operator is given, and management is missing: operator is accepted only with management Operator"},
	{"an etcd cluster", "replicas: 3", "managedExternalEtcdRef: {apiGroup: etcdcluster.cluster.x-k8s.io, kind: EtcdCluster}", ""},
	{"an etcd cluster beside none on the machines", "replicas: 3",
		"etcd: {management: None}\n  managedExternalEtcdRef: {apiGroup: etcdcluster.cluster.x-k8s.io, kind: EtcdCluster}", ""},
	{"an etcd cluster beside members", "replicas: 3",
		"etcd: {management: Members}\n  managedExternalEtcdRef: {apiGroup: etcdcluster.cluster.x-k8s.io, kind: EtcdCluster}",
		"spec.managedExternalEtcdRef: Invalid value: managedExternalEtcdRef is EtcdCluster, and etcd.management is Members: None is accepted"},
	{"an etcd cluster without a kind", "replicas: 3", "managedExternalEtcdRef: {apiGroup: etcdcluster.cluster.x-k8s.io}",
		"spec.managedExternalEtcdRef.kind: Required value"},
	{"changed in place", "replicas: 3", "inPlace: {policy: Preferred}", ""},
	{"changed in place only", "replicas: 3", "inPlace: {policy: Only}", ""},
	{"changed in place by others", "replicas: 3", "inPlace: {policy: External}", ""},
	{"changed in place, without a policy", "replicas: 3", "inPlace: {}",
		"spec.inPlace: Invalid value: 0: spec.inPlace in body should have at least 1 properties"},
	{"changed in place, somehow", "replicas: 3", "inPlace: {policy: Always}",
		`spec.inPlace.policy: Unsupported value: "Always": supported values: "Never", "Preferred", "Only", "External"`},
	{"one replaced in a day", "replicas: 3", "approval: {maxReplacementsPerDay: 1}", ""},
	{"100 replaced in a day, each approved", "replicas: 3", "approval: {policy: Required, maxReplacementsPerDay: 100}", ""},
	{"a window and a freeze", "replicas: 3", `approval: {windows: [{days: [Saturday], start: "22:30", length: 4h, ` +
		`timeZone: Europe/Berlin}], frozenUntil: "2027-01-07T00:00:00Z"}`, ""},
	{"a window of a day that does not exist", "replicas: 3", `approval: {windows: [{days: [Caturday], start: "22:30", length: 4h}]}`,
		`spec.approval.windows[0].days[0]: Unsupported value: "Caturday"`},
	{"a window at no time of day", "replicas: 3", `approval: {windows: [{start: "24:30", length: 4h}]}`,
		"spec.approval.windows[0].start: Invalid value"},
	{"none replaced in a day", "replicas: 3", "approval: {maxReplacementsPerDay: 0}", "spec.approval.maxReplacementsPerDay: Invalid value: " +
		"0: spec.approval.maxReplacementsPerDay in body should be greater than or equal to 1"},
	{"101 replaced in a day", "replicas: 3", "approval: {maxReplacementsPerDay: 101}", "spec.approval.maxReplacementsPerDay: Invalid value: " +
		"101: spec.approval.maxReplacementsPerDay in body should be less than or equal to 100"},
	{"changed in place by an extension", "replicas: 3", "inPlace: {policy: Only, updater: Extension}", ""},
	{"changed in place by Quorate, whatever the policy", "replicas: 3", "inPlace: {updater: Quorate}", ""},
	{"changed in place by an extension, without a policy", "replicas: 3", "inPlace: {updater: Extension}",
		"updater Extension needs policy Preferred or Only"},
	{"changed in place by an extension, and by others", "replicas: 3", "inPlace: {policy: External, updater: Extension}",
		"updater Extension needs policy Preferred or Only"},
	{"drained", "replicas: 3", "inPlace: {policy: Only, drain: {policy: Required, timeoutSeconds: 60}}", ""},
	{"drained, somehow", "replicas: 3", "inPlace: {policy: Only, drain: {policy: Always}}",
		`spec.inPlace.drain.policy: Unsupported value: "Always": supported values: "Never", "BestEffort", "Required"`},
	{"drained, without a word", "replicas: 3", "inPlace: {policy: Only, drain: {}}",
		"spec.inPlace.drain: Invalid value: 0: spec.inPlace.drain in body should have at least 1 properties"},
	{"drained in no time", "replicas: 3", "inPlace: {policy: Only, drain: {timeoutSeconds: 0}}",
		"spec.inPlace.drain.timeoutSeconds in body should be greater than or equal to 1"},
	{"drained for more than a day", "replicas: 3", "inPlace: {policy: Only, drain: {timeoutSeconds: 86401}}",
		"spec.inPlace.drain.timeoutSeconds in body should be less than or equal to 86400"},
	{"drained beside an extension", "replicas: 3", "inPlace: {policy: Only, updater: Extension, drain: {policy: Never}}",
		"spec.inPlace.drain: Invalid value: inPlace.drain and inPlace.updater Extension exclude one another"},
	{"changed in place by nobody", "replicas: 3", "inPlace: {policy: Only, updater: Nobody}",
		`spec.inPlace.updater: Unsupported value: "Nobody": supported values: "Quorate", "Extension"`},
	{"changed in place, with an etcd operator", "replicas: 3", "inPlace: {policy: Only}\n  etcd: {management: Operator}",
		"spec.inPlace.policy: Invalid value: inPlace.policy is Only, and etcd.management is Operator"},
	{"changed in place by others, with an etcd operator", "replicas: 3", "inPlace: {policy: External}\n  etcd: {management: Operator}", ""},
	{"etcd managed otherwise", "replicas: 3", "etcd: {management: Nobody}",
		`spec.etcd.management: Unsupported value: "Nobody": supported values: "Members", "Operator", "None"`},
}

const machinesTemplate = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: ControlPlaneTemplate
metadata: {name: machines, namespace: default}
spec:
  template:
    metadata: {labels: {a: b}}
    spec:
      machineTemplate:
        spec:
          bootstrap:
            configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: cp}
      joins: {maxParallel: 3}
`

// templateRows are changes of machinesTemplate. Fields that are common with ControlPlane have the same rules.
var templateRows = []row{
	{"as it is", "", "", ""},
	{"a providerSpec", "joins: {maxParallel: 3}",
		"providerSpec: {value: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: LocalMachine}}", ""},
	{"a bootstrap configuration that is no template", "KubeadmConfigTemplate", "KubeadmConfig",
		"spec.template.spec.machineTemplate.spec.bootstrap.configRef.kind: Invalid value"},
	{"an etcd cluster", "joins: {maxParallel: 3}", "managedExternalEtcdRef: {apiGroup: etcdcluster.cluster.x-k8s.io, kind: EtcdCluster}", ""},
	{"an etcd cluster beside an operator", "joins: {maxParallel: 3}",
		"etcd: {management: Operator}\n      managedExternalEtcdRef: {apiGroup: etcdcluster.cluster.x-k8s.io, kind: EtcdCluster}",
		"spec.template.spec.managedExternalEtcdRef: Invalid value: managedExternalEtcdRef is EtcdCluster, and etcd.management is Operator"},
	{"changed in place", "joins: {maxParallel: 3}", "inPlace: {policy: Preferred}", ""},
	{"changed in place by others, with another bootstrap provider", "KubeadmConfigTemplate, name: cp}",
		"RKE2ConfigTemplate, name: cp}\n      inPlace: {policy: External}", ""},
	{"changed in place, with another bootstrap provider", "KubeadmConfigTemplate, name: cp}",
		"RKE2ConfigTemplate, name: cp}\n      inPlace: {policy: Only}",
		"spec.template.spec.inPlace.policy: Invalid value: inPlace.policy Preferred and Only need a KubeadmConfigTemplate"},
	{"what the Cluster says", "joins: {maxParallel: 3}", "replicas: 3", `unknown field "spec.template.spec.replicas"`},
	{"the Cluster's version", "joins: {maxParallel: 3}", "version: v1.36.3", `unknown field "spec.template.spec.version"`},
	{"a state", "joins: {maxParallel: 3}", "state: Inactive", `unknown field "spec.template.spec.state"`},
	{"what the ClusterClass says", "bootstrap:", "infrastructureRef: {}\n          bootstrap:",
		`unknown field "spec.template.spec.machineTemplate.spec.infrastructureRef"`},
}

const inline = `
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: ControlPlane
metadata: {name: inline, namespace: default}
spec:
  providerSpec:
    value:
      apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
      kind: LocalMachine
      metadata: {labels: {a: b}}
      spec: {resources: {memory: 2Gi}}
`

// inlineRows are changes of inline.
var inlineRows = []row{
	{"as it is", "", "", ""},
	{"no metadata", "      metadata: {labels: {a: b}}\n", "", ""},
	{"a name", "metadata: {labels: {a: b}}", "metadata: {name: x}",
		"metadata.name is x: none is accepted, as each machine gets a name of its own"},
	{"the beginning of a name", "metadata: {labels: {a: b}}", "metadata: {generateName: x-}", "metadata.generateName is x-: none is accepted"},
	{"no kind", "      kind: LocalMachine\n", "", "spec.providerSpec.value.kind: Required value"},
	{"no apiVersion", "      apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\n", "",
		"spec.providerSpec.value.apiVersion: Required value"},
	{"a template", "LocalMachine", "LocalMachineTemplate", "kind is LocalMachineTemplate: the kind of an infrastructure machine is " +
		"accepted, such as LocalMachine; a template belongs in spec.machineTemplate.spec.infrastructureRef"},
}

// dryRun asks for the creation of what each row makes of a manifest, with strict fields where a refusal names an unknown one.
func dryRun(t *testing.T, c client.Client, manifest string, rows []row) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			o := object(t, changed(manifest, row.old, row.changed))
			options := []client.CreateOption{client.DryRunAll}
			if o.GetKind() == "ControlPlaneTemplate" {
				options = append(options, client.FieldValidation("Strict"))
			}
			wantRefusal(t, c.Create(context.Background(), o, options...), row.refusal)
		})
	}
}

// defaulted: what is left out is filled in, and what is given inline stays whole.
func defaulted(t *testing.T, c client.Client) {
	o := object(t, inline)
	create(t, c, o)
	t.Cleanup(func() { remove(t, c, o) })
	var cp controlplanev1alpha1.ControlPlane
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), &cp); err != nil {
		t.Fatal(err)
	}
	if ptr.Deref(cp.Spec.Replicas, 0) != 1 || !ptr.Deref(cp.Spec.EnableAutorepair, false) {
		t.Errorf("replicas %d, enableAutorepair %t; want 1 and true", ptr.Deref(cp.Spec.Replicas, 0), ptr.Deref(cp.Spec.EnableAutorepair, false))
	}
	if cp.Spec.State != "" || cp.Spec.Etcd.Management != "" {
		t.Errorf("state %q, etcd %q; want none", cp.Spec.State, cp.Spec.Etcd.Management)
	}
	const want = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1alpha1","kind":"LocalMachine","metadata":{"labels":{"a":"b"}},` +
		`"spec":{"resources":{"memory":"2Gi"}}}`
	if got := string(cp.Spec.ProviderSpec.Value.Raw); got != want {
		t.Errorf("providerSpec.value is %s, want %s", got, want)
	}
}

// scaledMachines: the scale subresource obeys the same rules.
func scaledMachines(t *testing.T, c client.Client) {
	cp := object(t, machines)
	create(t, c, cp)
	t.Cleanup(func() { remove(t, c, cp) })
	for _, row := range []struct{ patch, refusal string }{
		{`{"spec":{"replicas":5}}`, ""}, {`{"spec":{"replicas":6}}`, "replicas is 6: a control plane needs an odd number of machines"},
		{`{"spec":{"replicas":0}}`, "replicas is 0: at least one machine is needed"},
	} {
		scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
		err := c.SubResource("scale").Patch(context.Background(), cp.DeepCopy(),
			client.RawPatch("application/merge-patch+json", []byte(row.patch)), client.WithSubResourceBody(scale))
		wantRefusal(t, err, row.refusal)
	}
}

// storedMachines: an even number that was stored before there was the rule does not hold up other changes.
func storedMachines(t *testing.T, c client.Client) {
	cp := object(t, machines)
	const name = "controlplanes.controlplane.cluster.x-k8s.io"
	var rules apiextensionsv1.ValidationRules
	replicas := func(change func(*apiextensionsv1.JSONSchemaProps)) {
		ruled(t, c, name, func(_ string, spec *apiextensionsv1.JSONSchemaProps) {
			p := spec.Properties["replicas"]
			change(&p)
			spec.Properties["replicas"] = p
		})
	}
	even := object(t, changed(machines, "replicas: 3", "replicas: 2"))
	replicas(func(p *apiextensionsv1.JSONSchemaProps) { rules, p.XValidations = p.XValidations, nil })
	accepted(t, c, even, true)
	if err := unstructured.SetNestedField(cp.Object, int64(4), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	create(t, c, cp)
	t.Cleanup(func() { remove(t, c, cp) })
	replicas(func(p *apiextensionsv1.JSONSchemaProps) { p.XValidations = rules })
	accepted(t, c, even, false)
	for _, row := range []struct{ patch, refusal string }{
		{`{"spec":{"version":"v1.36.4"}}`, ""}, {`{"spec":{"replicas":4,"state":"Inactive"}}`, ""}, {`{"spec":{"replicas":2}}`, "replicas is 2"},
		{`{"spec":{"replicas":3}}`, ""}, {`{"spec":{"replicas":4}}`, "replicas is 4"},
	} {
		wantRefusal(t, c.Patch(context.Background(), cp.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(row.patch))),
			row.refusal)
	}
}

// dataStay: a control plane neither gets an etcd cluster later nor leaves it, nor goes to another.
func dataStay(t *testing.T, c client.Client) {
	const ref = `{"apiGroup":"etcdcluster.cluster.x-k8s.io","kind":"EtcdCluster","name":"a"}`
	const refusal = "spec.managedExternalEtcdRef: Forbidden: managedExternalEtcdRef stays as it was when the control plane was made"
	for _, row := range []struct{ made, patch, refusal string }{
		{machines, `{"spec":{"managedExternalEtcdRef":` + ref + `}}`, refusal},
		{machines, `{"spec":{"replicas":5}}`, ""},
		{changed(machines, "replicas: 3", "managedExternalEtcdRef: "+ref), `{"spec":{"managedExternalEtcdRef":null}}`, refusal},
		{changed(machines, "replicas: 3", "managedExternalEtcdRef: "+ref), `{"spec":{"managedExternalEtcdRef":{"name":"b"}}}`, refusal},
		{changed(machines, "replicas: 3", "managedExternalEtcdRef: "+ref), `{"spec":{"replicas":5}}`, ""},
	} {
		cp := object(t, row.made)
		create(t, c, cp)
		wantRefusal(t, c.Patch(context.Background(), cp.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(row.patch))),
			row.refusal)
		remove(t, c, cp)
	}
}

// reported: all that Cluster API and its tools read can be stored in the status, which has its own subresource.
func reported(t *testing.T, c client.Client) {
	o := object(t, machines)
	create(t, c, o)
	t.Cleanup(func() { remove(t, c, o) })
	cp := &controlplanev1alpha1.ControlPlane{}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), cp); err != nil {
		t.Fatal(err)
	}
	conditions.Set(cp, metav1.Condition{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue, Reason: clusterv1.AvailableReason})
	cp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	cp.Status.Replicas, cp.Status.ReadyReplicas, cp.Status.AvailableReplicas, cp.Status.UpToDateReplicas = ptr.To[int32](3), ptr.To[int32](0),
		ptr.To[int32](0), ptr.To[int32](3)
	cp.Status.UpdatedReplicas, cp.Status.UnavailableReplicas = ptr.To[int32](3), ptr.To[int32](0)
	cp.Status.Selector, cp.Status.Version = "a=b", "v1.36.3"
	cp.Status.Versions = []clusterv1.StatusVersion{{Version: "v1.36.3", Replicas: 3}}
	cp.Status.FailureReason, cp.Status.FailureMessage = "Lost", ptr.To("quorum is lost")
	cp.Status.Plan.Step = "Wait"
	if err := c.Status().Update(context.Background(), cp); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"replicas": int64(3), "readyReplicas": int64(0), "availableReplicas": int64(0), "upToDateReplicas": int64(3), "updatedReplicas": int64(3),
		"unavailableReplicas": int64(0),
		"selector":            "a=b", "version": "v1.36.3", "failureReason": "Lost", "failureMessage": "quorum is lost",
	} {
		if got, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", path); got != want {
			t.Errorf("status.%s is %v, want %v", path, got, want)
		}
	}
	if initialized, _, _ := unstructured.NestedBool(o.Object, "status", "initialization", "controlPlaneInitialized"); !initialized {
		t.Error("status.initialization.controlPlaneInitialized is not stored")
	}
	if got := conditions.Get(cp, clusterv1.AvailableCondition); got == nil {
		t.Error("the condition Available is not found")
	}
}
