package machines

import (
	"strings"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/quorate/quorate/api/controlplane/v1alpha1"
)

// TestAdvertisedAddress: no machine is made from a KubeadmConfigTemplate with one address for all machines that join where etcd runs on
// them, and the reason names the field. It goes on once the template is corrected.
func TestAdvertisedAddress(t *testing.T) {
	advertise := func(w *world, address string, external bool) {
		t.Helper()
		template := &bootstrapv1.KubeadmConfigTemplate{}
		w.get("demo", template)
		config := &template.Spec.Template.Spec
		config.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
		config.JoinConfiguration.ControlPlane.LocalAPIEndpoint.AdvertiseAddress = address
		if external {
			config.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{Endpoints: []string{"https://etcd:2379"}, CAFile: "/ca",
				CertFile: "/cert", KeyFile: "/key"}
		}
		if err := w.client.Update(t.Context(), template); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t, testControlPlane())
	advertise(w, "10.0.0.5", false)
	const words = `KubeadmConfigTemplate demo: invalid spec.template.spec.joinConfiguration.controlPlane.localAPIEndpoint.advertiseAddress ` +
		`"10.0.0.5": every machine that joins`
	if p := w.settle(); p.Reason != "TemplateInvalid" || !strings.HasPrefix(p.Message, words) || len(w.machines()) > 0 {
		t.Errorf("with stacked etcd told is %+v, machines are %v", p, w.machines())
	}
	advertise(w, "{{ ds.meta_data.local_ipv4 }}", false)
	if p := w.settle(); len(w.machines()) == 0 {
		t.Errorf("with an address of each machine's own told is %+v", p)
	}

	elsewhere := testControlPlane()
	elsewhere.Spec.Etcd.Management = v1alpha1.EtcdManagementNone
	w = newWorld(t, elsewhere)
	advertise(w, "10.0.0.5", true)
	if p := w.settle(); p.Reason == "TemplateInvalid" {
		t.Errorf("with external etcd told is %+v", p)
	}
}
