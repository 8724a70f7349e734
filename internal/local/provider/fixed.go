package provider

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// addressesProblem is why a machine cannot have one of the addresses that its spec names; nil: it can.
func addressesProblem(network netip.Prefix, names []string) *problem {
	first, _ := at(network, firstMachine)
	last, _ := at(network, lastMachine(network))
	for i, name := range names {
		a, err := netip.ParseAddr(name)
		if err == nil && a.Is4() && !a.Less(first) && !last.Less(a) {
			continue
		}
		return &problem{infrav1.SpecInvalidReason, fmt.Sprintf(
			"spec.addresses[%d] is %s; want an address for machines of this environment, from %s to %s", i, name, first, last)}
	}
	return nil
}

// parsed are the addresses that a spec names; others than addresses are left out, addressesProblem tells of them.
func parsed(names []string) []netip.Addr {
	var all []netip.Addr
	for _, name := range names {
		if a, err := netip.ParseAddr(name); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// freeFixed is the first of some addresses that no other has. When all of them are taken, the error names who has them.
func freeFixed(fixed []netip.Addr, me string, taken []claim) (netip.Addr, error) {
	var has []string
	for _, a := range fixed {
		at := slices.IndexFunc(taken, func(c claim) bool { return c.address == a && c.holder != me })
		if at < 0 {
			return a, nil
		}
		has = append(has, fmt.Sprintf("%s is that of %s", a, taken[at].holder))
	}
	return netip.Addr{}, fmt.Errorf("no address of spec.addresses is free: %s; one more, or the end of one of these, is needed",
		strings.Join(has, ", "))
}

// reserved are the addresses that LocalMachines and their templates name.
func (r *machineReconciler) reserved(ctx context.Context) (map[netip.Addr]bool, error) {
	var machines infrav1.LocalMachineList
	if err := r.client.List(ctx, &machines); err != nil {
		return nil, fmt.Errorf("listing LocalMachines: %w", err)
	}
	var templates infrav1.LocalMachineTemplateList
	if err := r.client.List(ctx, &templates); err != nil {
		return nil, fmt.Errorf("listing LocalMachineTemplates: %w", err)
	}
	all := map[netip.Addr]bool{}
	note := func(names []string) {
		for _, a := range parsed(names) {
			all[a] = true
		}
	}
	for i := range machines.Items {
		note(machines.Items[i].Spec.Addresses)
	}
	for i := range templates.Items {
		note(templates.Items[i].Spec.Template.Spec.Addresses)
	}
	return all, nil
}
