package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
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

// approve shows what waits for an approval, asks, and writes the approval. Where the spec has changed meanwhile it approves nothing.
func (a *app) approve(ctx context.Context, c client.Client, key client.ObjectKey, yes bool) error {
	plans, orders, err := Approvals(ctx, c, c.Scheme(), key)
	if err != nil {
		return err
	}
	if len(plans) == 0 {
		a.NewScreen().Printf("cluster %s waits for no approval", key.Name)
		return nil
	}
	a.NewScreen().Show(report.Plans(plans, false))
	if !yes && !a.Agrees("Approve this?") {
		return errNotApproved
	}
	return a.write(ctx, c, orders)
}

// write carries orders out, one after the other, and prints what each did.
func (a *app) write(ctx context.Context, c client.Client, orders []command.Order) error {
	for _, o := range orders {
		if err := o.Write(ctx, c); err != nil {
			return err
		}
		a.NewScreen().Printf("%s", o.Says)
	}
	return nil
}

// Approvals returns the plans of a cluster that wait for an approval, and the orders that approve them, one for each. scheme knows the
// kinds that from reads.
func Approvals(
	ctx context.Context, from client.Reader, scheme *runtime.Scheme, key client.ObjectKey,
) (plans []report.Plan, orders []command.Order, err error) {
	plans, err = facts.Plans(ctx, from, scheme, key, nil)
	if err != nil {
		return nil, nil, err
	}
	plans = slices.DeleteFunc(plans, func(p report.Plan) bool { return p.Approval == "" })
	if len(plans) == 0 {
		return nil, nil, nil
	}
	objects, err := facts.Read(ctx, from, key)
	if err != nil {
		return nil, nil, err
	}
	for _, of := range append(objects.EtcdClusters, objects.ControlPlane) {
		for _, p := range plans {
			if of == nil || facts.Title(of) != p.Group {
				continue
			}
			o := command.NewOrder(of.Kind.Type().GroupVersionKind, of.Key, "quorate-approve",
				command.Annotate(controlplanev1.ApprovedAnnotation, p.Approval))
			o.Says = fmt.Sprintf("%s: revision %s is approved", p.Group, p.Approval)
			o.Basis = "revision " + p.Approval + " waits for an approval"
			if err := o.Read(ctx, from); err != nil {
				return nil, nil, err
			}
			orders = append(orders, o)
		}
	}
	return plans, orders, nil
}
