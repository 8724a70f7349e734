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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	for _, v := range []verb{
		{"pause", "Let no other node begin; the one that has begun is finished", pause},
		{"resume", "Go on with an upgrade that was paused", resume},
		{"retry", "Try the nodes again whose upgrade failed, from the step that failed", retry},
	} {
		cmd.AddCommand(a.verbCommand(v))
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
			upgrades, err := read(cmd.Context(), c, key)
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
		upgrades, err := read(ctx, c, key)
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

// verb is what a person says about the upgrades of a cluster.
type verb struct {
	name, short string
	// on says which object is told, by which annotation, and what becomes of it. No object: there is nothing of the kind.
	on func(report.Upgrade) []order
}

// order is an annotation for one object.
type order struct {
	object client.Object
	name   string
	key    string
	// set: the annotation is put on; otherwise it is taken away.
	set  bool
	says string
}

func pause(u report.Upgrade) []order {
	if u.Paused || u.Done() == len(u.Nodes) {
		return nil
	}
	return []order{{owner(u), u.Name, clusterv1.PausedAnnotation, true, u.Of + " is paused; a node that has begun is finished"}}
}

func resume(u report.Upgrade) []order {
	if !u.Paused {
		return nil
	}
	return []order{{owner(u), u.Name, clusterv1.PausedAnnotation, false, u.Of + " goes on"}}
}

func retry(u report.Upgrade) []order {
	var orders []order
	for _, n := range u.Nodes {
		if n.Failed != "" {
			orders = append(orders, order{&upgradev1.NodeUpgrade{}, n.Name, upgradev1.RetryAnnotation, true, n.Machine + " is tried again from " +
				n.Failed})
		}
	}
	return orders
}

// owner is an empty object of the kind that a pause is written on.
func owner(u report.Upgrade) client.Object {
	switch kind, _, _ := strings.Cut(u.Of, " "); kind {
	case "Machine":
		return &upgradev1.NodeUpgrade{}
	case "MachineDeployment":
		return &upgradev1.MachineDeploymentUpgrade{}
	}
	return &upgradev1.ControlPlaneUpgrade{}
}

func (a *app) verbCommand(v verb) *cobra.Command {
	return &cobra.Command{
		Use:               v.name + " [NAME]",
		Short:             v.short,
		Example:           "  quorate upgrade " + v.name + " demo",
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
}

var errNothing = errors.New("nothing to do")

// give writes what a verb says on the objects of a cluster's upgrades.
func (a *app) give(ctx context.Context, c client.Client, key client.ObjectKey, v verb) error {
	upgrades, err := read(ctx, c, key)
	if err != nil {
		return err
	}
	given := 0
	for _, u := range upgrades {
		for _, o := range v.on(u) {
			if err := o.write(ctx, c, key.Namespace); err != nil {
				return err
			}
			a.NewScreen().Printf("%s", o.says)
			given++
		}
	}
	if given == 0 {
		return fmt.Errorf("%w: cluster %s has no upgrade to %s; `quorate upgrade status %s` shows what there is", errNothing, key.Name, v.name,
			key.Name)
	}
	return nil
}

func (o order) write(ctx context.Context, c client.Client, namespace string) error {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", o.object), "*v1alpha1.")
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.name}, o.object); err != nil {
		return fmt.Errorf("reading %s %s: %w", kind, o.name, err)
	}
	before := o.object.DeepCopyObject().(client.Object)
	annotations := o.object.GetAnnotations()
	if o.set {
		meta := metav1.ObjectMeta{Annotations: annotations}
		metav1.SetMetaDataAnnotation(&meta, o.key, "")
		annotations = meta.Annotations
	} else {
		delete(annotations, o.key)
	}
	o.object.SetAnnotations(annotations)
	if err := c.Patch(ctx, o.object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotating %s %s: %w", kind, o.name, err)
	}
	return nil
}
