package status

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

var testKey = client.ObjectKey{Namespace: "default", Name: "demo-cp"}

func testCluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "172.30.0.10", Port: 6443}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: testKey.Name}
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	c.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "a", ControlPlane: ptr.To(true)}}
	return c
}

// named returns Machines of these names; the words "gone=held" say that one is being deleted.
func named(names ...string) []*clusterv1.Machine {
	var machines []*clusterv1.Machine
	for _, words := range names {
		name, rest, _ := strings.Cut(words, " ")
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if rest == "gone=held" {
			m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		machines = append(machines, m)
	}
	return machines
}
