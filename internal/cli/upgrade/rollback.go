package upgrade

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/report"
)

func (a *app) rollbackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback [NAME]",
		Short: "Give up an upgrade that failed before any node had it",
		Long: `Give up an upgrade in place that failed, or was paused before it began: the control plane, or the MachineDeployment, gets
the version back that its machines have, and the upgrade is forgotten.

A node whose new version does not come up puts the old one back by itself. A node that has the new version keeps it, for kubeadm
does not go back: once one has it, the others follow with 'quorate upgrade retry'.`,
		Example:           "  quorate upgrade rollback demo",
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.rollback(cmd.Context(), c, key)
		},
	}
	a.AddManagementTo(cmd)
	return cmd
}

// rollback gives up all upgrades of a cluster that are not done.
func (a *app) rollback(ctx context.Context, c client.Client, key client.ObjectKey) error {
	orders, err := Rollback(ctx, c, key)
	if err != nil {
		return err
	}
	return a.write(ctx, c, orders)
}

// Rollback returns what gives up all upgrades of a cluster that are not done. It is an error unless each of them can be given up:
// ErrNothing if there is none.
func Rollback(ctx context.Context, from client.Reader, key client.ObjectKey) ([]command.Order, error) {
	upgrades, err := Read(ctx, from, key)
	if err != nil {
		return nil, err
	}
	var orders []command.Order
	for _, u := range upgrades {
		if u.Done() == len(u.Nodes) {
			continue
		}
		if err := cannotRollBack(u); err != nil {
			return nil, err
		}
		version, err := versionOf(ctx, from, key.Namespace, u)
		if err != nil {
			return nil, err
		}
		o, err := setVersion(key.Namespace, u.Of, version)
		if err != nil {
			return nil, err
		}
		o.Says = fmt.Sprintf("%s: version %s -> %s", u.Of, u.Version, version)
		o.Basis = o.Says + ": " + standing(u)
		if err := o.Read(ctx, from); err != nil {
			return nil, err
		}
		orders = append(orders, o)
	}
	if len(orders) == 0 {
		return nil, fmt.Errorf("%w: cluster %s has no upgrade to roll back; `quorate upgrade status %s` shows what there is", ErrNothing,
			key.Name, key.Name)
	}
	return orders, nil
}

// standing says how far the nodes of an upgrade are that can be given up.
func standing(u report.Upgrade) string {
	var parts []string
	for _, n := range u.Nodes {
		if n.Failed == "" {
			parts = append(parts, n.Machine+" has not begun")
		} else {
			parts = append(parts, n.Machine+" failed at "+n.Failed)
		}
	}
	return strings.Join(parts, ", ")
}

// cannotRollBack says why an upgrade can only go on; nil: no node has the new version, and none is about to get it.
func cannotRollBack(u report.Upgrade) error {
	for _, n := range u.Nodes {
		switch {
		case n.Completed || n.Changed:
			return fmt.Errorf("rolling back %s: %s has %s already, and kubeadm does not go back; `quorate upgrade retry` goes on", u.Of, n.Machine,
				u.Version)
		case n.Name != "" && n.Failed == "":
			return fmt.Errorf("rolling back %s: %s is being upgraded; it must end first; `quorate upgrade pause` keeps others from beginning", u.Of,
				n.Machine)
		}
	}
	if !u.Paused && !u.HasFailed() {
		return fmt.Errorf("rolling back %s: its next node may begin at any moment; `quorate upgrade pause` comes first", u.Of)
	}
	return nil
}

// versionOf is the version that the machines of an upgrade have.
func versionOf(ctx context.Context, c client.Reader, namespace string, u report.Upgrade) (string, error) {
	version := ""
	for _, n := range u.Nodes {
		m := &clusterv1.Machine{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: n.Machine}, m); err != nil {
			return "", fmt.Errorf("reading Machine %s: %w", n.Machine, err)
		}
		switch had := m.Spec.Version; {
		case had == u.Version:
			return "", fmt.Errorf(
				"rolling back %s: %s has %s, so it is not the version that is to change: put back in the spec what was changed there", u.Of, n.Machine,
				had)
		case version != "" && had != version:
			return "", fmt.Errorf("rolling back %s: its machines have %s and %s: say in the spec which one they are to have", u.Of, version, had)
		default:
			version = had
		}
	}
	return version, nil
}

// setVersion returns the order that sets the version that an object, given as its kind and name, wants.
func setVersion(namespace, of, version string) (command.Order, error) {
	kind, name, _ := strings.Cut(of, " ")
	spec := map[string]any{"version": version}
	var group schema.GroupVersion
	switch kind {
	case "KubeadmControlPlane":
		group = controlplanev1.GroupVersion
	case "ControlPlane":
		group = controlplanev1alpha1.GroupVersion
	case "MachineDeployment":
		group = clusterv1.GroupVersion
		spec = map[string]any{"template": map[string]any{"spec": spec}}
	default:
		return command.Order{}, fmt.Errorf("rolling back %s: nothing else upgrades it; delete its NodeUpgrade with kubectl", of)
	}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	return command.NewOrder(group.WithKind(kind), key, owns, map[string]any{"spec": spec}), nil
}
