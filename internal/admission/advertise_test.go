package admission

import (
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestAdvertisedAddress: one address for all machines that join is refused where etcd runs on them.
func TestAdvertisedAddress(t *testing.T) {
	const refused = "joinConfiguration.controlPlane.localAPIEndpoint.advertiseAddress: Invalid value"
	external := func(s *controlplanev1.KubeadmControlPlaneSpec) {
		s.KubeadmConfigSpec.ClusterConfiguration.Etcd.External = bootstrapv1.ExternalEtcd{
			Endpoints: []string{"https://10.0.0.9:2379"}, CAFile: "/ca", CertFile: "/cert", KeyFile: "/key",
		}
	}
	managed := func(s *controlplanev1.KubeadmControlPlaneSpec) {
		s.ManagedExternalEtcdRef = controlplanev1.ManagedEtcdReference{APIGroup: "etcdcluster.cluster.x-k8s.io", Kind: "EtcdCluster",
			Name: "demo-etcd"}
	}
	for _, test := range []struct {
		address string
		etcd    func(*controlplanev1.KubeadmControlPlaneSpec)
		want    string
	}{
		{"10.0.0.5", nil, refused},
		{"2001:db8::5", nil, refused},
		{"127.0.0.1", nil, refused},
		{"", nil, ""},
		{"0.0.0.0", nil, ""},
		{"::", nil, ""},
		{"{{ ds.meta_data.local_ipv4 }}", nil, ""},
		{"10.0.0.5", external, ""},
		{"10.0.0.5", managed, ""},
	} {
		before := controlPlane()
		if test.etcd != nil {
			test.etcd(&before.Spec)
		}
		if err := (&KubeadmControlPlane{}).Default(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		after := before.DeepCopy()
		after.Spec.KubeadmConfigSpec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
		after.Spec.KubeadmConfigSpec.JoinConfiguration.ControlPlane.LocalAPIEndpoint.AdvertiseAddress = test.address
		_, err := (&KubeadmControlPlane{}).ValidateCreate(t.Context(), after)
		want(t, test.address+", created", err, test.want)
		_, err = (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), before, after)
		want(t, test.address+", updated", err, test.want)
		if _, err := (&KubeadmControlPlane{}).ValidateUpdate(t.Context(), after, after.DeepCopy()); err != nil {
			t.Errorf("%s: what is stored is refused: %v", test.address, err)
		}
		made := template()
		made.Spec.Template.Spec.KubeadmConfigSpec = after.Spec.KubeadmConfigSpec
		made.Spec.Template.Spec.ManagedExternalEtcdRef = after.Spec.ManagedExternalEtcdRef
		_, err = (&KubeadmControlPlaneTemplate{}).ValidateCreate(t.Context(), made)
		want(t, test.address+", template", err, test.want)
	}
}
