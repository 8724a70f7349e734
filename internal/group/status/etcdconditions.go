package status

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// etcdHealthy says what is wrong with etcd's members, and with their agreement with the machines.
func (t Report) etcdHealthy() metav1.Condition {
	kind := upstream.KubeadmControlPlaneEtcdClusterHealthyCondition
	if reason, why := etcdNotKnown(t.Facts); reason != "" {
		return observe.Condition(kind, metav1.ConditionUnknown, reason, why)
	}
	o := t.Facts
	var found observe.Ailments
	if !o.Etcd.Agreed {
		found.Add(plan.Unhealthy, "the members contradict one another, or the machines: %s", o.Etcd.Why)
	}
	has := map[string]bool{}
	for _, m := range o.Etcd.Members {
		has[m.Machine] = true
		member := t.Assessed.Member(m.ID)
		found.Add(member.Health, "member %s: %s", memberTitle(m), member.Why)
	}
	for _, m := range o.Machines {
		if m.Host != "" && !m.Deleting && !has[m.Name] {
			found.Add(plan.Unhealthy, "machine %s has no member", m.Name)
		}
	}
	return found.Condition(kind)
}

// etcdNotKnown says why nothing can be said of the members of etcd; both are empty where they are known.
func etcdNotKnown(o plan.Observed) (reason, why string) {
	switch {
	case !o.Group.Initialized:
		return upstream.KubeadmControlPlaneEtcdClusterInspectionFailedReason, "The control plane is not initialized yet"
	case o.Etcd.Known:
		return "", ""
	case !o.Cluster.Reachable:
		return upstream.KubeadmControlPlaneEtcdClusterConnectionDownReason, o.Cluster.Unreachable
	}
	return upstream.KubeadmControlPlaneEtcdClusterInspectionFailedReason, cmp.Or(o.Etcd.Why, "The members could not be listed")
}

// memberTitle names a member for people.
func memberTitle(m plan.Member) string {
	if name := cmp.Or(m.Machine, m.Name); name != "" {
		return m.ID + " (" + name + ")"
	}
	return m.ID
}

// credited are the voters, those of machines that have just joined with the benefit of the doubt
// for a moment: a learner that was just promoted answers within seconds, in every healthy join.
func (t Report) credited() etcd.Ballot {
	return etcd.NewBallot(t.Assessed.Voters, func(id string) bool {
		return slices.ContainsFunc(t.Facts.Etcd.Members, func(m plan.Member) bool { return m.ID == id && t.justJoined(m) })
	})
}

// justJoined reports whether a member has been as it is for a moment only, and could not be expected
// to answer before. Its machine has no Node yet, or registered it a moment ago and was not asked.
func (t Report) justJoined(m plan.Member) bool {
	if m.Since.IsZero() || !t.isFresh(m.Since) {
		return false
	}
	return slices.ContainsFunc(t.Facts.Machines, func(on plan.Machine) bool {
		// Of a voter that is on no known machine any that has no Node may be the one.
		its := on.Name == m.Machine || m.Machine == ""
		return its && !on.Deleting && (on.Host == "" || on.Name == m.Machine && m.Health == plan.Unknown && t.isFresh(on.UpSince))
	})
}
