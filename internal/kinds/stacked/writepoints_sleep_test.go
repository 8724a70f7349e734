package stacked

import (
	"context"
	"slices"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// backupTime is how long a backup takes, and how long a seed is looked for; nightTime is how long nobody wakes a control plane.
const (
	backupTime = 5 * time.Second
	nightTime  = 10 * time.Minute
)

// sleeps plays what works beside a control plane that hibernates: MachineDeployments lose their workers, backups are taken, the machines
// fall silent, somebody wakes it, and a seed is found for its recovery.
func (r *run) sleeps() {
	r.workerLeaves()
	kcp := r.kcp()
	if verified := kcp.Annotations[controlplanev1.BackupVerifiedAnnotation]; r.required() != "" && verified == "" &&
		r.happen("backed up", backupTime) {
		r.backedUp()
	}
	all := slices.DeleteFunc(r.machines(), func(m clusterv1.Machine) bool { return m.Name == workerName })
	released := slices.ContainsFunc(all, func(m clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() && !machine.HasHook(&m) })
	switch asleep := kcp.Annotations[controlplanev1.HibernationAnnotation] != ""; {
	case asleep && released:
		r.lost = true // all go at once, and no member is removed
	case len(all) == 0 && r.view.Reachable:
		r.fallsSilent()
	case r.isHibernated() && kcp.Spec.PowerState == controlplanev1.PowerHibernated:
		if r.happen("woken", nightTime) {
			r.power(controlplanev1.PowerRunning)
		}
	}
	r.seedIsFound()
}

// workerLeaves lets the worker of a MachineDeployment of no machines go.
func (r *run) workerLeaves() {
	replicas, _ := r.deployment()
	if replicas != 0 || !slices.Contains(r.machineNames(), workerName) {
		return
	}
	if r.happen("worker gone", goneTime) {
		r.workersGo()
	}
}

// seedIsFound lets a seed be found for a recovery that has none.
func (r *run) seedIsFound() {
	list := &backupv1alpha1.EtcdRecoveryList{}
	if err := r.client.List(context.Background(), list); err != nil {
		r.t.Fatal(err)
	}
	for _, one := range list.Items {
		if one.Annotations[backupv1alpha1.RecoverySeedAnnotation] == "" && r.happen("seed found", backupTime) {
			r.seeksSeed()
		}
	}
}
