package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CertificatesStatus is a summary of the certificates that the manager sees. `quorate certificates list` has all of them.
//
// +kubebuilder:validation:MinProperties=1
type CertificatesStatus struct {
	// first has of each kind of certificate the one that expires first, sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	First []CertificateStatus `json:"first,omitempty"`

	// seen is how many certificates the manager sees: those in the secrets of the cluster, and those that API servers and etcd members
	// show.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Seen *int32 `json:"seen,omitempty"`

	// expired is how many of them have expired.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Expired *int32 `json:"expired,omitempty"`

	// expiringSoon is how many of them have not expired, and expire within 30 days.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ExpiringSoon *int32 `json:"expiringSoon,omitempty"`

	// notSeen says which certificates the manager could not look at. It is empty if it could look at all that it looks at.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	NotSeen string `json:"notSeen,omitempty"`
}

// CertificateStatus is one certificate, when it expires and what renews it.
type CertificateStatus struct {
	// name is what the certificate is for, as kubeadm names it: ca, apiserver, etcd-server. That of the cluster's kubeconfig is kubeconfig.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// date is when the certificate expires.
	// +required
	Date metav1.Time `json:"date,omitempty,omitzero"`

	// renewedBy is what renews the certificate before it expires. UpdateInPlace is an upgrade of its machine in place, and Replacement a new
	// machine. Manager is Quorate's manager. With the value Nobody it is left to a person.
	// +required
	// +kubebuilder:validation:Enum=UpdateInPlace;Replacement;Manager;Nobody
	RenewedBy string `json:"renewedBy,omitempty"`

	// machine is the name of the Machine whose server shows the certificate.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`

	// secret is the name of the secret that holds the certificate.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`
}

// The values of renewedBy.
const (
	CertificateRenewedByUpdate      = "UpdateInPlace"
	CertificateRenewedByReplacement = "Replacement"
	CertificateRenewedByManager     = "Manager"
	CertificateRenewedByNobody      = "Nobody"
)
