// Package act reads what can be done to a cluster from a page, asks whether the user may, and does it by the orders of the commands. It has
// the client and the rights of the user. It draws nothing, and trusts no page: it reads and asks again before it writes.
package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/backups"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/dashboard/actions"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/replace"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/upgrade"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// Actor does what a user asks for on a page.
type Actor struct {
	client client.Client
	// invocation is the command's: it knows whose management cluster the client is of.
	invocation *command.Invocation
	// flags name the management cluster for commands that are shown.
	flags string
}

// New returns an Actor with the rights of the client.
func New(c client.Client, i *command.Invocation, flags string) *Actor {
	return &Actor{client: c, invocation: i, flags: flags}
}

// errNoApproval says that there is nothing to approve.
var errNoApproval = errors.New("no change waits for an approval")

// orders are what the command of an action writes, with the plans that it shows first, if it shows any. at is when a backup is requested.
func (a *Actor) orders(
	ctx context.Context, from client.Reader, key client.ObjectKey, name actions.Name, at time.Time,
) (orders []command.Order, plans []report.Plan, err error) {
	switch name {
	case actions.Approve:
		plans, orders, err = upgrade.Approvals(ctx, from, a.client.Scheme(), key)
		if err == nil && len(orders) == 0 {
			err = errNoApproval
		}
		a.invocation.SettlePlans(plans)
	case actions.Pause, actions.Resume, actions.Retry:
		orders, err = upgrade.Verb(name).Orders(ctx, from, key)
	case actions.Rollback:
		orders, err = upgrade.Rollback(ctx, from, key)
	case actions.Backup:
		var o command.Order
		o, err = backups.Order(ctx, from, key, at)
		orders = []command.Order{o}
	default:
		err = fmt.Errorf("there is no action %q", name)
	}
	if err != nil {
		return nil, nil, err
	}
	return orders, plans, nil
}

// shown are the lines that say what orders were made of.
func shown(orders []command.Order) []string {
	lines := make([]string, len(orders))
	for i, o := range orders {
		lines[i] = o.Shown()
	}
	return lines
}

// why is an error as a page shows it.
func why(err error) string { return plaintext.Redact(err.Error()) }

// offer says how an action stands for a cluster, without its plan. The error is facts.ErrNoCluster; all others are in the offer.
func (a *Actor) offer(
	ctx context.Context, from client.Reader, key client.ObjectKey, of actions.Action,
) (o actions.Offer, orders []command.Order, err error) {
	o = actions.Offer{Action: of, Command: of.Command(key, a.flags)}
	orders, o.Plans, err = a.orders(ctx, from, key, of.Name, time.Now().UTC().Truncate(time.Second).Add(time.Second))
	if errors.Is(err, facts.ErrNoCluster) {
		return o, nil, err
	}
	if err != nil {
		o.Why = why(err)
		return o, nil, nil
	}
	for _, w := range orders {
		patch, err := json.Marshal(w.Patch)
		if err != nil {
			return o, nil, fmt.Errorf("encoding the change of %s: %w", w.Title(), err)
		}
		o.Writes = append(o.Writes, actions.Write{Object: w.Title(), Patch: string(patch), Says: w.Says})
	}
	o.Shown = shown(orders)
	if o.Missing, err = a.missing(ctx, of.Name, orders); err != nil {
		o.Why = "whether you may do it is not known: " + why(err)
	}
	return o, orders, nil
}

// Offers returns how all actions stand for a cluster, without plans, and what is left to the command line.
func (a *Actor) Offers(ctx context.Context, key client.ObjectKey) ([]actions.Offer, []actions.Left, error) {
	from := facts.Snapshot(a.client)
	objects, err := facts.Read(ctx, from, key)
	if err != nil {
		return nil, nil, err
	}
	var all []actions.Offer
	for _, of := range actions.All() {
		o, _, err := a.offer(ctx, from, key, of)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, o)
	}
	var waiting []report.Decisions
	found, err := facts.Decisions(ctx, from, key)
	if err != nil && !errors.Is(err, facts.ErrNoControlPlane) {
		return nil, nil, err
	}
	for _, d := range found {
		waiting = append(waiting, d.Decisions)
	}
	return all, actions.LeftOut(key, facts.DescribeObjects(objects), waiting, a.flags), nil
}

// Look returns how an action stands for a cluster, with its plan.
func (a *Actor) Look(ctx context.Context, key client.ObjectKey, name actions.Name) (actions.Offer, error) {
	of, found := actions.Of(string(name))
	if !found {
		return actions.Offer{}, fmt.Errorf("there is no action %q", name)
	}
	from := facts.Snapshot(a.client)
	o, orders, err := a.offer(ctx, from, key, of)
	if err != nil || !o.Offered() || name == actions.Approve || name == actions.Backup {
		return o, err
	}
	if o.Upgrades, err = upgrade.Read(ctx, from, key); err != nil {
		return o, err
	}
	var changed []*unstructured.Unstructured
	if name == actions.Rollback {
		for _, w := range orders {
			try := command.Change{Object: w.Object.DeepCopy(), Patch: w.Patch, Manager: w.Manager}
			if err := try.Try(ctx, a.client); err != nil {
				o.Why = why(err)
				return o, nil
			}
			changed = append(changed, try.Object)
		}
	}
	if o.Plans, err = facts.Plans(ctx, from, a.client.Scheme(), key, changed); err != nil {
		o.PlanWhy = why(err)
	}
	a.invocation.SettlePlans(o.Plans)
	return o, nil
}

// Replacement returns what the replacement of a machine would do, which is left to the command line.
func (a *Actor) Replacement(ctx context.Context, key client.ObjectKey, machine string) (p report.Plan, do string, err error) {
	p, err = replace.Plan(ctx, a.invocation, a.client, key, machine)
	return p, actions.ReplaceCommand(key, machine, a.flags), err
}

// attempts is how often an order is written again whose object others changed in the same moment.
const attempts = 5

// Do does an action, if the lines that were shown still hold and the user may. The outcome has all that came of it.
func (a *Actor) Do(ctx context.Context, key client.ObjectKey, name actions.Name, lines []string) actions.Outcome {
	of, _ := actions.Of(string(name))
	out := actions.Outcome{Command: of.Command(key, a.flags)}
	at := time.Time{}
	if name == actions.Backup {
		var err error
		if at, err = backups.NextSecond(ctx); err != nil {
			out.Failed = why(err)
			return out
		}
	}
	orders, _, err := a.orders(ctx, a.client, key, name, at)
	if err != nil {
		out.Gone, out.Failed = lines, why(err)
		return out
	}
	if out.Gone, out.Come = actions.Changed(lines, shown(orders)); len(out.Gone)+len(out.Come) > 0 {
		return out
	}
	if out.Missing, err = a.missing(ctx, name, orders); err != nil {
		out.Failed = "whether you may do it is not known: " + why(err)
	}
	if err != nil || len(out.Missing) > 0 {
		return out
	}
	for _, o := range orders {
		gone, err := a.write(ctx, o, func() ([]command.Order, error) {
			again, _, err := a.orders(ctx, a.client, key, name, at)
			return again, err
		})
		if err != nil {
			out.Failed = why(err)
			if gone {
				out.Gone = []string{o.Shown()}
			}
			return out
		}
		out.Done = append(out.Done, o.Says)
	}
	return out
}

// errChanged says that an object was changed while it was written.
var errChanged = errors.New("it was changed at the same moment")

// write carries an order out, unless its object changed after it was read. Then the order is made again: it counts if it means the same.
func (a *Actor) write(ctx context.Context, o command.Order, again func() ([]command.Order, error)) (gone bool, err error) {
	same := o
	for range attempts {
		err = same.Same().Write(ctx, a.client)
		if !apierrors.IsConflict(err) {
			return false, err
		}
		orders, err := again()
		if err != nil {
			return true, err
		}
		at := slices.IndexFunc(orders, func(n command.Order) bool { return n.Shown() == o.Shown() })
		if at < 0 {
			return true, fmt.Errorf("%s: %w", o.Title(), errChanged)
		}
		same = orders[at]
	}
	return false, err
}
