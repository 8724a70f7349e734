package etcdcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kubeadmconfigs,verbs=get;list;watch

// notFollowed is the reason to keep the last member that a machine of the control plane knows.
const notFollowed = "EndpointsNotFollowed"

// waitForFollowers refuses to take away the last member at whose address a machine of the control plane looks for etcd. By then the
// addresses of those that stay are handed over, and the control plane replaces that machine. A member that fails is replaced all the same.
func waitForFollowers(ctx context.Context, t *observe.Observer) error {
	if t.Facts.Group.Deleting || !takesNext(t.View) {
		return nil
	}
	users, err := users(ctx, t)
	if err != nil {
		return err
	}
	for _, u := range users {
		if last := lastKnown(t.View, u.endpoints); last != nil && mayGo(t.View, last) {
			t.Refuse(plan.Refusal{Reason: notFollowed, Replaceable: true, Message: fmt.Sprintf(
				"machine %s of the control plane looks for etcd at %s, where only %s is left: that stays until the control plane has replaced its "+
					"machine",
				u.machine, strings.Join(u.endpoints, ", "), last.Name)})
			return nil
		}
	}
	return nil
}

// takesNext reports whether the next machine that a rollout or a scaling is about goes, and is not made.
func takesNext(t *observe.View) bool {
	staying := 0
	for _, m := range t.Machines {
		if m.DeletionTimestamp.IsZero() {
			staying++
		}
	}
	if surge(of(t)) == 0 {
		staying++
	}
	return staying > t.Facts.Want.Replicas
}

// user is a machine of the control plane, and the URLs at which it looks for etcd.
type user struct {
	machine   string
	endpoints []string
}

// users are the machines of the control plane that kubeadm made with an external etcd, by name. Of others nothing is known.
func users(ctx context.Context, t *observe.Observer) ([]user, error) {
	list := &clusterv1.MachineList{}
	if err := t.Cache.List(ctx, list, client.InNamespace(t.Object.GetNamespace()), machine.Labels(t.Cluster.Name)); err != nil {
		return nil, fmt.Errorf("listing the machines of the control plane of cluster %s: %w", t.Cluster.Name, err)
	}
	var all []user
	for i := range list.Items {
		m := &list.Items[i]
		if ref := m.Spec.Bootstrap.ConfigRef; ref.Kind != "KubeadmConfig" || ref.APIGroup != bootstrapv1.GroupVersion.Group {
			continue
		}
		config := &bootstrapv1.KubeadmConfig{}
		err := t.Cache.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Bootstrap.ConfigRef.Name}, config)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the KubeadmConfig of Machine %s: %w", m.Name, err)
		}
		if endpoints := config.Spec.ClusterConfiguration.Etcd.External.Endpoints; len(endpoints) > 0 {
			all = append(all, user{m.Name, endpoints})
		}
	}
	slices.SortFunc(all, func(a, b user) int { return strings.Compare(a.machine, b.machine) })
	return all, nil
}

// lastKnown is the only machine left that is reached at one of these URLs; nil: there are others, an endpoint for all members is among
// them, or none is left.
func lastKnown(t *observe.View, endpoints []string) *observe.Machine {
	if slices.ContainsFunc(staticEndpoints(t), func(url string) bool { return slices.Contains(endpoints, url) }) {
		return nil
	}
	var last *observe.Machine
	for _, m := range t.Machines {
		if !m.DeletionTimestamp.IsZero() || !slices.Contains(endpoints, memberURL(m)) {
			continue
		}
		if last != nil {
			return nil
		}
		last = m
	}
	return last
}

// mayGo reports whether a machine may be the next to go: it is outdated, or none is.
func mayGo(t *observe.View, m *observe.Machine) bool {
	return m.Facts.Outdated != "" || !slices.ContainsFunc(t.Machines, func(other *observe.Machine) bool { return other.Facts.Outdated != "" })
}
