package drift

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// Machine is one machine of a group: the objects it consists of.
type Machine struct {
	// Machine must not be nil.
	Machine *clusterv1.Machine
	// Config is its bootstrap object, if that is a KubeadmConfig: the record of what
	// it was made from. Nil: not known.
	Config *bootstrapv1.KubeadmConfig
	// Bootstrap is its bootstrap object, of any provider. Nil: not known. It is not
	// used if Config is set.
	Bootstrap *unstructured.Unstructured
	// Infrastructure is nil if it is not known.
	Infrastructure *unstructured.Unstructured
}

// bootstrap returns the bootstrap object. Nil: not known.
func (m Machine) bootstrap() metav1.Object {
	switch {
	case m.Config != nil:
		return m.Config
	case m.Bootstrap != nil:
		return m.Bootstrap
	}
	return nil
}

// Created is when the machine was made. An object that was moved, or restored from a backup, is younger than its machine.
func (m Machine) Created() time.Time {
	if noted, err := time.Parse(time.RFC3339, m.Machine.Annotations[controlplanev1.CreatedAnnotation]); err == nil {
		return noted
	}
	return m.Machine.CreationTimestamp.Time
}

// infrastructure returns the infrastructure. Nil: not known.
func (m Machine) infrastructure() metav1.Object {
	if m.Infrastructure == nil {
		return nil
	}
	return m.Infrastructure
}

// CertificatesEnd is when the certificate of the machine's API server, or of its member of an etcd cluster, expires.
// It is what the annotation certificates-expiry says on the Machine, else on the
// bootstrap object, else the Machine's status. Zero: not known.
func (m Machine) CertificatesEnd() time.Time {
	for _, annotations := range []map[string]string{m.Machine.Annotations, annotationsOf(m.bootstrap())} {
		end, err := time.Parse(time.RFC3339, annotations[clusterv1.MachineCertificatesExpiryDateAnnotation])
		if err == nil {
			return end
		}
	}
	return m.Machine.Status.CertificatesExpiryDate.Time
}

// Difference is one field in which a machine is not as wanted.
type Difference struct {
	// Field is the path in the group's object, with the names of list elements
	// where they have one: spec.kubeadmConfigSpec.files[/etc/motd].owner.
	Field string `json:"field"`
	// Was and Want are the machine's value and the wanted one, shortened, as JSON
	// unless they are plain. Empty: not set. NotShown stands for what may be secret.
	Was  string `json:"was,omitempty"`
	Want string `json:"want,omitempty"`

	// fixed says why this cannot be changed while the machine lives, where Was and Want do not say enough to know; empty: nothing is known
	// against it.
	fixed string
}

// String says the difference in a line: spec.version: v1.35.4, wanted v1.36.3.
func (d Difference) String() string {
	if d.Was == d.Want {
		return d.Field + " changed"
	}
	said := func(s string) string {
		if s == "" {
			return "unset"
		}
		return s
	}
	return fmt.Sprintf("%s: %s, wanted %s", d.Field, said(d.Was), said(d.Want))
}

// Drift is how a machine differs from what its group wants.
type Drift struct {
	// Reasons are the fields that differ: what Wanted.Compare returns, then the
	// parts of kubeadmConfigSpec.
	Reasons []Difference `json:"reasons,omitempty"`
	// Due are the deadlines of spec.rollout that have passed, and what people asked for. Only a new machine meets them.
	Due []Difference `json:"due,omitempty"`
}

// Outdated reports whether the machine is not as wanted.
func (d Drift) Outdated() bool {
	return len(d.Reasons)+len(d.Due) > 0
}

// String says all differences in a line, deadlines last. Empty: there is none.
func (d Drift) String() string { return strings.Join(d.Texts(), "; ") }

// Texts says each difference, deadlines last.
func (d Drift) Texts() []string {
	var all []string
	for _, list := range [][]Difference{d.Reasons, d.Due} {
		for _, one := range list {
			all = append(all, one.String())
		}
	}
	return all
}

// Of compares a machine with what its KubeadmControlPlane wants at a moment.
func Of(kcp *controlplanev1.KubeadmControlPlane, m Machine, now time.Time) Drift {
	var d Drift
	d.Reasons = append(d.Reasons, Kubeadm(kcp).Compare(m)...)
	d.Reasons = append(d.Reasons, ofConfig(kcp, m)...)
	d.Due = Due(kcp.Spec.Rollout, kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.CertificateValidityPeriodDays, m, now)
	return d
}

// Due are the deadlines of a rollout that a machine has passed at a moment. validityDays is how long the certificates of new machines
// are valid; 0: a year.
func Due(rollout upstream.KubeadmControlPlaneRolloutSpec, validityDays int32, m Machine, now time.Time) []Difference {
	return append(dueAfter(rollout, m, now), dueBefore(rollout, validityDays, m, now)...)
}

// dueAfter: spec.rollout.after has passed, and the machine is older than it.
func dueAfter(rollout upstream.KubeadmControlPlaneRolloutSpec, m Machine, now time.Time) []Difference {
	after, made := rollout.After.Time, m.Created()
	if after.IsZero() || !after.Before(now) || !made.Before(after) {
		return nil
	}
	return []Difference{{
		Field: "spec.rollout.after",
		Was:   "made " + made.UTC().Format(time.RFC3339),
		Want:  "made after " + after.UTC().Format(time.RFC3339),
	}}
}

// Asked returns the difference of a machine whose replacement a person asked for. by is the time of the request: it does not count for a
// machine that was made after it, and not before that time. Zero: there is no request.
func Asked(m Machine, by, now time.Time) []Difference {
	made := m.Created()
	if by.IsZero() || by.After(now) || made.After(by) {
		return nil
	}
	return []Difference{{
		Field: "annotation quorate-replace",
		Was:   "made " + made.UTC().Format(time.RFC3339),
		Want:  "a machine made after " + by.UTC().Format(time.RFC3339),
	}}
}

// defaultValidityDays is how long the certificates are valid that kubeadm makes, where the user says nothing.
const defaultValidityDays = 365

// dueBefore: the certificates expire within the days of spec.rollout.before.
// The text does not name the moment: it would be another one each time.
// More days than a new machine's certificates are valid for would replace machines for ever.
func dueBefore(rollout upstream.KubeadmControlPlaneRolloutSpec, validity int32, m Machine, now time.Time) []Difference {
	days, end := rollout.Before.CertificatesExpiryDays, m.CertificatesEnd()
	if validity == 0 {
		validity = defaultValidityDays
	}
	if days == 0 || days >= validity || end.IsZero() || !now.Add(time.Duration(days)*24*time.Hour).After(end) {
		return nil
	}
	return []Difference{{
		Field: "spec.rollout.before.certificatesExpiryDays",
		Was:   "certificates end " + end.UTC().Format(time.RFC3339),
		Want:  fmt.Sprintf("at least %d days left", days),
	}}
}
