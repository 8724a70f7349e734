package envtest

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// TestUpgrades asks an API server without webhooks what it makes of the kinds of upgrades in place.
func TestUpgrades(t *testing.T) {
	needAssets(t)
	c := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd"}, ErrorIfCRDPathMissing: true})
	t.Run("NodeUpgrade", func(t *testing.T) { dryRun(t, c, nodeUpgrade, nodeUpgradeRows) })
	t.Run("ControlPlaneUpgrade", func(t *testing.T) { dryRun(t, c, controlPlaneUpgrade, controlPlaneUpgradeRows) })
	t.Run("MachineDeploymentUpgrade", func(t *testing.T) { dryRun(t, c, machineDeploymentUpgrade, machineDeploymentUpgradeRows) })
	t.Run("what is asked for stays", func(t *testing.T) { upgradesStay(t, c) })
	t.Run("status", func(t *testing.T) { upgradeStatus(t, c) })
}

const nodeUpgrade = `
apiVersion: upgrade.cluster.x-k8s.io/v1alpha1
kind: NodeUpgrade
metadata: {name: cp-1, namespace: default}
spec:
  machine: {name: cp-1}
  kubernetesVersion: v1.36.3
  nodeType: ControlPlane
`

// nodeUpgradeRows are changes of nodeUpgrade, and the refusals of its creation.
var nodeUpgradeRows = []row{
	{"as it is", "", "", ""},
	{"a worker", "nodeType: ControlPlane", "nodeType: Worker", ""},
	{"an etcd machine", "nodeType: ControlPlane", "nodeType: Etcd",
		`spec.nodeType: Unsupported value: "Etcd": supported values: "ControlPlane", "Worker"`},
	{"no type", "  nodeType: ControlPlane\n", "", "spec.nodeType: Required value"},
	{"no Machine", "machine: {name: cp-1}", "x: y", "spec.machine: Required value"},
	{"no version", "  kubernetesVersion: v1.36.3\n", "", "spec.kubernetesVersion: Required value"},
	{"a version that is none", "v1.36.3", "latest", `kubernetesVersion is latest: it must be of the form v1.36.3`},
	{"all there is", "nodeType: ControlPlane", "nodeType: ControlPlane\n  firstNodeToBeUpgraded: true\n  etcdVersion: 3.6.16-0\n  " +
		"upgraderImage: example.com/upgrader:v1.36.3\n  verifyTimeoutSeconds: 60\n  drain: {policy: Required, timeoutSeconds: 60}", ""},
	{"another way to drain", "nodeType: ControlPlane", "nodeType: ControlPlane\n  drain: {policy: Sometimes}",
		`spec.drain.policy: Unsupported value: "Sometimes": supported values: "Never", "BestEffort", "Required"`},
	{"no time to drain", "nodeType: ControlPlane", "nodeType: ControlPlane\n  drain: {timeoutSeconds: 0}",
		"spec.drain.timeoutSeconds: Invalid value: 0"},
	{"no time to verify", "nodeType: ControlPlane", "nodeType: ControlPlane\n  verifyTimeoutSeconds: 9",
		"spec.verifyTimeoutSeconds: Invalid value: 9"},
}

const controlPlaneUpgrade = `
apiVersion: upgrade.cluster.x-k8s.io/v1alpha1
kind: ControlPlaneUpgrade
metadata: {name: cp, namespace: default}
spec:
  controlPlane: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: cp}
  machinesRequireUpgrade: [{name: cp-1}, {name: cp-2}]
  kubernetesVersion: v1.36.3
`

var controlPlaneUpgradeRows = []row{
	{"as it is", "", "", ""},
	{"no machine", "[{name: cp-1}, {name: cp-2}]", "[]", "spec.machinesRequireUpgrade: Invalid value: 0"},
	{"a machine twice", "cp-2", "cp-1", "spec.machinesRequireUpgrade[1]: Duplicate value"},
	{"no control plane", "controlPlane:", "x:", "spec.controlPlane: Required value"},
	{"no version", "  kubernetesVersion: v1.36.3\n", "", "spec.kubernetesVersion: Required value"},
}

const machineDeploymentUpgrade = `
apiVersion: upgrade.cluster.x-k8s.io/v1alpha1
kind: MachineDeploymentUpgrade
metadata: {name: md, namespace: default}
spec:
  machineDeployment: {name: md}
  machinesRequireUpgrade: [{name: md-1}]
  kubernetesVersion: v1.36.3
`

var machineDeploymentUpgradeRows = []row{
	{"as it is", "", "", ""},
	{"two at once", "machineDeployment:", "maxUnavailable: 2\n  machineDeployment:", ""},
	{"none at once", "machineDeployment:", "maxUnavailable: 0\n  machineDeployment:", "spec.maxUnavailable: Invalid value: 0"},
	{"no MachineDeployment", "machineDeployment:", "x:", "spec.machineDeployment: Required value"},
}

// upgradesStay: what an upgrade is for is not changed once it is there; labels and annotations are.
func upgradesStay(t *testing.T, c client.Client) {
	for manifest, kind := range map[string]string{nodeUpgrade: "NodeUpgrade", controlPlaneUpgrade: "ControlPlaneUpgrade",
		machineDeploymentUpgrade: "MachineDeploymentUpgrade"} {
		o := object(t, manifest)
		create(t, c, o)
		patch := func(text string) error {
			return c.Patch(context.Background(), object(t, manifest), client.RawPatch(types.MergePatchType, []byte(text)))
		}
		wantRefusal(t, patch(`{"spec":{"kubernetesVersion":"v1.36.4"}}`), "the spec of a "+kind+
			" cannot be changed: delete it, and create another")
		wantRefusal(t, patch(`{"metadata":{"annotations":{"`+upgradev1.RetryAnnotation+`":""}}}`), "")
		remove(t, c, o)
	}
}

// upgradeStatus: the status holds what the controller reports, and only where it is asked for.
func upgradeStatus(t *testing.T, c client.Client) {
	o := object(t, nodeUpgrade)
	create(t, c, o)
	t.Cleanup(func() { remove(t, c, o) })
	var u upgradev1.NodeUpgrade
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), &u); err != nil {
		t.Fatal(err)
	}
	u.Status = upgradev1.NodeUpgradeStatus{
		Steps: []string{"Copy", "Swap"}, Completed: ptr.To(false), FailedStep: "Swap", Attempts: ptr.To(int32(7)),
		RetriedAttempt: ptr.To(int32(6)), ObservedGeneration: 1,
		Conditions: []metav1.Condition{{Type: "Swap", Status: metav1.ConditionFalse, Reason: upgradev1.RolledBack, Message: "its output",
			LastTransitionTime: metav1.Now()}},
	}
	if err := c.Status().Update(context.Background(), &u); err != nil {
		t.Fatal(err)
	}
	var is upgradev1.NodeUpgrade
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(o), &is); err != nil {
		t.Fatal(err)
	}
	if is.Status.FailedStep != "Swap" || *is.Status.Attempts != 7 || *is.Status.RetriedAttempt != 6 || len(is.Status.Conditions) != 1 ||
		len(is.Status.Steps) != 2 {
		t.Errorf("%+v", is.Status)
	}
}
