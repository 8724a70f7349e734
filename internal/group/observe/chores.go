package observe

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/plan"
)

// The chores of the kinds: what is kept beside machines and members.
const (
	// ChoreCertificates are the authorities of the cluster.
	ChoreCertificates = "Certificates"
	// ChoreKubeconfig is the secret with which the cluster is reached.
	ChoreKubeconfig = "Kubeconfig"
	// ChorePermissions are the permissions in the cluster that kubeadm's certificates rely on.
	ChorePermissions = "Permissions"
	// ChoreEtcdPods are the pods from which machines that join read where members of etcd are.
	ChoreEtcdPods = "EtcdPods"
	// ChoreKubeadmConfig is kubeadm's own configuration in the cluster, which machines read as they join.
	ChoreKubeadmConfig = "KubeadmConfig"
	// ChoreAddons are kube-proxy and CoreDNS, of the cluster's version.
	ChoreAddons = "Addons"
)

// addCertificates adds that authorities are missing: those of some purposes, or, each in a few words, what else keeps
// others from joining.
func (t wants) addCertificates(missing []string) {
	if len(missing) == 0 {
		return
	}
	t.AddChore(plan.Chore{
		Name: ChoreCertificates, Due: plan.DueFirst, Reason: "CertificatesMissing",
		Message: "no certificate authority for " + strings.Join(slices.Sorted(slices.Values(missing)), ", "),
	})
}

// noteBroken notes that something is wrong with the certificates that were given: with those nothing is begun. What runs goes on with its
// own copies; but no machine may join with those, and only a person can put others in their place.
func (t wants) noteBroken(what string) {
	if !t.Facts.Group.Initialized {
		t.Refuse(plan.Refusal{Reason: "CertificatesInvalid", Message: what})
		return
	}
	t.AddChore(plan.Chore{Name: ChoreCertificates, Due: plan.DueJoin, Reason: "CertificatesInvalid", Message: what, Blocked: true})
}

// NoteKubeconfig notes the state of the cluster's kubeconfig, and that it is to be written where it expires, or is missing and
// can be made: the endpoint is known, and the authority is there.
func (t *Observer) NoteKubeconfig(state certs.Kubeconfig, authority bool) {
	t.Kubeconfig = state
	chore := plan.Chore{Name: ChoreKubeconfig, Due: plan.DueNow}
	endpoint := t.Facts.Cluster.Endpoint
	switch {
	case state.Foreign, state.Exists && state.Expires.IsZero():
		return
	case state.Exists:
		chore.Reason, chore.Message, chore.Expires = "KubeconfigExpiring", "the kubeconfig", state.Expires
	case endpoint == "":
		return
	case !authority:
		wants{t.View}.followCertificates(ChoreKubeconfig)
		return
	default:
		chore.Reason, chore.Message = "KubeconfigMissing", "no kubeconfig for "+endpoint+" yet"
	}
	t.AddChore(chore)
}

// NoteOthersKubeconfig notes whether there is a kubeconfig that others keep; where there is none, it can be made.
func (t *Observer) NoteOthersKubeconfig(exists bool) {
	t.NoteKubeconfig(certs.Kubeconfig{Exists: exists, Foreign: exists}, true)
}

// followCertificates notes what can be made once the authorities are there.
func (t wants) followCertificates(chore string) {
	chores := t.Facts.Cluster.Chores
	if i := slices.IndexFunc(chores, func(c plan.Chore) bool { return c.Name == ChoreCertificates && !c.Blocked }); i >= 0 {
		chores[i].Then = chore
	}
}

// AddChore adds what is not as it should be, or expires. Chores are done in the order in which they are added.
func (o *View) AddChore(c plan.Chore) {
	o.Facts.Cluster.Chores = append(o.Facts.Cluster.Chores, c)
}
