package stacked

import (
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestCertificatesOnAPIServer: what is written about certificates, and whose secrets are, passes a real
// API server's checks.
func TestCertificatesOnAPIServer(t *testing.T) {
	w := &world{t: t, nextID: 1}
	end := inDays(300)
	w.certificates(map[string]time.Time{"demo-cp-1": end})
	startPlane(t, w)
	cluster, kcp := testCluster(), testKCP(1)
	template := &infrav1.LocalMachineTemplate{}
	template.Name, template.Namespace = "demo-machines", "default"
	status := cluster.Status
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "LocalCluster",
		Name: "demo"}
	kcp.Finalizers = nil
	for _, o := range []client.Object{cluster, template, kcp} {
		o.SetUID("")
		if o == client.Object(kcp) {
			kcp.OwnerReferences[0].UID = cluster.UID
		}
		if err := w.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Status = status
	if err := w.client.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one machine", func() bool { return len(w.machineNames()) == 1 })
	w.mu.Lock()
	w.init = true
	w.mu.Unlock()
	w.appear("demo-cp-1")
	w.report()
	eventually(t, "rest", func() bool { return w.kcp().Status.Plan.Step == string(plan.Nothing) })

	eventually(t, "the date is recorded", func() bool { w.report(); return w.expiryOf("demo-cp-1") == end.Format(time.RFC3339) })
	eventually(t, "the date is told", func() bool {
		w.report()
		told := w.kcp().Status.CertificateExpiry
		return told.Date.Time.Equal(end) && told.Machine == "demo-cp-1" && told.Component == apiServer
	})

	stale := controllerRef(kcp)
	stale.UID, stale.APIVersion = "before the move", "controlplane.cluster.x-k8s.io/v1beta1"
	w.disown(stale)
	w.r.Forget(kcpKey) // nothing is known to the process that finds them so
	eventually(t, "the secrets are owned again", func() bool {
		w.report()
		for _, name := range ownSecrets {
			refs := w.secret(name).OwnerReferences
			if len(refs) != 1 || refs[0].UID != kcp.UID || refs[0].APIVersion != controlplanev1.GroupVersion.String() {
				return false
			}
		}
		return true
	})
}
