package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// request is what a command asks the manager for.
type request struct {
	// asks sets what the person wants.
	asks func(r *plan.Requests, at time.Time)
	// question is what a person is asked, and verb the step that does it.
	question string
	verb     plan.Verb
	// left says what is left to do; empty: it is done.
	left func(Etcd) string
}

// requestFlags are those of commands that ask the manager for something.
type requestFlags struct {
	yes, noWait bool
	timeout     time.Duration
}

func (f *requestFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.yes, "yes", false, "go on without asking")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "end when the manager is asked")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long to wait until it is done")
}

// errNotAsked: a person was asked, and did not agree.
var errNotAsked = errors.New("nothing was changed")

// manager owns the annotation that the commands write.
const manager = "quorate-etcd"

func (a *app) defragmentCommand() *cobra.Command {
	return a.requestCommand("defragment", "Have members give back the space that their data do not need",
		`Show what a defragmentation will do, ask, and request it from the manager. The manager defragments each member with a megabyte and a
twentieth of its size to give back, one after the other. The leader is last, after a hand-over, and all else must be done and healthy. A
member does not answer meanwhile. With one member or two the API is not available meanwhile. Windows of spec.approval do not hold it back.`,
		func(Etcd) (request, error) {
			return request{
				asks:     func(r *plan.Requests, at time.Time) { r.Defragment = at },
				question: "Defragment these members?", verb: plan.Defragment, left: newShrinking().left,
			}, nil
		}, nil)
}

func (a *app) disarmCommand() *cobra.Command {
	return a.requestCommand("disarm", "End the alarm NOSPACE, although members may have no space",
		`Show the members, ask, and request the end of the alarm NOSPACE from the manager. The manager ends the alarm by itself when all members
have space again. This command is for an alarm that stays: of a member that is gone, or of one that cannot be measured. A member without
space raises it again with the next write.`,
		func(e Etcd) (request, error) {
			if alarms(e) == "" {
				return request{}, command.Usagef("no member of %s raises %s", e.Group, plan.NoSpace)
			}
			return request{
				asks:     func(r *plan.Requests, at time.Time) { r.Disarm = at },
				question: "End the alarm?", verb: plan.Disarm, left: alarms,
			}, nil
		}, nil)
}

func (a *app) moveLeaderCommand() *cobra.Command {
	to := ""
	return a.requestCommand("move-leader", "Have another member of etcd lead",
		`Show the members, ask, and request another leader from the manager: the member on the machine --to, or the healthy voter with the most
of the log. Writes wait for some milliseconds meanwhile.`,
		func(e Etcd) (request, error) {
			on, err := successor(e, to)
			if err != nil {
				return request{}, err
			}
			return request{
				asks:     func(r *plan.Requests, at time.Time) { r.MoveLeader, r.Lead = at, on },
				question: "Have the member on " + on + " lead?", verb: plan.MoveLeader,
				left: func(e Etcd) string { return notLeading(e, on) },
			}, nil
		}, func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&to, "to", "", "the machine whose member is to lead")
		})
}

// requestCommand makes a command that asks the manager for something.
func (a *app) requestCommand(verb, short, long string, of func(Etcd) (request, error), flags func(*cobra.Command)) *cobra.Command {
	f := &requestFlags{}
	cmd := &cobra.Command{
		Use:   verb + " [NAME]",
		Short: short,
		Long: long + `

The request is the annotation ` + controlplanev1.EtcdRequestsAnnotation + ` of the control plane or EtcdCluster. It counts for an
hour, and the command removes it when it is done. The command can be ended: the manager goes on.`,
		Example: `  quorate etcd ` + verb + ` demo
  quorate etcd ` + verb + ` demo --yes             # without being asked`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.timeout <= 0 {
				return command.Usagef("invalid --timeout %q: must be greater than 0", f.timeout)
			}
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.request(cmd.Context(), c, key, f, of)
		},
	}
	f.addTo(cmd)
	if flags != nil {
		flags(cmd)
	}
	a.AddManagementTo(cmd)
	return cmd
}

// request shows the members and the plan, asks, writes the annotation and waits.
func (a *app) request(ctx context.Context, c client.Client, key client.ObjectKey, f *requestFlags,
	of func(Etcd) (request, error),
) error {
	all, err := stores(ctx, c, key)
	if err != nil {
		return err
	}
	defer closeAll(all)
	if len(all) > 1 {
		return command.Usagef("cluster %s has %d etcds: must have one", key, len(all))
	}
	s, show := all[0], a.NewScreen()
	now := s.status(ctx)
	show.Show(statusTable(Status{Etcds: []Etcd{now}}))
	r, err := of(now)
	if err != nil {
		return err
	}
	at := time.Now().Truncate(time.Second)
	asking := s.asking(func(asked *plan.Requests) { r.asks(asked, at) })
	p, err := asking.Plan(ctx, a.Invocation, c, key, s.from.Object)
	if err != nil {
		return err
	}
	show.Show(append([]screen.Line{{}}, report.Plans([]report.Plan{p}, false)...))
	if !does(p, r.verb) {
		show.Printf("\nThe manager has nothing to do for it, or does not do it while that is so; see quorate explain %s", key.Name)
	}
	if !f.yes && !a.Agrees(r.question) {
		return errNotAsked
	}
	if err := asking.Write(ctx, c); err != nil {
		return err
	}
	if f.noWait {
		show.Printf("The manager is asked; see quorate etcd status %s", key.Name)
		return nil
	}
	late := fmt.Errorf("it was not done within --timeout %s; the request counts for an hour, and quorate explain %s says what it waits for",
		f.timeout, key.Name)
	return command.Within(ctx, f.timeout, late, func(ctx context.Context) error { return a.await(ctx, c, s, r, at) })
}

// does reports whether a plan has a step with a verb.
func does(p report.Plan, verb plan.Verb) bool {
	for _, s := range p.Steps {
		if s.Step.Verb == verb {
			return true
		}
	}
	return false
}

// asking is the annotation with the requests, changed.
func (s store) asking(change func(*plan.Requests)) command.Annotation {
	value := func(now string) (string, error) {
		asked, err := machine.ParseRequests(now)
		if err != nil {
			return "", err
		}
		change(&asked)
		return machine.FormatRequests(asked), nil
	}
	return command.Annotation{Of: s.of, Name: controlplanev1.EtcdRequestsAnnotation, Manager: manager, Value: value}
}

// every is how often is asked how far the manager is.
const every = time.Second

// await says what is left to do until nothing is, and removes the request.
func (a *app) await(ctx context.Context, c client.Client, s store, r request, at time.Time) error {
	show, said, began := a.NewScreen(), "", time.Now()
	after := func() time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
	for {
		survey := s.survey(ctx)
		now := etcdOf(facts.Title(s.of), survey)
		for i, m := range survey.Members {
			now.Members[i].Machine = s.machineOf(m.ID)
		}
		left := r.left(now)
		switch {
		case ctx.Err() != nil: // what was asked last may have been cut
			return context.Cause(ctx)
		case left == "":
			show.Printf("done after %s", after())
			return s.asking(func(asked *plan.Requests) { withdraw(asked, r, at) }).Write(ctx, c)
		case left != said:
			said = left
			show.Printf("%8s  %s", after(), left)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

// withdraw drops what was asked for at a time, unless it was asked for again meanwhile.
func withdraw(asked *plan.Requests, r request, at time.Time) {
	own := plan.Requests{}
	r.asks(&own, at)
	drop := func(mine time.Time, of *time.Time) {
		if !mine.IsZero() && !of.After(mine) {
			*of = time.Time{}
		}
	}
	drop(own.Defragment, &asked.Defragment)
	drop(own.Disarm, &asked.Disarm)
	if drop(own.MoveLeader, &asked.MoveLeader); asked.MoveLeader.IsZero() {
		asked.Lead = ""
	}
}
