package manifest

import (
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/local/sandbox"
)

const (
	// drainSeconds bounds how long a leaving machine's pods may hold it; without a bound they hold it for ever.
	drainSeconds = int32(60)

	// etcdJoinSeconds is how long a joining machine waits until etcd takes it as learner. etcd takes one at a
	// time, and each needs some ten seconds on a busy host: six that join at once outlast kubeadm's own two minutes.
	etcdJoinSeconds = int32(300)

	kubeProxyFile = "/etc/quorate/kube-proxy.yaml"

	// kubeProxy is the configuration of kube-proxy that kubeadm puts into the cluster. A machine made of
	// namespaces may not set the host's connection tracking, so those settings are left as they are.
	kubeProxy = `---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
conntrack:
  maxPerCore: 0
  min: 0
  tcpCloseWaitTimeout: 0s
  tcpEstablishedTimeout: 0s
`
	// addKubeProxy hands that configuration to `kubeadm init`, which takes it from one file with its own. Machines
	// that join have no such file and find the configuration in the cluster.
	addKubeProxy = "[ ! -f /run/kubeadm/kubeadm.yaml ] || cat " + kubeProxyFile + " >>/run/kubeadm/kubeadm.yaml"
)

func kubeadm() bootstrapv1.KubeadmConfigSpec {
	return bootstrapv1.KubeadmConfigSpec{
		// kubeadm's default is RSA, and a machine has twelve keys, all of which are made while somebody waits.
		ClusterConfiguration: bootstrapv1.ClusterConfiguration{EncryptionAlgorithm: bootstrapv1.EncryptionAlgorithmECDSAP256},
		InitConfiguration:    bootstrapv1.InitConfiguration{NodeRegistration: registration(), Patches: patches()},
		JoinConfiguration: bootstrapv1.JoinConfiguration{
			NodeRegistration: registration(),
			Patches:          patches(),
			Timeouts:         bootstrapv1.Timeouts{EtcdAPICallSeconds: ptr.To(etcdJoinSeconds)},
		},
		Files: []bootstrapv1.File{{
			Path:        kubeProxyFile,
			Owner:       "root:root",
			Permissions: "0644",
			Content:     kubeProxy,
		}},
		PreKubeadmCommands: []string{addKubeProxy},
	}
}

// patches has kubeadm ask whether a component has started once a second, as the machines' own patches say. Without them the first look is
// after ten seconds, and then there is one every ten: machines would be ready long after they serve.
func patches() bootstrapv1.Patches { return bootstrapv1.Patches{Directory: sandbox.KubeadmPatches} }

// registration tells kubeadm to pass over its check of the system: it refuses control groups of version 1, and a kernel
// whose configuration it finds no file of, as in a machine made of namespaces. The host was checked before.
func registration() bootstrapv1.NodeRegistrationOptions {
	return bootstrapv1.NodeRegistrationOptions{
		CRISocket:             "unix:///run/containerd/containerd.sock",
		IgnorePreflightErrors: []string{"SystemVerification"},
	}
}
