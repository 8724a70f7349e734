package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/internal/cluster/kubeadm"
	"github.com/quorate/quorate/internal/core/plan"
)

// FormerEtcdPods are the pods of etcd that the snapshot of a recovery brought along: they are older than the Node of the machine that
// restored it, and of members of the etcd before. kubeadm on a machine that joins would ask those, and one may run again on a machine that
// is not deleted yet. The annotation of that machine's Machine stays when a person deletes the EtcdRecovery.
func FormerEtcdPods(o *View) []*corev1.Pod {
	var began time.Time
	stays := map[string]bool{}
	for _, m := range o.Machines {
		if m.Node == nil || m.Facts.Deleting && !m.Facts.Hook {
			continue
		}
		stays[m.Node.Name] = true
		if m.Annotations[SeededByAnnotation] != "" {
			began = m.Node.CreationTimestamp.Time
		}
	}
	var former []*corev1.Pod
	for i := range o.Inside.Pods {
		p := &o.Inside.Pods[i]
		if kubeadm.IsEtcdPod(p) && p.CreationTimestamp.Time.Before(began) && !stays[p.Spec.NodeName] {
			former = append(former, p)
		}
	}
	return former
}

// addEtcdPods adds that pods tell machines that join of members of the etcd before.
func (t wants) addEtcdPods() {
	pods := FormerEtcdPods(t.View)
	if len(pods) == 0 || !t.Inspects() {
		return
	}
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	t.AddChore(plan.Chore{
		Name: ChoreEtcdPods, Due: plan.DueJoin, Reason: "EtcdPodsStale", Inside: true,
		Message: "machines that join would ask members of the etcd before the recovery, of which the snapshot has pods: " + someOf(names),
	})
}
