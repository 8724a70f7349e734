package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
)

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmcontrolplanes,shortName=kcp,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Initialized",type=boolean,JSONPath=".status.initialized",description="The first machine accepts requests"
// +kubebuilder:printcolumn:name="API Server Available",type=boolean,JSONPath=".status.ready",description="The control plane accepts requests"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas",description="Machines wanted",priority=10
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=".status.replicas",description="Machines there are"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=".status.readyReplicas",description="Machines that are ready"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=".status.updatedReplicas",description="Machines as wanted"
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=".status.unavailableReplicas",description="Machines that are not available"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version",description="Kubernetes version wanted"

// KubeadmControlPlane is a control plane of machines that kubeadm sets up. What is written in this version is checked in
// this version: the rules are those of v1beta2.
type KubeadmControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the control plane that is wanted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || oldSelf.?replicas == optional.of(self.replicas) || self.replicas >= 1 && (self.?kubeadmConfigSpec.?clusterConfiguration.?etcd.?external.hasValue() || self.replicas % 2 == 1 && (self.replicas <= 7 || self.replicas <= oldSelf.?replicas.orValue(0)))",fieldPath=".replicas",optionalOldSelf=true,messageExpression="(self.?kubeadmConfigSpec.?clusterConfiguration.?etcd.?external.hasValue() ? 'replicas is %d: at least one machine is needed; any number from 1 is accepted with external etcd' : self.replicas < 1 ? 'replicas is %d: at least one machine is needed; 1, 3, 5 or 7 are accepted with stacked etcd' : self.replicas % 2 == 0 ? 'replicas is %d: a control plane with stacked etcd needs an odd number of machines (1, 3, 5 or 7), an even one only adds a machine that can fail' : 'replicas is %d: stacked etcd is supported with 1, 3, 5 or 7 members, more only slow it down').format([self.replicas])"
	// +kubebuilder:validation:XValidation:rule="!has(self.version) || self.version.matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)([-+].+)?$')",fieldPath=".version",messageExpression="'version is ' + self.version + ': it must be of the form v1.36.3'"
	// +kubebuilder:validation:XValidation:rule="!has(self.rolloutStrategy) || !has(self.rolloutStrategy.rollingUpdate) || !has(self.rolloutStrategy.rollingUpdate.maxSurge) || (type(self.rolloutStrategy.rollingUpdate.maxSurge) == int ? self.rolloutStrategy.rollingUpdate.maxSurge in [0, 1] : self.rolloutStrategy.rollingUpdate.maxSurge in ['0', '1'])",fieldPath=".rolloutStrategy.rollingUpdate.maxSurge",message="maxSurge must be 0 or 1"
	Spec upstream.KubeadmControlPlaneSpec `json:"spec,omitempty"`
	// status is what was observed.
	// +optional
	Status upstream.KubeadmControlPlaneStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// KubeadmControlPlaneList is a list of control planes.
type KubeadmControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the control planes.
	Items []KubeadmControlPlane `json:"items"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmcontrolplanetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// KubeadmControlPlaneTemplate is what the control planes of a ClusterClass are made from.
type KubeadmControlPlaneTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +optional
	Spec upstream.KubeadmControlPlaneTemplateSpec `json:"spec,omitempty"`
}

// +kubebuilder:object:root=true

// KubeadmControlPlaneTemplateList is a list of templates.
type KubeadmControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []KubeadmControlPlaneTemplate `json:"items"`
}
