package report

import (
	"strings"

	"github.com/quorate/quorate/internal/core/plan"
)

// Facts are what is known of one machine's way to being ready. Each text is empty when nothing is to be said.
type Facts struct {
	// Leaving says what a machine that is being deleted waits for.
	Deleting bool
	Leaving  string
	// Failure is what ended its bootstrap.
	Failure string
	// Infrastructure: its infrastructure is provisioned; else, why not.
	Infrastructure    bool
	InfrastructureWhy string
	// Data: its bootstrap data is there; else, why not.
	Data    bool
	DataWhy string
	// Bootstrap: its bootstrap data was executed to the end; else, what it is at.
	Bootstrap    bool
	BootstrapWhy string
	// Running: the machine itself runs; else, why not. It matters once the machine was bootstrapped.
	Running    bool
	RunningWhy string
	// Node: its Node is registered; NodeReady: and Ready; else, why not.
	Node      bool
	NodeReady bool
	NodeWhy   string
	// Components are the static pods that it should run.
	Components []plan.Component
}

// Waiting says what a machine waits for, and whether it will wait for ever. Nothing: it is as wanted.
func Waiting(f Facts) (waiting string, failed bool) {
	switch {
	case f.Deleting:
		return either(f.Leaving, "its turn to go"), false
	case f.Failure != "":
		return oneLine(f.Failure), true
	}
	return firstMissing(f), false
}

// firstMissing names the first thing that a machine lacks on its way to being ready; empty when there is none.
func firstMissing(f Facts) string {
	switch {
	case !f.Infrastructure:
		return because("the machine to be made", f.InfrastructureWhy)
	case !f.Data:
		return because("bootstrap data", f.DataWhy)
	case !f.Running:
		return because("the machine to run", f.RunningWhy)
	case !f.Bootstrap:
		return because("kubeadm", f.BootstrapWhy)
	case !f.Node:
		return "its Node to be registered"
	}
	if w := waitingForComponents(f.Components); w != "" {
		return w
	}
	if !f.NodeReady {
		return because("its Node to be Ready", f.NodeWhy)
	}
	return ""
}

// waitingForComponents names what is not healthy; those with the same reason share it.
func waitingForComponents(components []plan.Component) string {
	var reasons []string
	names := map[string][]string{}
	for _, c := range components {
		if c.Health == plan.Healthy {
			continue
		}
		why := oneLine(c.Why)
		if _, known := names[why]; !known {
			reasons = append(reasons, why)
		}
		names[why] = append(names[why], c.Name)
	}
	parts := make([]string, 0, len(reasons))
	for _, why := range reasons {
		part := strings.Join(names[why], ", ")
		if why != "" {
			part += " (" + why + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + oneLine(why)
}

func either(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return oneLine(s)
}

// oneLine keeps a message to a line; conditions and outputs may have many.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
