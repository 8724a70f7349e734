package embed

import (
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/test/rights"
)

// The local provider leaves what is paused alone, and the host as it is.
const controlPlaneAlone = `
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalCluster
metadata: {name: alone, namespace: default, annotations: {cluster.x-k8s.io/paused: ""}}
spec: {controlPlaneEndpoint: {host: 127.0.0.1, port: 1}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalMachineTemplate
metadata: {name: alone, namespace: default}
spec: {template: {metadata: {annotations: {cluster.x-k8s.io/paused: ""}}, spec: {}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: alone, namespace: default}
spec:
  replicas: 3
  version: v1.36.3
  autoRepair: {}
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalMachineTemplate, name: alone}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: alone, namespace: default}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalCluster, name: alone}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: alone}
`

// ownRights: Quorate's own controllers make the first machine of a control plane and take it down again with the rights
// that they have in every management cluster, as the API server's own log shows.
func (l *life) ownRights(t *testing.T) {
	c := l.client(t)
	defer l.compareRights(t, c)
	all := objects(t, controlPlaneAlone)
	create(t, c, all...)
	key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "alone"}
	before := all[0].DeepCopyObject().(client.Object)
	if err := c.Status().Patch(t.Context(), before,
		client.RawPatch(types.MergePatchType, []byte(`{"status":{"initialization":{"provisioned":true}}}`))); err != nil {
		t.Fatal(err)
	}
	ofCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: "alone"}
	kcp := &controlplanev1.KubeadmControlPlane{}
	eventually(t, "the first machine is made, and both it and the control plane are told of", func() bool {
		var machines clusterv1.MachineList
		if err := c.List(t.Context(), &machines, ofCluster); err != nil || c.Get(t.Context(), key, kcp) != nil {
			return false
		}
		// A machine that was just made is told of some seconds later.
		return len(machines.Items) == 1 && conditions.Has(&machines.Items[0], upstream.KubeadmControlPlaneMachineAPIServerPodHealthyCondition) &&
			len(kcp.Status.Conditions) > 0 && kcp.Status.Plan.Reason == "Initializing"
	})
	if err := c.Delete(t.Context(), all[3]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the control plane is gone", func() bool {
		// The provider made nothing, and lets go what is paused no longer. Whoever took the finalizer away instead would wait for
		// chance: Cluster API's controller of Machines hears nothing of what is paused, its end included.
		o := &infrav1.LocalMachine{ObjectMeta: named("alone-1")}
		if c.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil && !o.DeletionTimestamp.IsZero() && annotations.HasPaused(o) {
			unpause := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":null}}}`))
			_ = c.Patch(t.Context(), o, unpause) // tried again
		}
		return apierrors.IsNotFound(c.Get(t.Context(), key, kcp))
	})
}

// compareRights says also after a failure what was asked for in vain: it may be the reason.
func (l *life) compareRights(t *testing.T, c client.Client) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: managerRole}, role); err != nil {
		t.Fatal(err)
	}
	unused, missing := rights.Compare(role, l.asked(t))
	if len(missing) > 0 {
		t.Errorf("Quorate asked for what its role does not grant: %v", missing)
	}
	if needless := rights.Expected(unused, true); len(needless) > 0 && !t.Failed() {
		t.Errorf("its role grants what it did not use: %v", needless)
	}
}

// asked is what Quorate's own controllers asked of the API server.
func (l *life) asked(t *testing.T) map[rights.Right]int {
	t.Helper()
	logs, err := AuditLogs(l.o.State)
	if err != nil || len(logs) != 1 {
		t.Fatalf("audit logs %v, %v", logs, err)
	}
	checkMode(t, logs[0], 0o600)
	log, err := os.Open(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	needed, err := rights.Read(log, managerUser)
	if err != nil {
		t.Fatal(err)
	}
	if len(needed) == 0 {
		t.Fatalf("%s holds no request of %s", logs[0], managerUser)
	}
	return needed
}
