// Package replace is `quorate replace`: one machine is replaced as an outdated one would be. The controllers of the management cluster do
// that; here the plan is shown, the machine is named in an annotation, and the replacement is followed.
package replace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// app is the command of this package.
type app struct{ *command.Invocation }

// flags are those of `quorate replace`.
type flags struct {
	yes, noWait bool
	timeout     time.Duration
}

// Command is `quorate replace`.
func Command(i *command.Invocation) *cobra.Command {
	a, f := &app{i}, flags{}
	cmd := &cobra.Command{
		Use:   "replace MACHINE",
		Short: "Replace one machine of a control plane or an etcd cluster, a new one first",
		Long: `Show what the replacement of a machine of a control plane, or of an etcd cluster, will do, ask, and name the Machine in the
annotation ` + controlplanev1.ReplaceAnnotation + ` of the control plane or EtcdCluster. Then the machine is
replaced as an outdated one would be: all rules of a rollout hold, approvals and windows among them. With maxSurge 1, the
default, the new machine comes first.

The command can be ended: the replacement goes on by itself.`,
		Example: `  quorate replace demo-cp-2
  quorate replace demo-cp-2 --yes       # without being asked
  quorate replace prod/demo-cp-2        # where two namespaces have a Machine of that name`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usagef("MACHINE is missing; see %q", cmd.CommandPath()+" --help")
			}
			return command.OneArgumentAtMost(cmd, args)
		},
		ValidArgsFunction: a.Complete(1, a.MachineNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.timeout <= 0 {
				return command.Usagef("invalid --timeout %q: must be greater than 0", f.timeout)
			}
			c, err := a.Management()
			if err != nil {
				return err
			}
			return a.replace(cmd.Context(), c, args[0], f)
		},
	}
	a.AddManagementTo(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "go on without asking")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "end when the replacement is asked for")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Hour, "how long to follow the replacement")
	return cmd
}

// errNotReplaced: a person was asked, and did not agree.
var errNotReplaced = errors.New("nothing was changed")

// replace shows what will happen, asks, writes the annotation and follows.
func (a *app) replace(ctx context.Context, c client.Client, name string, f flags) error {
	t, err := find(ctx, c, name)
	if err != nil {
		return err
	}
	if err := t.check(); err != nil {
		return err
	}
	p, err := t.asking().Plan(ctx, a.Invocation, c, t.cluster, t.object)
	if err != nil {
		return err
	}
	s := a.NewScreen()
	s.Show(report.Plans([]report.Plan{p}, false))
	if !replaces(p, t.machine.Name) {
		s.Printf("\n%s is not replaced while that is so", t.machine.Name)
	}
	if !f.yes && !a.Agrees("Replace "+t.machine.Name+"?") {
		return errNotReplaced
	}
	if err := t.asking().Write(ctx, c); err != nil {
		return err
	}
	if f.noWait {
		s.Printf("%s: the replacement of %s is asked for; see quorate status %s", facts.Title(t.of), t.machine.Name, t.cluster.Name)
		return nil
	}
	late := fmt.Errorf("%s was not replaced within --timeout %s; the replacement goes on, and quorate explain %s says what it waits for",
		t.machine.Name, f.timeout, t.cluster.Name)
	return command.Within(ctx, f.timeout, late, func(ctx context.Context) error { return a.follow(ctx, c, t) })
}

// Plan forecasts what the replacement of a machine of a cluster does, as the command shows it. Nothing is written.
func Plan(ctx context.Context, i *command.Invocation, c client.Client, cluster client.ObjectKey, name string) (report.Plan, error) {
	t, err := find(ctx, c, cluster.Namespace+"/"+name)
	if err != nil {
		return report.Plan{}, err
	}
	if t.cluster != cluster {
		return report.Plan{}, command.Usagef("Machine %s is one of cluster %s", name, t.cluster.Name)
	}
	if err := t.check(); err != nil {
		return report.Plan{}, err
	}
	return t.asking().Plan(ctx, i, c, t.cluster, t.object)
}

// replaces reports whether a machine is replaced, by a plan.
func replaces(p report.Plan, name string) bool {
	return slices.ContainsFunc(p.Machines, func(m forecast.Machine) bool { return m.Name == name && m.Fate == forecast.Replace })
}

// manager owns the annotation that the command writes.
const manager = "quorate-replace"

// asking is the annotation that names the machine, beside those that it names already.
func (t *target) asking() command.Annotation {
	return command.Annotation{Of: t.of, Name: controlplanev1.ReplaceAnnotation, Manager: manager, Value: func(now string) (string, error) {
		return observe.AskFor(now, t.machine, t.names)
	}}
}

// every is how often is asked how far the replacement is.
const every = 500 * time.Millisecond

// follow tells what the group does until the machine is gone and the group is as wanted.
func (a *app) follow(ctx context.Context, c client.Client, t *target) error {
	began, said, s := time.Now(), "", a.NewScreen()
	after := func() time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
	for {
		gone, err := t.gone(ctx, c)
		if err != nil {
			return err
		}
		p := t.of.Kind.Status(t.object).Plan
		if p.Message != said {
			said = p.Message
			s.Printf("%8s  %s", after(), said)
			if p.Reason == "ApprovalRequired" {
				s.Printf("%8s  approve it with: quorate approve %s", "", t.cluster.Name)
			}
		}
		switch {
		case gone && p.Step == string(plan.Nothing):
			s.Printf("%s was replaced after %s", t.machine.Name, after())
			return nil
		case !gone && !t.isAsked():
			return fmt.Errorf("the annotation %s of %s does not name %s any more: if another tool keeps it, name the Machine there",
				controlplanev1.ReplaceAnnotation, facts.Title(t.of), t.machine.Name)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

// gone reads the group again, and reports whether the machine is not there any more.
func (t *target) gone(ctx context.Context, c client.Client) (bool, error) {
	now := &clusterv1.Machine{}
	err := c.Get(ctx, client.ObjectKeyFromObject(t.machine), now)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Machine %s: %w", t.machine.Name, err)
	}
	object := t.of.Kind.New() // after the Machine: it is not at rest from before
	if err := c.Get(ctx, t.of.Key, object); err != nil {
		return false, fmt.Errorf("reading %s: %w", facts.Title(t.of), err)
	}
	t.object = object
	return err != nil || now.UID != t.machine.UID, nil
}

// isAsked reports whether the annotation names the machine.
func (t *target) isAsked() bool {
	all, _ := machine.ParseAsked(t.object.GetAnnotations()[controlplanev1.ReplaceAnnotation]) // what cannot be read names none
	for _, r := range all {
		if r.Machine == t.machine.Name {
			return true
		}
	}
	return false
}
