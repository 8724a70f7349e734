package stacked

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/version"
)

// report tells what was seen, decided and done: on the Machines, on the control
// plane, by an event, a log line and metrics. What has not changed is not written again, and
// what could not be kept up does not stop the report.
func (r *Reconciler) report(ctx context.Context, s *scene, m *memory, d plan.Decision, failure error) error {
	var kept error
	if !s.Facts.Group.Paused {
		if err := r.recordInitialized(ctx, s, m); err != nil {
			return err
		}
		if err := r.endRepair(ctx, s, m, d); err != nil {
			return err
		}
		if err := r.reportMachines(ctx, s, m, d, failure); err != nil {
			return err
		}
		kept = r.keep(ctx, s, m)
	}
	after := s.kcp.DeepCopy()
	s.describe(after, d, failure)
	group.Announce(ctx, r.Recorder, s.kcp, s.kcp.Status.Plan, d, failure)
	key := client.ObjectKeyFromObject(s.kcp)
	metrics.Spare(key, s.Facts)
	metrics.Expiry(key, after.Status.CertificateExpiry.Date.Time)
	// After a step the next turn comes at once, and writes what both have to say.
	if d.Step.Acts() && failure == nil || equality.Semantic.DeepEqual(s.kcp.Status, after.Status) {
		return kept
	}
	err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(s.kcp, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return errors.Join(kept, fmt.Errorf("writing the status of KubeadmControlPlane %s: %w", s.kcp.Name, err))
	}
	m.writes.Expect(group.Write{Version: after.ResourceVersion})
	return kept
}

// keep writes what follows the control plane without a step: who owns the machine template, what the
// machines carry, whose the cluster's secrets are, when certificates expire, and the health check.
func (r *Reconciler) keep(ctx context.Context, s *scene, m *memory) error {
	if s.Facts.Group.Deleting || len(s.Facts.Strangers) > 0 {
		return nil
	}
	if m.slow.owned != nil && s.Cluster.UID != "" {
		owned, err := r.adoptTemplate(ctx, m.slow.owned, s.Cluster)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		m.slow.owned = owned
	}
	if err := r.propagate(ctx, s, m); err != nil {
		return err
	}
	return errors.Join(r.ownSecrets(ctx, s, m), r.recordExpiries(ctx, s, m), r.healthCheck(ctx, s))
}

// reportMachines writes the conditions of the Machines. One that has changed
// since it was read is left to the next turn, which its change brings about.
func (r *Reconciler) reportMachines(ctx context.Context, s *scene, m *memory, d plan.Decision, failure error) error {
	says := ""
	if slices.ContainsFunc(s.Facts.Machines, func(m plan.Machine) bool { return m.Marked != "" }) {
		says = s.verdict("remediate")
	}
	for _, on := range s.Machines {
		before := on.Machine
		after := before.DeepCopy()
		for _, c := range s.machineConditions(on) {
			conditions.Set(after, c)
		}
		if on.Facts.Marked != "" {
			conditions.Set(after, s.ownerRemediated(on, says, d, failure))
		}
		handBack(on, after)
		forgetDeprecated(after, deprecatedOfMachines)
		on.Machine = after
		if equality.Semantic.DeepEqual(before.Status, after.Status) {
			continue
		}
		err := r.Client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("writing the conditions of Machine %s: %w", before.Name, err)
		}
		m.writes.ExpectMachine(after)
	}
	return nil
}

// describe writes what was seen and decided into a control plane's status.
func (s *scene) describe(kcp *controlplanev1.KubeadmControlPlane, d plan.Decision, failure error) {
	conditions.Set(kcp, s.paused())
	kcp.Status.Plan = group.PlanStatus(d, failure)
	if s.Facts.Group.Paused {
		return // others may be moving the object
	}
	for _, c := range s.groupConditions(d, failure) {
		conditions.Set(kcp, c)
	}
	status := &kcp.Status
	status.ObservedGeneration = kcp.Generation
	status.Selector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: machine.Labels(s.Cluster.Name)})
	if s.Facts.Group.Initialized {
		status.Initialization.ControlPlaneInitialized = ptr.To(true)
	}
	status.Versions = versions(s.Objects())
	status.Version = ""
	if len(status.Versions) > 0 {
		status.Version = status.Versions[0].Version
	}
	status.Replicas = ptr.To(int32(len(s.Machines)))
	status.ReadyReplicas = s.count(clusterv1.MachineReadyCondition)
	status.AvailableReplicas = s.count(clusterv1.MachineAvailableCondition)
	status.UpToDateReplicas = s.count(clusterv1.MachineUpToDateCondition)
	if last := s.lastRemediation(); last != nil {
		status.LastRemediation = upstream.LastRemediationStatus{Machine: last.Machine, Time: last.Timestamp, RetryCount: ptr.To(int32(last.Retries))}
	}
	s.describeExpiry(status)
	describeDeprecated(kcp)
}

// count returns how many machines have a condition that is true.
func (s *scene) count(kind string) *int32 {
	n := int32(0)
	for _, m := range s.Objects() {
		if conditions.IsTrue(m, kind) {
			n++
		}
	}
	return &n
}

// versions counts the machines by version, the oldest version first.
func versions(machines []*clusterv1.Machine) []clusterv1.StatusVersion {
	count := map[string]int32{}
	for _, m := range machines {
		if m.Spec.Version != "" {
			count[m.Spec.Version]++
		}
	}
	var list []clusterv1.StatusVersion
	for v, n := range count {
		list = append(list, clusterv1.StatusVersion{Version: v, Replicas: n})
	}
	slices.SortFunc(list, func(a, b clusterv1.StatusVersion) int {
		x, _ := version.Parse(a.Version)
		y, _ := version.Parse(b.Version)
		return cmp.Or(version.Compare(x, y), cmp.Compare(a.Version, b.Version))
	})
	return list
}
