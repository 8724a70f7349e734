package drift

import "testing"

func TestUpdatable(t *testing.T) {
	const configuration = "spec.kubeadmConfigSpec.clusterConfiguration."
	for field, want := range map[string]bool{
		configuration + "apiServer.extraArgs":                                        true,
		configuration + "apiServer.extraArgs[v]":                                     true,
		configuration + "imageRepository":                                            true,
		configuration + "dns":                                                        true,
		configuration + "dns.imageTag":                                               true,
		configuration + "etcd.local.imageTag":                                        true,
		configuration + "etcd.local.dataDir":                                         false,
		configuration + "apiServer.certSANs":                                         false,
		configuration + "apiServer.extraArgsToo":                                     false,
		"spec.kubeadmConfigSpec.files":                                               false,
		"spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.kubeletExtraArgs": false, // that depends on which
		"spec.version": false, // that depends on the versions
	} {
		if got := Updatable(field); got != want {
			t.Errorf("%s: %t, want %t", field, got, want)
		}
	}
	for _, c := range []struct {
		was, want string
		can       bool
	}{{"v1.35.4", "v1.36.3", true}, {"v1.36.3", "v1.36.3", true}, {"v1.36.3", "v1.36.2", false}, {"v1.34.1", "v1.36.3", false},
		{"", "v1.36.3", false}} {
		if got := CannotUpgrade(c.was, c.want); (got == "") != c.can {
			t.Errorf("%s to %s: %q, possible %t", c.was, c.want, got, c.can)
		}
	}
}
