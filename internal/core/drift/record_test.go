package drift

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// audit wants another path of the audit log.
func audit(s *scene) { s.cluster.APIServer.ExtraArgs[0].Value = ptr("/other") }

const auditChanged = "S.clusterConfiguration.apiServer.extraArgs[audit-log-path]: /var/log/audit, wanted /other"

// TestTheRecord: who was made from what, and where that is not known.
func TestTheRecord(t *testing.T) {
	emptied := func(s *scene) {
		s.was.ClusterConfiguration = bootstrapv1.ClusterConfiguration{ControlPlaneEndpoint: "10.0.0.1:6443"}
	}
	adopted := func(s *scene) { s.Infrastructure.SetAnnotations(nil) }
	annotated := func(text string) func(*scene) {
		return func(s *scene) {
			emptied(s)
			s.Machine.Machine.Annotations[RecordAnnotation] = text
			s.cluster.APIServer.CertSANs, s.cluster.APIServer.ExtraEnvs = nil, nil
		}
	}
	const old = `{"apiVersion":"x","kind":"ClusterConfiguration","networking":{"podSubnet":"p"},"clusterName":"demo",` +
		`"apiServer":{"timeoutForControlPlane":"4m0s","extraArgs":{"profiling":"false","audit-log-path":"/var/log/audit"}},"scheduler":{},` +
		`"dns":{},"etcd":{"local":{"dataDir":""}}}`
	const today = `{"apiServer":{"extraArgs":[{"name":"audit-log-path","value":"/var/log/audit"},{"name":"profiling","value":"false"}]}}`
	const all = "S.clusterConfiguration.apiServer.extraArgs[audit-log-path]: unset, wanted /var/log/audit; " +
		"S.clusterConfiguration.apiServer.extraArgs[profiling]: unset, wanted false"
	check(t, false, []row{
		{"a changed argument", audit, auditChanged},
		{"an adopted machine whose KubeadmConfig holds a ClusterConfiguration", func(s *scene) { audit(s); adopted(s) }, auditChanged},
		{"an adopted machine whose KubeadmConfig holds none", func(s *scene) { audit(s); emptied(s); adopted(s) }, ""},
		{"infrastructure not known, no ClusterConfiguration", func(s *scene) { audit(s); emptied(s); s.Infrastructure = nil }, ""},
		{"a machine made by a control plane that had nothing to say", func(s *scene) {
			emptied(s)
			s.cluster.APIServer.CertSANs, s.cluster.APIServer.ExtraEnvs = nil, nil
		}, all},
		{"no KubeadmConfig", func(s *scene) { audit(s); s.want.Verbosity = ptr(int32(4)); s.Config = nil }, ""},
		{"no KubeadmConfig, but another version", func(s *scene) { s.Spec.Version = "v1.36.3"; s.Config = nil },
			"spec.version: v1.35.4, wanted v1.36.3"},
		{"an adopted machine without a ClusterConfiguration, other parts changed", func(s *scene) {
			emptied(s)
			adopted(s)
			s.want.Verbosity = ptr(int32(4))
		}, "S.verbosity: unset, wanted 4"},

		{"the annotation of an older version, nothing changed", annotated(old), ""},
		{"the annotation of an older version, changed", func(s *scene) { annotated(old)(s); audit(s) }, auditChanged},
		{"the annotation in today's form", func(s *scene) { annotated(today)(s); audit(s) }, auditChanged},
		{"the annotation, and no KubeadmConfig", func(s *scene) { annotated(old)(s); audit(s); s.Config = nil }, auditChanged},
		{"the annotation says that there was nothing", annotated("null"), all},
		{"the annotation is not JSON", annotated("{"), ""},
		{"the annotation is empty", annotated(""), ""},
		{"the annotation is a list", annotated("[]"), ""},
		{"the annotation holds what cannot be", annotated(`{"apiServer":{"extraArgs":{"profiling":false}}}`), ""},
		{"the KubeadmConfig counts more than the annotation", func(s *scene) {
			s.Machine.Machine.Annotations[RecordAnnotation] = `{"certificatesDir":"/old"}`
		}, ""},
	})
}

// TestMadeByJoin: joinConfiguration counts.
func TestMadeByJoin(t *testing.T) {
	check(t, false, []row{
		{"init changed", func(s *scene) { s.want.InitConfiguration.NodeRegistration.Name = "x" }, ""},
		{"join changed", func(s *scene) { s.want.JoinConfiguration.NodeRegistration.Name = "x" },
			"S.joinConfiguration.nodeRegistration.name: {{ ds.meta_data.local_hostname }}, wanted x"},
		{"the endpoint of the machine's own API server changed", func(s *scene) {
			s.want.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{LocalAPIEndpoint: bootstrapv1.APIEndpoint{BindPort: 7443}}
		}, "S.joinConfiguration.controlPlane.localAPIEndpoint.bindPort: 6443, wanted 7443"},
		{"the CA's path changed", func(s *scene) { s.want.JoinConfiguration.CACertPath = "/ca" },
			"S.joinConfiguration.caCertPath: /etc/kubernetes/pki/ca.crt, wanted /ca"},
		{"both parts are recorded: joined", func(s *scene) {
			s.was.InitConfiguration = s.want.InitConfiguration
			s.want.JoinConfiguration.NodeRegistration.Name = "x"
		}, "S.joinConfiguration.nodeRegistration.name: {{ ds.meta_data.local_hostname }}, wanted x"},
		{"made by Cluster API v1.11, which lost controlPlane", func(s *scene) { s.was.JoinConfiguration.ControlPlane = nil }, ""},
		{"made by v1.11, changed", func(s *scene) {
			s.was.JoinConfiguration.ControlPlane = nil
			s.want.JoinConfiguration.NodeRegistration.Name = "x"
		}, "S.joinConfiguration.nodeRegistration.name: {{ ds.meta_data.local_hostname }}, wanted x"},
		{"made by v1.11, with what a conversion and a default wrote for init", func(s *scene) {
			s.was.JoinConfiguration.ControlPlane = nil
			s.was.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = ptr(int32(60))
			s.was.InitConfiguration.NodeRegistration.ImagePullPolicy = "IfNotPresent"
		}, ""},
	})
}

// TestMadeByInit: initConfiguration counts, unless a join would make the same today.
func TestMadeByInit(t *testing.T) {
	local := bootstrapv1.APIEndpoint{AdvertiseAddress: "10.0.0.9"}
	check(t, true, []row{
		{"nothing changed", func(*scene) {}, ""},
		{"join changed", func(s *scene) { s.want.JoinConfiguration.NodeRegistration.Name = "x" }, ""},
		{"init changed, join is as the machine is", func(s *scene) { s.want.InitConfiguration.NodeRegistration.Name = "x" }, ""},
		{"both changed", func(s *scene) {
			s.want.InitConfiguration.NodeRegistration.Name = "x"
			s.want.JoinConfiguration.NodeRegistration.Name = "x"
		}, "S.initConfiguration.nodeRegistration.name: {{ ds.meta_data.local_hostname }}, wanted x"},
		{"both changed, each in its own way", func(s *scene) {
			s.want.InitConfiguration.Patches.Directory = "/p"
			s.want.JoinConfiguration.SkipPhases = []string{"preflight"}
		}, "S.initConfiguration.patches.directory: unset, wanted /p"},
		{"init changed, and only join names the CA's path", func(s *scene) {
			s.want.InitConfiguration.NodeRegistration.Name = "x"
			s.want.JoinConfiguration.CACertPath = "/ca"
		}, ""},
		{"init changed, and join wants the endpoint that the machine has", func(s *scene) {
			s.was.InitConfiguration.LocalAPIEndpoint = local
			s.want.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{LocalAPIEndpoint: local}
		}, ""},
		{"init changed, and join wants another endpoint", func(s *scene) {
			s.was.InitConfiguration.LocalAPIEndpoint = local
		}, "S.initConfiguration.localAPIEndpoint.advertiseAddress: 10.0.0.9, wanted unset"},
		{"a conversion wrote a timeout for join", func(s *scene) {
			s.was.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = ptr(int32(60))
			s.want.JoinConfiguration.NodeRegistration.Name = "x"
		}, ""},
		{"a record of both parts without controlPlane", func(s *scene) {
			s.was.JoinConfiguration.NodeRegistration.Name = "y"
		}, ""},
		{"a first machine about which nothing was said", func(s *scene) {
			s.was.InitConfiguration, s.want.InitConfiguration = bootstrapv1.InitConfiguration{}, bootstrapv1.InitConfiguration{}
		}, ""},
		{"a first machine about which nothing was said, now it is", func(s *scene) {
			s.was.InitConfiguration = bootstrapv1.InitConfiguration{}
			s.want.InitConfiguration = bootstrapv1.InitConfiguration{SkipPhases: []string{"addon/kube-proxy"}}
		}, "S.initConfiguration.skipPhases[0]: unset, wanted addon/kube-proxy"},
	})
}

// TestExceptions: each row of the table rules, and the nearest thing that is not one.
func TestExceptions(t *testing.T) {
	const gate = "ControlPlaneKubeletLocalMode"
	both := func(change func(n *bootstrapv1.NodeRegistrationOptions)) func(*scene) {
		return func(s *scene) {
			change(&s.want.JoinConfiguration.NodeRegistration)
		}
	}
	check(t, false, []row{
		{"CoreDNS", func(s *scene) { s.cluster.DNS.ImageTag = "v1" }, ""},
		{"discovery", func(s *scene) { s.want.JoinConfiguration.Discovery.TLSBootstrapToken = "x" }, ""},
		{"how long components may take to come up", func(s *scene) {
			s.want.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = ptr(int32(60))
		}, ""},
		{"the cluster's endpoint was filled in", func(s *scene) { s.was.ClusterConfiguration.ControlPlaneEndpoint = "lb:6443" }, ""},
		{"another endpoint is wanted", func(s *scene) {
			s.was.ClusterConfiguration.ControlPlaneEndpoint = "lb:6443"
			s.cluster.ControlPlaneEndpoint = "new:6443"
		}, "S.clusterConfiguration.controlPlaneEndpoint: lb:6443, wanted new:6443"},

		{"format: the default, now written out", func(s *scene) { s.want.Format = "cloud-config" }, ""},
		{"format: the default, once written out", func(s *scene) { s.was.Format = "cloud-config" }, ""},
		{"format: another", func(s *scene) { s.want.Format = "ignition" }, "S.format: cloud-config, wanted ignition"},
		{"imagePullPolicy: default", both(func(n *bootstrapv1.NodeRegistrationOptions) { n.ImagePullPolicy = "IfNotPresent" }), ""},
		{"imagePullPolicy: another", both(func(n *bootstrapv1.NodeRegistrationOptions) { n.ImagePullPolicy = "Always" }),
			"S.joinConfiguration.nodeRegistration.imagePullPolicy: IfNotPresent, wanted Always"},
		{"imagePullSerial: default", both(func(n *bootstrapv1.NodeRegistrationOptions) { n.ImagePullSerial = ptr(true) }), ""},
		{"imagePullSerial: another", both(func(n *bootstrapv1.NodeRegistrationOptions) { n.ImagePullSerial = ptr(false) }),
			"S.joinConfiguration.nodeRegistration.imagePullSerial: true, wanted false"},
		{"criSocket: default", both(func(n *bootstrapv1.NodeRegistrationOptions) {
			n.CRISocket = "unix:///var/run/containerd/containerd.sock"
		}), ""},
		{"criSocket: another", both(func(n *bootstrapv1.NodeRegistrationOptions) { n.CRISocket = "unix:///var/run/crio/crio.sock" }),
			"S.joinConfiguration.nodeRegistration.criSocket: unix:///var/run/containerd/containerd.sock, wanted unix:///var/run/crio/crio.sock"},
		{"other defaults of kubeadm, written out", func(s *scene) {
			join := &s.want.JoinConfiguration
			join.CACertPath = "/etc/kubernetes/pki/ca.crt"
			join.ControlPlane = &bootstrapv1.JoinControlPlane{LocalAPIEndpoint: bootstrapv1.APIEndpoint{BindPort: 6443}}
			join.Timeouts = bootstrapv1.Timeouts{
				KubeletHealthCheckSeconds: ptr(int32(240)), KubernetesAPICallSeconds: ptr(int32(60)), EtcdAPICallSeconds: ptr(int32(120)),
				TLSBootstrapSeconds: ptr(int32(300)), DiscoverySeconds: ptr(int32(300)),
			}
			s.cluster.CertificatesDir, s.cluster.ImageRepository = "/etc/kubernetes/pki", "registry.k8s.io"
			s.cluster.CertificateValidityPeriodDays, s.cluster.CACertificateValidityPeriodDays = 365, 3650
			s.cluster.EncryptionAlgorithm = bootstrapv1.EncryptionAlgorithmRSA2048
			s.cluster.Etcd.Local.DataDir = "/var/lib/etcd"
			s.want.Files[0].ContentFormat = bootstrapv1.FileContentFormatRaw
		}, ""},
		{"switches that are off, now written out", func(s *scene) {
			s.want.Files[0].Append, s.want.Users[0].Inactive, s.want.Ignition.ContainerLinuxConfig.Strict = ptr(false), ptr(false), ptr(false)
			s.want.DiskSetup.Partitions[0].Overwrite, s.want.DiskSetup.Filesystems[0].Overwrite = ptr(false), ptr(false)
			s.was.ClusterConfiguration.APIServer.ExtraVolumes = []bootstrapv1.HostPathMount{{Name: "a"}}
			s.cluster.APIServer.ExtraVolumes = []bootstrapv1.HostPathMount{{Name: "a", ReadOnly: ptr(false)}}
		}, ""},
		{"switches whose default depends, now written out",
			func(s *scene) { s.want.NTP.Enabled, s.want.DiskSetup.Partitions[0].Layout = ptr(false), ptr(false) },
			"S.diskSetup.partitions[/dev/a].layout: unset, wanted false; S.ntp.enabled: unset, wanted false"},

		{"the feature gate was set by the control plane",
			func(s *scene) { s.was.ClusterConfiguration.FeatureGates = map[string]bool{gate: true} }, ""},
		{"the feature gate was set by the control plane, another is wanted", func(s *scene) {
			s.was.ClusterConfiguration.FeatureGates = map[string]bool{gate: true}
			s.cluster.FeatureGates = map[string]bool{"Other": false}
		}, "S.clusterConfiguration.featureGates.Other: unset, wanted false"},
		{"the user wants the feature gate off", func(s *scene) {
			s.was.ClusterConfiguration.FeatureGates = map[string]bool{gate: true}
			s.cluster.FeatureGates = map[string]bool{gate: false}
		}, "S.clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode: true, wanted false"},
		{"the user no longer wants the feature gate off",
			func(s *scene) { s.was.ClusterConfiguration.FeatureGates = map[string]bool{gate: false} },
			"S.clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode: false, wanted true"},

		{"taints: none, now an empty list", both(func(n *bootstrapv1.NodeRegistrationOptions) { n.Taints = &[]corev1.Taint{} }),
			"S.joinConfiguration.nodeRegistration.taints: unset, wanted []"},
		{"taints: an empty list, now none", func(s *scene) { s.was.JoinConfiguration.NodeRegistration.Taints = &[]corev1.Taint{} },
			"S.joinConfiguration.nodeRegistration.taints: [], wanted unset"},
		{"taints: an empty list both times", func(s *scene) {
			s.was.JoinConfiguration.NodeRegistration.Taints, s.want.JoinConfiguration.NodeRegistration.Taints = &[]corev1.Taint{}, &[]corev1.Taint{}
		}, ""},
		{"taints: the same in another order", func(s *scene) {
			a, b := corev1.Taint{Key: "k", Effect: "NoSchedule"}, corev1.Taint{Key: "k", Effect: "NoExecute"}
			s.was.JoinConfiguration.NodeRegistration.Taints, s.want.JoinConfiguration.NodeRegistration.Taints = &[]corev1.Taint{a, b},
				&[]corev1.Taint{b, a}
		}, ""},
		{"taints: another effect", func(s *scene) {
			a, b := corev1.Taint{Key: "k", Effect: "NoSchedule"}, corev1.Taint{Key: "k", Effect: "NoExecute"}
			s.was.JoinConfiguration.NodeRegistration.Taints, s.want.JoinConfiguration.NodeRegistration.Taints = &[]corev1.Taint{a},
				&[]corev1.Taint{b}
		}, `S.joinConfiguration.nodeRegistration.taints[k:NoExecute]: unset, wanted {"effect":"NoExecute","key":"k"}; ` +
			`S.joinConfiguration.nodeRegistration.taints[k:NoSchedule]: {"effect":"NoSchedule","key":"k"}, wanted unset`},
	})
	check(t, true, []row{
		{"bootstrap tokens of a first machine", func(s *scene) {
			s.want.InitConfiguration.BootstrapTokens = []bootstrapv1.BootstrapToken{{Description: "x"}}
			s.want.JoinConfiguration.NodeRegistration.Name = "not what the machine has"
		}, ""},
	})
}

// TestPatches: the folder with patches is that of the part that the machine was made with.
func TestPatches(t *testing.T) {
	config := bootstrapv1.KubeadmConfigSpec{}
	if got := Patches(config); got != "" {
		t.Errorf("without patches: %q", got)
	}
	config.InitConfiguration.Patches.Directory, config.JoinConfiguration.Patches.Directory = "/init", "/join"
	config.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
	if got := Patches(config); got != "/join" {
		t.Errorf("a machine that joined: %q", got)
	}
	config.JoinConfiguration = bootstrapv1.JoinConfiguration{}
	if got := Patches(config); got != "/init" {
		t.Errorf("a machine that was initialised: %q", got)
	}
}
