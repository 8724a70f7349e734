package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
)

// Format is the form of bootstrap data.
type Format string

const (
	// CloudConfig is bootstrap data for cloud-init.
	CloudConfig Format = "cloud-config"
	// Bottlerocket is bootstrap data for Bottlerocket. Quorate refuses it.
	Bottlerocket Format = "bottlerocket"
)

// Annotations that keep, in one version, what only the other version has fields for.
const (
	// KeptAnnotation on an object of v1alpha1 holds the fields that only v1beta1 has.
	KeptAnnotation = "bootstrap.cluster.x-k8s.io/v1beta1-fields"
	// NewerAnnotation on an object of v1beta1 holds the fields that only v1alpha1 has.
	NewerAnnotation = "bootstrap.cluster.x-k8s.io/v1alpha1-fields"
)

// EtcdadmConfigSpec is how a machine becomes a member of an etcd cluster.
type EtcdadmConfigSpec struct {
	// users are made on the machine.
	// +optional
	Users []bootstrapv1beta1.User `json:"users,omitempty"`

	// etcdadmBuiltin is true if the machine's image has etcdadm. Then etcdadmInstallCommands do not run.
	// +optional
	EtcdadmBuiltin bool `json:"etcdadmBuiltin,omitempty"`

	// etcdadmInstallCommands install etcdadm on the machine. Without them Quorate expects etcdadm in the machine's image.
	// +optional
	EtcdadmInstallCommands []string `json:"etcdadmInstallCommands,omitempty"`

	// preEtcdadmCommands run before etcdadm does.
	// +optional
	PreEtcdadmCommands []string `json:"preEtcdadmCommands,omitempty"`

	// postEtcdadmCommands run after etcdadm did.
	// +optional
	PostEtcdadmCommands []string `json:"postEtcdadmCommands,omitempty"`

	// format is the form of the bootstrap data. Quorate refuses bottlerocket. Defaults to cloud-config.
	// +optional
	// +kubebuilder:validation:Enum=cloud-config;bottlerocket
	Format Format `json:"format,omitempty"`

	// bottlerocketConfig is for machines with Bottlerocket. Quorate refuses it.
	// +optional
	BottlerocketConfig *BottlerocketConfig `json:"bottlerocketConfig,omitempty"`

	// cloudInitConfig says which etcd is installed, where from and where to.
	// +optional
	CloudInitConfig *CloudInitConfig `json:"cloudInitConfig,omitempty"`

	// files are written to the machine before commands run.
	// +optional
	Files []bootstrapv1beta1.File `json:"files,omitempty"`

	// proxy is what downloads and commands go through.
	// +optional
	Proxy *ProxyConfiguration `json:"proxy,omitempty"`

	// registryMirror is a mirror of image registries. Quorate refuses it, because its machines of etcd pull no images.
	// +optional
	RegistryMirror *RegistryMirrorConfiguration `json:"registryMirror,omitempty"`

	// cipherSuites are the TLS cipher suites of etcd, separated by commas. Quorate refuses them.
	// +optional
	CipherSuites string `json:"cipherSuites,omitempty"`

	// ntp are time servers.
	// +optional
	NTP *bootstrapv1beta1.NTP `json:"ntp,omitempty"`

	// certBundles are certificates that the machine trusts. Quorate refuses them.
	// +optional
	CertBundles []CertBundle `json:"certBundles,omitempty"`
}

// BottlerocketConfig is for machines with Bottlerocket. Only its presence matters to Quorate, which refuses it.
type BottlerocketConfig struct {
	// etcdImage is the image of etcd.
	// +optional
	EtcdImage string `json:"etcdImage,omitempty"`
	// bootstrapImage is the image that makes the machine a member.
	BootstrapImage string `json:"bootstrapImage"`
	// adminImage is the image of the admin container.
	// +optional
	AdminImage string `json:"adminImage,omitempty"`
	// controlImage is the image of the control container.
	// +optional
	ControlImage string `json:"controlImage,omitempty"`
	// pauseImage is the image of the pause container.
	PauseImage string `json:"pauseImage"`
	// customHostContainers are additional host containers.
	// +optional
	CustomHostContainers []BottlerocketHostContainer `json:"customHostContainers,omitempty"`
	// customBootstrapContainers are additional bootstrap containers.
	// +optional
	CustomBootstrapContainers []BottlerocketBootstrapContainer `json:"customBootstrapContainers,omitempty"`
	// kernel are settings of the kernel.
	// +optional
	Kernel *BottlerocketKernelSettings `json:"kernel,omitempty"`
	// boot are settings of the boot.
	// +optional
	Boot *BottlerocketBootSettings `json:"boot,omitempty"`
}

// BottlerocketHostContainer is a host container of Bottlerocket.
type BottlerocketHostContainer struct {
	// name is the name of the container.
	Name string `json:"name"`
	// superpowered is true for a container with rights over the host.
	Superpowered bool `json:"superpowered"`
	// image is the image of the container.
	Image string `json:"image"`
	// userData is what the container gets as its user data.
	// +optional
	UserData string `json:"userData,omitempty"`
}

// BottlerocketBootstrapContainer is a bootstrap container of Bottlerocket.
type BottlerocketBootstrapContainer struct {
	// name is the name of the container.
	Name string `json:"name"`
	// image is the image of the container.
	Image string `json:"image"`
	// essential is true if the machine must not start without the container.
	// +optional
	Essential bool `json:"essential,omitempty"`
	// mode is when the container runs.
	// +kubebuilder:validation:Enum=always;off;once
	Mode string `json:"mode"`
	// userData is what the container gets as its user data, base64-encoded.
	// +optional
	UserData string `json:"userData,omitempty"`
}

// BottlerocketKernelSettings are settings of Bottlerocket's kernel.
type BottlerocketKernelSettings struct {
	// sysctlSettings are settings of sysctl.
	// +optional
	SysctlSettings map[string]string `json:"sysctlSettings,omitempty"`
}

// BottlerocketBootSettings are settings of Bottlerocket's boot.
type BottlerocketBootSettings struct {
	// bootKernelParameters are parameters of the kernel.
	// +optional
	BootKernelParameters map[string][]string `json:"bootKernelParameters,omitempty"`
}

// CloudInitConfig says which etcd is installed, where from and where to.
type CloudInitConfig struct {
	// version is the version of etcd, with or without a leading v.
	// +optional
	Version string `json:"version,omitempty"`
	// etcdReleaseURL is where etcd is downloaded from.
	// +optional
	EtcdReleaseURL string `json:"etcdReleaseURL,omitempty"`
	// installDir is the folder of etcd's programs on the machine.
	// +optional
	InstallDir string `json:"installDir,omitempty"`
}

// ProxyConfiguration is what downloads and commands go through.
type ProxyConfiguration struct {
	// httpProxy is the URL of the proxy for HTTP.
	// +optional
	HTTPProxy string `json:"httpProxy,omitempty"`
	// httpsProxy is the URL of the proxy for HTTPS.
	// +optional
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	// noProxy are hosts, domains and ranges that are reached without a proxy.
	// +optional
	NoProxy []string `json:"noProxy,omitempty"`
}

// RegistryMirrorConfiguration is a mirror of image registries.
type RegistryMirrorConfiguration struct {
	// endpoint is the address of the mirror.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// caCert is the certificate of the mirror's authority.
	// +optional
	CACert string `json:"caCert,omitempty"`
}

// CertBundle is a certificate that the machine trusts.
type CertBundle struct {
	// name is the name of the bundle.
	Name string `json:"name"`
	// data is the certificate.
	Data string `json:"data"`
}

// EtcdadmConfigStatus is what was observed.
type EtcdadmConfigStatus struct {
	// conditions are those of v1alpha1, in the form of this version.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`
	// dataSecretName is the name of the secret with the bootstrap data.
	// +optional
	DataSecretName *string `json:"dataSecretName,omitempty"`
	// ready is true once there is bootstrap data.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdadmconfigs,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Data secret created",type="boolean",JSONPath=".status.ready",description="Whether there is bootstrap data"
// +kubebuilder:printcolumn:name="Why",type="string",JSONPath=`.status.conditions[?(@.type=="DataSecretAvailable")].message`,description="What the bootstrap data waits for",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// EtcdadmConfig is how one machine becomes a member of an etcd cluster, by etcdadm.
type EtcdadmConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the machine becomes a member.
	// +optional
	Spec EtcdadmConfigSpec `json:"spec,omitempty"`
	// status is what was observed.
	// +optional
	Status EtcdadmConfigStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// EtcdadmConfigList is a list of configurations.
type EtcdadmConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the configurations.
	Items []EtcdadmConfig `json:"items"`
}
