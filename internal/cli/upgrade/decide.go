package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// decideFlags are the flags of `quorate decide`.
type decideFlags struct {
	yes    bool
	output command.Format
}

// DecideCommand is `quorate decide`.
func DecideCommand(i *command.Invocation) *cobra.Command {
	a := &app{i}
	var f decideFlags
	cmd := &cobra.Command{
		Use:   "decide [NAME] [CHOICE [TARGET...]]",
		Short: "Show what waits for a person, and decide it",
		Long: `Show what only a person can decide about a cluster's control plane, or its etcd cluster, and decide it. Without CHOICE all
choices are shown, each with what Quorate will do. With CHOICE the effect is shown, you are asked, and the decision is written on the
control plane. It counts for the facts that were shown: when members or machines change before it is done, it is void, and Quorate takes
it away. You need the verb approve on the control plane.

Choices:
` + choicesText(),
		Example: `  quorate decide demo                               # what waits, and the choices
  quorate decide demo remove-voter demo-cp-2        # an etcd member that has no machine
  quorate decide demo remove-voter demo-cp-2 --yes  # without being asked
  quorate decide demo forget-machine demo-cp-2      # a machine that is being deleted, and never goes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 && !slices.Contains(plan.ChoiceKinds(), plan.ChoiceKind(args[1])) {
				return command.Usagef("invalid CHOICE %q: must be %s", args[1], kindsText())
			}
			return nil
		},
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, key, err := a.Cluster(cmd.Context(), args[:min(1, len(args))])
			if err != nil {
				return err
			}
			if len(args) < 2 {
				return a.listDecisions(cmd.Context(), c, key, f.output)
			}
			return a.decide(cmd.Context(), c, key, plan.ChoiceKind(args[1]), args[2:], f)
		},
	}
	a.AddManagementTo(cmd)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "decide without asking")
	f.output.AddTo(cmd)
	return cmd
}

// choicesText says what each choice is for, a line each.
func choicesText() string {
	var lines []string
	for _, k := range plan.ChoiceKinds() {
		lines = append(lines, fmt.Sprintf("  %-16s %s", k, k.Says()))
	}
	return strings.Join(lines, "\n")
}

// kindsText lists the choices.
func kindsText() string {
	var names []string
	for _, k := range plan.ChoiceKinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// listDecisions shows what can be decided.
func (a *app) listDecisions(ctx context.Context, c client.Client, key client.ObjectKey, as command.Format) error {
	found, err := facts.Decisions(ctx, c, key)
	if err != nil {
		return err
	}
	all := make([]report.Decisions, len(found))
	for i, d := range found {
		all[i] = d.Decisions
	}
	if as != "table" {
		return a.Data(as, all)
	}
	for _, d := range all {
		a.NewScreen().Show(d.Table())
	}
	return nil
}

// errNotDecided: a person was asked, and did not agree.
var errNotDecided = errors.New("nothing was decided")

// decide shows what a choice does, asks, and writes it down.
func (a *app) decide(
	ctx context.Context, c client.Client, key client.ObjectKey, kind plan.ChoiceKind, targets []string, f decideFlags,
) error {
	found, err := facts.Decisions(ctx, c, key)
	if err != nil {
		return err
	}
	chosen, err := choose(found, kind, targets)
	if err != nil {
		return err
	}
	for _, d := range chosen {
		for _, o := range d.Offers {
			a.NewScreen().Show(report.Offer(key.Name, o))
		}
	}
	if !f.yes && !a.Agrees("Decide this?") {
		return errNotDecided
	}
	for _, d := range chosen {
		if err := a.writeDecisions(ctx, c, d); err != nil {
			return err
		}
	}
	return nil
}

// choose finds what is offered for targets, by name or ID; without targets the only offer of that kind.
func choose(found []facts.Decidable, kind plan.ChoiceKind, targets []string) ([]facts.Decidable, error) {
	var offered, names []string
	missing := map[string]bool{}
	for _, t := range targets {
		missing[t] = true
	}
	var chosen []facts.Decidable
	for _, d := range found {
		of := d
		of.Offers = slices.DeleteFunc(slices.Clone(d.Offers), func(o plan.Offer) bool { return o.Choice.Kind != kind })
		for _, o := range of.Offers {
			offered = append(offered, o.Name)
		}
		if len(targets) > 0 {
			of.Offers = slices.DeleteFunc(of.Offers, func(o plan.Offer) bool { return !missing[o.Name] && !missing[o.Choice.Target] })
		}
		for _, o := range of.Offers {
			names = append(names, o.Name, o.Choice.Target)
		}
		if len(of.Offers) > 0 {
			chosen = append(chosen, of)
		}
	}
	return chosen, checkTargets(kind, targets, offered, names)
}

// checkTargets returns an error unless what is offered is chosen by its targets. names are those of what was chosen.
func checkTargets(kind plan.ChoiceKind, targets, offered, names []string) error {
	switch {
	case len(offered) == 0:
		return command.Usagef("nothing waits for %s; quorate decide NAME shows what waits", kind)
	case len(targets) == 0 && len(offered) > 1:
		return command.Usagef("TARGET is missing: must be %s", strings.Join(offered, ", "))
	}
	for _, t := range targets {
		if !slices.Contains(names, t) {
			return command.Usagef("invalid TARGET %q: must be %s", t, strings.Join(offered, ", "))
		}
	}
	return nil
}

// writeDecisions writes decisions about a group on its object. Where the facts have changed meanwhile they count for nothing.
func (a *app) writeDecisions(ctx context.Context, c client.Client, d facts.Decidable) error {
	annotations := map[string]any{}
	for _, o := range d.Offers {
		name, value := observe.DecisionAnnotation(o)
		annotations[name] = value
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(d.Of.Kind.Type().GroupVersionKind)
	object.SetNamespace(d.Of.Key.Namespace)
	object.SetName(d.Of.Key.Name)
	change := command.Change{Object: object, Manager: "quorate-decide", Patch: map[string]any{
		"metadata": map[string]any{"annotations": annotations},
	}}
	if err := change.Write(ctx, c); err != nil {
		return err
	}
	for _, o := range d.Offers {
		a.NewScreen().Printf("%s: %s %s is decided", d.Group, o.Choice.Kind, o.Name)
	}
	return nil
}
