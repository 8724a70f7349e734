package stacked

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/certs"
	"github.com/quorate/quorate/internal/drift"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/version"
)

// addStrangers adds the control plane machines that are not ours, and what contradicts
// their adoption.
func (r reader) addStrangers(ctx context.Context, s *scene, strangers []*clusterv1.Machine) error {
	s.Others = strangers
	for _, m := range strangers {
		against := contradiction(s.kcp, s.Cluster.Name, m)
		if against == "" {
			name := m.Spec.Bootstrap.ConfigRef.Name
			err := r.objects.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, &bootstrapv1.KubeadmConfig{})
			switch {
			case apierrors.IsNotFound(err) && !m.DeletionTimestamp.IsZero():
				// It is not made by it any more.
			case apierrors.IsNotFound(err):
				against = "its KubeadmConfig " + name + " does not exist"
			case err != nil:
				return fmt.Errorf("reading KubeadmConfig %s: %w", name, err)
			}
		}
		s.Facts.Strangers = append(s.Facts.Strangers, plan.Stranger{Name: m.Name, Against: against})
	}
	return nil
}

// contradiction says what a Machine itself has against its adoption; empty: nothing. A
// Machine that names no version leaves it to whoever made it.
func contradiction(kcp *controlplanev1.KubeadmControlPlane, cluster string, m *clusterv1.Machine) string {
	if owner := metav1.GetControllerOf(m); owner != nil {
		text := "it is controlled by " + owner.Kind + " " + owner.Name
		if owner.Kind == kind && owner.Name == kcp.Name {
			text += ", which is another than today's (UID " + string(owner.UID) + ")"
		}
		return text
	}
	config := m.Spec.Bootstrap.ConfigRef
	switch {
	case m.Spec.ClusterName != cluster:
		return fmt.Sprintf("it belongs to cluster %q by its spec, and to %q by its label", m.Spec.ClusterName, cluster)
	case !m.DeletionTimestamp.IsZero():
		return "" // it is let go of in good order, whatever it was made of
	case !config.IsDefined():
		return "it refers to no KubeadmConfig"
	case config.Kind != "KubeadmConfig" || config.APIGroup != bootstrapv1.GroupVersion.Group:
		return fmt.Sprintf("its bootstrap configuration is %s %s of %s, no KubeadmConfig of %s", config.Kind, config.Name, config.APIGroup, bootstrapv1.GroupVersion.Group)
	}
	return tooFar(kcp.Spec.Version, m.Spec.Version)
}

// tooFar says why a machine's version cannot become the wanted one; empty: it can.
func tooFar(want, has string) string {
	if has == "" {
		return ""
	}
	to, wrong := version.Parse(want)
	if wrong != nil {
		return "spec.version of its control plane is none: " + wrong.Error()
	}
	from, err := version.Parse(has)
	switch {
	case err != nil:
		return err.Error()
	case from.Major != to.Major || from.Minor < to.Minor-1 || from.Minor > to.Minor+1:
		return fmt.Sprintf("its version is %s, more than one minor version from %s", has, want)
	}
	return ""
}

// othersMade reports whether some of the machines were made by others: each of ours has
// a number that was written down before it was made.
func othersMade(format string, last int, ours []*clusterv1.Machine) bool {
	return slices.ContainsFunc(ours, func(m *clusterv1.Machine) bool {
		n := plan.Number(format, m.Name)
		return n == 0 || n > last
	})
}

// adopt makes a Machine that nobody controls the control plane's own. The Machine is
// written last: a step that was cut short before is repeated, and does what is left.
func (r *Reconciler) adopt(ctx context.Context, s *scene, m *memory, name string) error {
	target := s.stranger(name)
	if target == nil {
		return fmt.Errorf("adopting Machine %s: it is none without an owner", name)
	}
	if err := r.remains(ctx, s.kcp); err != nil {
		return err
	}
	config := &bootstrapv1.KubeadmConfig{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: target.Namespace, Name: target.Spec.Bootstrap.ConfigRef.Name}, config)
	if apierrors.IsNotFound(err) && !target.DeletionTimestamp.IsZero() {
		return r.adoptMachine(ctx, s, m, target)
	}
	if err != nil {
		return fmt.Errorf("reading the KubeadmConfig of Machine %s: %w", name, err)
	}
	m.slow = slowFacts{}
	if err := certs.TakeOver(ctx, r.APIReader, r.Client, s.Cluster, config, controllerRef(s.kcp)); err != nil {
		return fmt.Errorf("adopting the secrets of cluster %s: %w", s.Cluster.Name, err)
	}
	// The Machine stays the controller of its KubeadmConfig; only the labels say whose both are.
	after := config.DeepCopy()
	after.Labels = s.identified(config.Labels)
	if !maps.Equal(after.Labels, config.Labels) {
		if err := r.Client.Patch(ctx, after, client.MergeFrom(config)); err != nil {
			return fmt.Errorf("adopting KubeadmConfig %s: %w", config.Name, err)
		}
	}
	return r.adoptMachine(ctx, s, m, target)
}

// adoptMachine writes into a Machine whose it is. Other owners stay.
func (r *Reconciler) adoptMachine(ctx context.Context, s *scene, m *memory, before *clusterv1.Machine) error {
	after := before.DeepCopy()
	after.Labels = s.identified(before.Labels)
	after.OwnerReferences = util.EnsureOwnerRef(after.OwnerReferences, controllerRef(s.kcp))
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	if after.DeletionTimestamp.IsZero() {
		after.Annotations[machine.Hook] = "" // its member may vote
	}
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adopting Machine %s: %w", before.Name, err)
	}
	m.writes.ExpectMachine(after)
	return nil
}

// remains makes sure that the control plane is not being deleted. The machines of one that
// was deleted without its dependents lose their owner, which a cache may show first.
func (r *Reconciler) remains(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) error {
	live := &controlplanev1.KubeadmControlPlane{}
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(kcp), live)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking whether KubeadmControlPlane %s remains: %w", kcp.Name, err)
	}
	if err != nil || live.UID != kcp.UID || !live.DeletionTimestamp.IsZero() {
		resource := schema.GroupResource{Group: controlplanev1.GroupVersion.Group, Resource: "kubeadmcontrolplanes"}
		return apierrors.NewConflict(resource, kcp.Name, errors.New("it is being deleted, and adopts nobody"))
	}
	return nil
}

// identified returns labels with those that say whose a machine is.
func (s *scene) identified(labels map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	maps.Copy(all, drift.Identity(s.kcp, s.Cluster.Name))
	return all
}

// stranger returns the control plane machine of that name that is not ours; nil if there is none.
func (s *scene) stranger(name string) *clusterv1.Machine {
	for _, m := range s.Others {
		if m.Name == name {
			return m
		}
	}
	return nil
}
