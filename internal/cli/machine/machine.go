// Package machine is what is done with one machine of this host: `quorate machine`, `quorate logs` and `quorate shell`.
package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/replace"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// app is the commands of this package.
type app struct{ *command.Invocation }

// Commands are `quorate logs`, `quorate machine` and `quorate shell`, and `quorate replace`.
func Commands(i *command.Invocation) []*cobra.Command {
	a := &app{i}
	return []*cobra.Command{a.logsCommand(), a.machineCommand(), a.shellCommand(), replace.Command(i)}
}

func (a *app) machineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "List this host's machines, and put faults into them",
		Long: `List the machines of this host, stop and start them, and put other faults into them, to see what Quorate makes of it.
The verbs act on the machine itself, as pulling a plug does: the management plane is not told, it finds out.`,
		Example: `  quorate machine list
  quorate machine stop demo-cp-2
  quorate machine partition demo-cp-3
  quorate machine kill-component demo-cp-1 etcd`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no %q; see %q", "quorate machine "+args[0], "quorate machine --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.machineListCommand(), a.killComponentCommand())
	for _, v := range []machineVerb{
		{"stop", "stopped", "Power machines off, as pulling the plug does; their disks stay", (*sandbox.Host).Stop},
		{"start", "started", "Power machines on again", (*sandbox.Host).Start},
		{"pause", "paused", "Freeze all processes of machines", (*sandbox.Host).Pause},
		{"resume", "resumed", "Let paused machines go on", (*sandbox.Host).Resume},
		{"partition", "cut off", "Cut the network link of machines", (*sandbox.Host).Partition},
		{"heal", "connected", "Mend the network link of machines", (*sandbox.Host).Heal},
	} {
		cmd.AddCommand(a.machineVerbCommand(v))
	}
	return cmd
}

type machineVerb struct {
	name, done, short string
	do                func(*sandbox.Host, context.Context, string) error
}

func (a *app) machineVerbCommand(v machineVerb) *cobra.Command {
	return &cobra.Command{
		Use:               v.name + " MACHINE...",
		Short:             v.short,
		Example:           "  quorate machine " + v.name + " demo-cp-2",
		Args:              command.LeastArguments(1, "MACHINE"),
		ValidArgsFunction: a.Complete(0, a.MachineNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.findMachines(args)
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := v.do(h, cmd.Context(), name); err != nil {
					return fmt.Errorf("%s %s: %w", v.name, name, err)
				}
				a.NewScreen().Printf("%s %s", name, v.done)
			}
			return nil
		},
	}
}

func (a *app) killComponentCommand() *cobra.Command {
	names := strings.Join(sandbox.Components(), ", ")
	return &cobra.Command{
		Use:     "kill-component MACHINE COMPONENT",
		Short:   "Kill a component's process in a machine (SIGKILL); who watches over it starts it again",
		Long:    "Kill the processes of a component in a machine. Components: " + names + ".",
		Example: "  quorate machine kill-component demo-cp-1 kube-apiserver",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("expected MACHINE and COMPONENT, got %d arguments; see %q", len(args), cmd.CommandPath()+" --help")
			}
			if !slices.Contains(sandbox.Components(), args[1]) {
				return fmt.Errorf("invalid COMPONENT %q: must be %s", args[1], names)
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return sandbox.Components(), cobra.ShellCompDirectiveNoFileComp
			}
			return a.Complete(1, a.MachineNames)(cmd, args, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.findMachines(args[:1])
			if err != nil {
				return err
			}
			if err := h.KillComponent(cmd.Context(), args[0], args[1]); err != nil {
				return fmt.Errorf("killing %s in %s: %w", args[1], args[0], err)
			}
			a.NewScreen().Printf("%s of %s killed", args[1], args[0])
			return nil
		},
	}
}

// findMachines opens the host and makes sure that all machines exist, so that nothing is done when one does not.
func (a *app) findMachines(names []string) (*sandbox.Host, error) {
	if err := command.NeedRoot(); err != nil {
		return nil, err
	}
	h, err := a.Machines()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := h.Get(name); err != nil {
			return nil, a.noMachine(h, name, err)
		}
	}
	return h, nil
}

// noMachine makes an error that names the machines there are.
func (a *app) noMachine(h *sandbox.Host, name string, err error) error {
	if !errors.Is(err, sandbox.ErrNotFound) {
		return fmt.Errorf("looking at machine %s: %w", name, err)
	}
	list, err := h.List()
	if err != nil {
		return fmt.Errorf("listing machines: %w", err)
	}
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	if len(names) == 0 {
		return command.Usagef("there is no machine %q, nor any other; `quorate up` makes them", name)
	}
	return command.Usagef("there is no machine %q; there is %s", name, strings.Join(names, ", "))
}

func (a *app) machineListCommand() *cobra.Command {
	var output command.Format
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the machines of this host",
		Example: `  quorate machine list
  quorate machine list -o json`,
		Args: command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			h, err := a.Machines()
			if err != nil {
				return err
			}
			list, err := h.List()
			if err != nil {
				return fmt.Errorf("listing machines: %w", err)
			}
			if output != "table" {
				return a.Data(output, list)
			}
			a.NewScreen().Show(machineTable(list))
			return nil
		},
	}
	output.AddTo(cmd)
	return cmd
}

func machineTable(list []sandbox.Status) []screen.Line {
	if len(list) == 0 {
		return []screen.Line{screen.Text("there is no machine; `quorate up` makes some")}
	}
	var rows [][]screen.Span
	header := []screen.Span{}
	limited := slices.ContainsFunc(list, func(m sandbox.Status) bool { return m.Resources != sandbox.Resources{} })
	for _, h := range []string{"NAME", "CLUSTER", "DOMAIN", "ADDRESS", "KUBERNETES", "STATE", "BOOTSTRAP", "LIMITS"} {
		if h == "LIMITS" && !limited {
			continue
		}
		header = append(header, screen.Span{Text: h, Colour: screen.Strong})
	}
	rows = append(rows, header)
	for _, m := range list {
		row := []screen.Span{
			{Text: m.Name}, {Text: dash(m.Cluster)}, {Text: dash(m.FailureDomain)}, {Text: m.Addresses()[0].String()},
			{Text: dash(m.Artifacts.Kubernetes)}, machineState(m), {Text: dash(m.Bootstrap.Phase)},
		}
		if limited {
			row = append(row, screen.Span{Text: dash(limits(m.Resources))})
		}
		rows = append(rows, row)
	}
	return screen.Columns(rows)
}

// limits are what a machine may use of the host; empty: everything.
func limits(r sandbox.Resources) string {
	var parts []string
	if r.MilliCPU > 0 {
		parts = append(parts, "cpu "+resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI).String())
	}
	if r.Memory > 0 {
		parts = append(parts, "memory "+resource.NewQuantity(r.Memory, resource.BinarySI).String())
	}
	return strings.Join(parts, ", ")
}

func machineState(m sandbox.Status) screen.Span {
	s := screen.Span{Text: string(m.State), Colour: screen.Doubt}
	switch {
	case m.Partitioned:
		s.Text += ", cut off"
	case m.State == sandbox.Running && !m.Ready:
		s.Text += ", not ready"
	case m.State == sandbox.Running:
		s.Colour = screen.Good
	}
	if m.State == sandbox.Dead {
		s.Colour = screen.Bad
	}
	if m.Problem != "" {
		s.Text += ": " + m.Problem
	}
	return s
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
