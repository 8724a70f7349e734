package stacked

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/drift"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/version"
)

// parts reads the objects that each machine consists of. What is gone is not known.
func (r reader) parts(ctx context.Context, s *scene) error {
	for _, m := range s.Machines {
		m.Read = true
		if name := m.Spec.Bootstrap.ConfigRef.Name; name != "" {
			config := &bootstrapv1.KubeadmConfig{}
			err := r.objects.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, config)
			switch {
			case err == nil:
				m.Bootstrap = config
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("reading KubeadmConfig %s: %w", name, err)
			default:
				if err := r.checkConfigGone(ctx, m); err != nil {
					return err
				}
			}
		}
		if ref := m.Spec.InfrastructureRef; ref.Name != "" {
			infra, err := external.GetObjectFromContractVersionedRef(ctx, r.objects, ref, m.Namespace)
			switch {
			case err == nil:
				m.Infrastructure = infra
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
			}
		}
	}
	return nil
}

// addWants adds what is wanted of each machine that lives, and of whom it took the place.
func (s *scene) addWants(now time.Time) {
	for _, m := range s.Machines {
		if !m.Read {
			continue
		}
		facts, found := m.Facts, drift.Of(withGates(s.kcp), partsOf(m), now)
		m.Drift = &found
		facts.Outdated = group.Cut(found.String(), longestDrift)
		facts.Marked = machine.Marked(m.Machine)
		facts.Gate = machine.ShutGate(m.Machine, s.kcp.Spec.MachineTemplate.Spec.ReadinessGates)
		_, facts.Chosen = m.Annotations[clusterv1.DeleteMachineAnnotation]
		if r := group.ReplacementIn(m.Annotations, upstream.RemediationForAnnotation); r != nil {
			facts.Replaced, facts.Retries = r.Timestamp.Time, r.Retries
		}
	}
}

// longestDrift is how many bytes of a machine's differences a decision tells.
const longestDrift = 200

// withGates returns the control plane as its machines are made: with the feature
// gates that are set for the user.
func withGates(kcp *controlplanev1.KubeadmControlPlane) *controlplanev1.KubeadmControlPlane {
	kcp = kcp.DeepCopy()
	setFeatureGates(&kcp.Spec.KubeadmConfigSpec, kcp.Spec.Version)
	return kcp
}

// surge is how many machines more than wanted a rollout may have.
func surge(kcp *controlplanev1.KubeadmControlPlane) int {
	most := kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge
	if most == nil {
		return 1
	}
	return most.IntValue()
}

// repairLimits are those of the user, and upstream's defaults.
func repairLimits(kcp *controlplanev1.KubeadmControlPlane) plan.RepairLimits {
	given := kcp.Spec.Remediation
	limits := plan.RepairLimits{Most: -1, Healthy: time.Hour}
	if given.MaxRetry != nil {
		limits.Most = int(*given.MaxRetry)
	}
	limits.Period = time.Duration(ptr.Deref(given.RetryPeriodSeconds, 0)) * time.Second
	if given.MinHealthyPeriodSeconds != nil {
		limits.Healthy = time.Duration(*given.MinHealthyPeriodSeconds) * time.Second
	}
	return limits
}

// leap says why the machines cannot be brought to the wanted version; empty: they can.
// One minor version at a time, and back only to where some of them still are.
func leap(want string, machines []*clusterv1.Machine) string {
	to, err := version.Parse(want)
	if err != nil || len(machines) == 0 {
		return ""
	}
	var oldest version.Version
	for i, m := range machines {
		v, err := version.Parse(m.Spec.Version)
		if err != nil {
			return ""
		}
		if i == 0 || version.CompareMinor(v, oldest) < 0 {
			oldest = v
		}
	}
	switch {
	case version.CompareMinor(to, oldest) < 0:
		return fmt.Sprintf("spec.version is %s, and no machine is older than v%d.%d: it goes back only to where some machine still is", want, oldest.Major, oldest.Minor)
	case to.Major != oldest.Major || to.Minor > oldest.Minor+1:
		return fmt.Sprintf("spec.version is %s, and the oldest machine has v%d.%d: one minor version at a time, v%d.%d would be accepted", want, oldest.Major, oldest.Minor, oldest.Major, oldest.Minor+1)
	}
	return ""
}
