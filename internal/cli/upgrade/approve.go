package upgrade

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
)

// ApproveCommand is `quorate approve`.
func ApproveCommand(i *command.Invocation) *cobra.Command {
	a := &app{i}
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve [NAME]",
		Short: "Show the plan of a change that waits for an approval, and approve it",
		Long: `Show what a cluster's control plane, or its etcd cluster, will do, and approve that. A control plane with
spec.approval.policy Required replaces no machine for another spec, and changes none in place, before. The approval is for the
spec as it is: another change needs another one. It ends when all machines are as wanted.`,
		Example: `  quorate approve demo
  quorate approve demo --yes     # without being asked`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.approve(cmd.Context(), c, key, yes)
		},
	}
	a.AddManagementTo(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "approve without asking")
	return cmd
}

// errNotApproved: a person was asked, and did not approve.
var errNotApproved = errors.New("nothing was approved")

// approve shows what waits for an approval, asks, and writes the approval.
func (a *app) approve(ctx context.Context, c client.Client, key client.ObjectKey, yes bool) error {
	plans, err := facts.Plans(ctx, c, c.Scheme(), key, nil)
	if err != nil {
		return err
	}
	plans = slices.DeleteFunc(plans, func(p report.Plan) bool { return p.Approval == "" })
	if len(plans) == 0 {
		a.NewScreen().Printf("cluster %s waits for no approval", key.Name)
		return nil
	}
	a.NewScreen().Show(report.Plans(plans, false))
	if !yes && !a.Agrees("Approve this?") {
		return errNotApproved
	}
	objects, err := facts.Read(ctx, c, key)
	if err != nil {
		return err
	}
	for _, of := range append(objects.EtcdClusters, objects.ControlPlane) {
		for _, p := range plans {
			if of != nil && facts.Title(of) == p.Group {
				if err := a.write(ctx, c, of, p.Approval); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// write notes the approval of a revision. Where the spec has changed meanwhile it approves nothing.
func (a *app) write(ctx context.Context, c client.Client, of *facts.Group, revision string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of.Kind.Type().GroupVersionKind)
	object.SetNamespace(of.Key.Namespace)
	object.SetName(of.Key.Name)
	change := command.Change{Object: object, Manager: "quorate-approve", Patch: map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{controlplanev1.ApprovedAnnotation: revision}},
	}}
	if err := change.Write(ctx, c); err != nil {
		return err
	}
	a.NewScreen().Printf("%s: revision %s is approved", facts.Title(of), revision)
	return nil
}
