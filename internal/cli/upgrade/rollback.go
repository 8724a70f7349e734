package upgrade

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/report"
)

func (a *app) rollbackCommand() *cobra.Command {
	return &cobra.Command{
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
}

// rollback gives up all upgrades of a cluster that are not done. Nothing is written unless each of them can be given up.
func (a *app) rollback(ctx context.Context, c client.Client, key client.ObjectKey) error {
	upgrades, err := read(ctx, c, key)
	if err != nil {
		return err
	}
	var back []func() error
	for _, u := range upgrades {
		if u.Done() == len(u.Nodes) {
			continue
		}
		if err := cannotRollBack(u); err != nil {
			return err
		}
		version, err := versionOf(ctx, c, key.Namespace, u)
		if err != nil {
			return err
		}
		back = append(back, func() error {
			if err := setVersion(ctx, c, key.Namespace, u.Of, version); err != nil {
				return err
			}
			a.NewScreen().Printf("%s: version %s -> %s", u.Of, u.Version, version)
			return nil
		})
	}
	if len(back) == 0 {
		return fmt.Errorf("%w: cluster %s has no upgrade to roll back; `quorate upgrade status %s` shows what there is", errNothing, key.Name,
			key.Name)
	}
	for _, write := range back {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
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

// setVersion writes the version that an object, given as its kind and name, wants.
func setVersion(ctx context.Context, c client.Client, namespace, of, version string) error {
	kind, name, _ := strings.Cut(of, " ")
	var object client.Object
	var field *string
	switch kind {
	case "KubeadmControlPlane":
		kcp := &controlplanev1.KubeadmControlPlane{}
		object, field = kcp, &kcp.Spec.Version
	case "ControlPlane":
		cp := &controlplanev1alpha1.ControlPlane{}
		object, field = cp, &cp.Spec.Version
	case "MachineDeployment":
		md := &clusterv1.MachineDeployment{}
		object, field = md, &md.Spec.Template.Spec.Version
	default:
		return fmt.Errorf("rolling back %s: nothing else upgrades it; delete its NodeUpgrade with kubectl", of)
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return fmt.Errorf("reading %s: %w", of, err)
	}
	before := object.DeepCopyObject().(client.Object)
	*field = version
	if err := c.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing the version of %s: %w", of, err)
	}
	return nil
}
