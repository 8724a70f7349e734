// Package upgrade is `quorate upgrade`: how upgrades in place go on, and what a person does about one: hold it, let it go on, try a
// node again that failed. It begins none: that is what a control plane's version and policy are for.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
)

// app is the commands of this package.
type app struct{ *command.Invocation }

// Command is `quorate upgrade`.
func Command(i *command.Invocation) *cobra.Command {
	a := &app{i}
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Show upgrades in place, hold them, and try again what failed",
		Long: `Upgrade nodes without replacing their machines: see how that goes on, and say what is to be done where it does not.

An upgrade in place begins when a control plane with spec.inPlace.policy Preferred or Only gets another version:
'quorate up --in-place --kubernetes-version v1.37.2'. One node is upgraded at a time, the next when the control plane is healthy.`,
		Example: `  quorate upgrade status --watch
  quorate upgrade pause     # the node that has begun is finished, no other begins
  quorate upgrade resume
  quorate upgrade retry     # a node whose upgrade failed goes on from the step that failed
  quorate upgrade rollback  # the version that all machines still have is wanted again`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no %q; see %q", "quorate upgrade "+args[0], "quorate upgrade --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.statusCommand(), a.rollbackCommand())
	for _, v := range []struct {
		Verb
		short string
	}{
		{Pause, "Let no other node begin; the one that has begun is finished"},
		{Resume, "Go on with an upgrade that was paused"},
		{Retry, "Try the nodes again whose upgrade failed, from the step that failed"},
	} {
		cmd.AddCommand(a.verbCommand(v.Verb, v.short))
	}
	return cmd
}

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	var output command.Format
	cmd := &cobra.Command{
		Use:               "status [NAME]",
		Short:             "Show a cluster's upgrades in place: a line a node, with its step",
		Example:           "  quorate upgrade status demo --watch\n  quorate upgrade status -o json",
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch && output != "table" {
				return command.Usagef("--watch cannot be combined with --output %s", output)
			}
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			if watch {
				return a.watch(cmd.Context(), c, key)
			}
			upgrades, err := Read(cmd.Context(), c, key)
			if err != nil {
				return err
			}
			if output != "table" {
				return a.Data(output, upgrades)
			}
			a.NewScreen().Show(lines(key, upgrades))
			return nil
		},
	}
	a.AddManagementTo(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "redraw it until interrupted")
	output.AddTo(cmd)
	return cmd
}

func lines(key client.ObjectKey, upgrades []report.Upgrade) []screen.Line {
	if len(upgrades) == 0 {
		return []screen.Line{screen.Text("cluster " + key.Name + " has no upgrade in place; `quorate up --name " + key.Name +
			" --in-place --kubernetes-version VERSION` begins one")}
	}
	var all []screen.Line
	for _, u := range upgrades {
		all = append(all, u.Lines(time.Now())...)
	}
	return all
}

// watch redraws until ctx ends. What cannot be read now may be readable later: it is shown and tried again.
func (a *app) watch(ctx context.Context, c client.Client, key client.ObjectKey) error {
	s := a.NewScreen()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		upgrades, err := Read(ctx, c, key)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.Show([]screen.Line{{{Text: err.Error(), Colour: screen.Bad}}})
		default:
			s.Show(lines(key, upgrades))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// Verb is what a person says about the upgrades of a cluster.
type Verb string

// The verbs of `quorate upgrade` that write an annotation.
const (
	Pause  Verb = "pause"
	Resume Verb = "resume"
	Retry  Verb = "retry"
)

// owns is the manager of the fields that the commands of this package set on upgrades, and the versions that they put back.
const owns = "quorate-upgrade"

// on returns what a verb changes of an upgrade; nothing: the verb does not apply.
func (v Verb) on(namespace string, u report.Upgrade) []command.Order {
	switch v {
	case Pause:
		return pause(namespace, u)
	case Resume:
		return resume(namespace, u)
	}
	return retry(namespace, u)
}

func pause(namespace string, u report.Upgrade) []command.Order {
	if u.Paused || u.Done() == len(u.Nodes) {
		return nil
	}
	o := command.NewOrder(owner(u), client.ObjectKey{Namespace: namespace, Name: u.Name}, owns,
		command.Annotate(clusterv1.PausedAnnotation, ""))
	o.Says, o.Basis = u.Of+" is paused; a node that has begun is finished", u.Of+" to "+u.Version+" is not paused"
	return []command.Order{o}
}

func resume(namespace string, u report.Upgrade) []command.Order {
	if !u.Paused {
		return nil
	}
	o := command.NewOrder(owner(u), client.ObjectKey{Namespace: namespace, Name: u.Name}, owns, command.Remove(clusterv1.PausedAnnotation))
	o.Says, o.Basis = u.Of+" goes on", u.Of+" to "+u.Version+" is paused"
	return []command.Order{o}
}

func retry(namespace string, u report.Upgrade) []command.Order {
	var orders []command.Order
	for _, n := range u.Nodes {
		if n.Failed == "" {
			continue
		}
		o := command.NewOrder(upgradev1.GroupVersion.WithKind("NodeUpgrade"), client.ObjectKey{Namespace: namespace, Name: n.Name}, owns,
			command.Annotate(upgradev1.RetryAnnotation, ""))
		o.Says = n.Machine + " is tried again from " + n.Failed
		o.Basis = n.Machine + " failed at " + n.Failed
		if !n.Ended.IsZero() {
			o.Basis += ", " + n.Ended.UTC().Format(time.RFC3339)
		}
		orders = append(orders, o)
	}
	return orders
}

// owner is the kind that a pause is written on.
func owner(u report.Upgrade) schema.GroupVersionKind {
	kind := "ControlPlaneUpgrade"
	switch of, _, _ := strings.Cut(u.Of, " "); of {
	case "Machine":
		kind = "NodeUpgrade"
	case "MachineDeployment":
		kind = "MachineDeploymentUpgrade"
	}
	return upgradev1.GroupVersion.WithKind(kind)
}

func (a *app) verbCommand(v Verb, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:               string(v) + " [NAME]",
		Short:             short,
		Example:           "  quorate upgrade " + string(v) + " demo",
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.give(cmd.Context(), c, key, v)
		},
	}
	a.AddManagementTo(cmd)
	return cmd
}

// ErrNothing says that a cluster has no upgrade that a command applies to.
var ErrNothing = errors.New("nothing to do")

// give writes what a verb says on the objects of a cluster's upgrades.
func (a *app) give(ctx context.Context, c client.Client, key client.ObjectKey, v Verb) error {
	orders, err := v.Orders(ctx, c, key)
	if err != nil {
		return err
	}
	return a.write(ctx, c, orders)
}

// Orders returns what a verb changes of a cluster's upgrades. The error is ErrNothing if it applies to none.
func (v Verb) Orders(ctx context.Context, from client.Reader, key client.ObjectKey) ([]command.Order, error) {
	upgrades, err := Read(ctx, from, key)
	if err != nil {
		return nil, err
	}
	var orders []command.Order
	for _, u := range upgrades {
		for _, o := range v.on(key.Namespace, u) {
			if err := o.Read(ctx, from); err != nil {
				return nil, err
			}
			orders = append(orders, o)
		}
	}
	if len(orders) == 0 {
		return nil, fmt.Errorf("%w: cluster %s has no upgrade to %s; `quorate upgrade status %s` shows what there is", ErrNothing, key.Name, v,
			key.Name)
	}
	return orders, nil
}
