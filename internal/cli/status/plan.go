package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/manifest"
	"github.com/quorate/quorate/internal/cli/report"
)

// exitReplaces is the exit code of a plan by which at least one machine would be replaced. Nothing else ends with it here: whatever fails,
// wrong usage too, ends with command.ExitFailed.
const exitReplaces = 2

// planFlags are the flags of `quorate plan`.
type planFlags struct {
	files    []string
	version  string
	replicas int32
	inPlace  string
	manager  string
	all      bool
	output   command.Format
}

func (a *app) planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan [NAME]",
		Short: "Show what a change will do, step by step, before it is made",
		Long: `Show what a change of a control plane, or of its etcd cluster, will do, before it is made. The plan has for each machine whether it
stays, is changed in place or is replaced, and which field forces that. It has the steps in their order, with how many
machines and voters there are after each, and how many of these may fail, and what it ends with. Without a change it is about what is
under way. A cluster that is only in -f is planned from its first machine on.

The API server is asked what the change would make of the objects, and refuses what cannot be; nothing is written. Then the rules
themselves are asked, step after step, as if nothing went wrong. Times are estimates.

Exit codes: 0 no machine would be replaced, 2 at least one would be; any other is an error.`,
		Example: `  quorate plan                                          # what is under way
  quorate plan demo --kubernetes-version v1.37.2
  quorate plan demo --kubernetes-version v1.37.2 --in-place=Only
  quorate plan demo -f changed.yaml -o json
  quorate plan -f cluster.yaml                          # of a cluster that is only in the file
  quorate plan --all                                    # a line for each control plane`,
		Args: func(cmd *cobra.Command, args []string) error {
			return failed(cmp.Or(command.OneArgumentAtMost(cmd, args), f.check(cmd, args)))
		},
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return failed(a.plan(cmd.Context(), f, args))
		},
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return failed(c.Root().FlagErrorFunc()(c, err)) })
	cmd.Flags().StringArrayVarP(&f.files, "filename", "f", nil, "a manifest with objects as they would be applied; - is standard input")
	cmd.Flags().StringVar(&f.version, "kubernetes-version", "", "as if spec.version of the control plane were this")
	cmd.Flags().Int32Var(&f.replicas, "replicas", 0, "as if spec.replicas of the control plane were this")
	cmd.Flags().StringVar(&f.inPlace, "in-place", "", "as if spec.inPlace.policy of the control plane were this; without a value "+
		string(controlplanev1.InPlacePreferred))
	cmd.Flags().Lookup("in-place").NoOptDefVal = string(controlplanev1.InPlacePreferred)
	cmd.Flags().StringVar(&f.manager, "field-manager", "quorate-up",
		"as whom -f is applied: fields that it set before and that are missing now go")
	cmd.Flags().BoolVar(&f.all, "all", false, "all clusters, a line for each control plane and each etcd cluster")
	a.AddManagementTo(cmd)
	f.output.AddTo(cmd)
	return cmd
}

// failed makes an error one that does not look like a plan that replaces machines.
func failed(err error) error {
	var coded *command.ExitError
	if errors.As(err, &coded) && coded.Code == command.ExitUsage && coded.Err != nil {
		return &command.ExitError{Code: command.ExitFailed, Err: coded.Err}
	}
	if err != nil && coded == nil {
		return &command.ExitError{Code: command.ExitFailed, Err: err}
	}
	return err
}

// check refuses flags that contradict one another.
func (f *planFlags) check(cmd *cobra.Command, args []string) error {
	changes := f.change().Patch() != nil
	switch {
	case f.all && (len(args) > 0 || changes || len(f.files) > 0):
		return errors.New("--all cannot be combined with NAME, -f or flags that change a control plane")
	case changes && len(f.files) > 0:
		return errors.New("-f cannot be combined with flags that change a control plane")
	case cmd.Flags().Changed("replicas") && f.replicas < 1:
		return fmt.Errorf("invalid --replicas \"%d\": must be 1 or more", f.replicas)
	}
	return nil
}

// change is what the flags change of a control plane.
func (f *planFlags) change() command.SpecChange {
	return command.SpecChange{Version: f.version, Replicas: f.replicas, InPlace: f.inPlace}
}

// plan shows what will happen to the cluster that is named, or the only one, or to all.
func (a *app) plan(ctx context.Context, f planFlags, args []string) error {
	c, err := a.Management()
	if err != nil {
		return err
	}
	var plans []report.Plan
	if f.all {
		plans, err = planAll(ctx, c, eachTimeout)
	} else {
		plans, err = a.planOne(ctx, c, f, args)
	}
	if err != nil && len(plans) == 0 {
		return err
	}
	a.SettlePlans(plans)
	if f.output == "table" {
		a.NewScreen().Show(report.Plans(plans, f.all))
	} else if err := a.Data(f.output, plans); err != nil {
		return err
	}
	if err != nil { // some clusters are not among the plans
		return err
	}
	if slices.ContainsFunc(plans, report.Plan.Replaces) {
		return &command.ExitError{Code: exitReplaces}
	}
	return nil
}

// planOne plans one cluster, as it would be changed.
func (a *app) planOne(ctx context.Context, c client.Client, f planFlags, args []string) ([]report.Plan, error) {
	changes, err := a.fromFiles(f)
	if err != nil {
		return nil, err
	}
	from := facts.Snapshot(c)
	key, given, err := a.chooseWith(ctx, from, args, changes)
	if err != nil {
		return nil, err
	}
	if given {
		if err := a.checkGiven(ctx, c, changes); err != nil {
			return nil, err
		}
	}
	if wanted := f.change(); wanted.Patch() != nil {
		object, err := facts.ControlPlane(ctx, from, key)
		if err != nil {
			return nil, err
		}
		changes = append(changes, planned{Change: wanted.Of(object, f.manager)})
	}
	changed := make([]*unstructured.Unstructured, 0, len(changes))
	for _, change := range changes {
		if err := change.try(ctx, c); err != nil {
			return nil, err
		}
		changed = append(changed, change.Object)
	}
	return facts.Plans(ctx, from, c.Scheme(), key, changed)
}

// planned is a change, and the file that it comes from; empty: none.
type planned struct {
	command.Change
	file string
}

// of adds the file to an error.
func (p planned) of(err error) error {
	if p.file == "" || err == nil {
		return err
	}
	var coded *command.ExitError
	if errors.As(err, &coded) && coded.Err != nil {
		return &command.ExitError{Code: coded.Code, Err: fmt.Errorf("%s: %w", p.file, coded.Err)}
	}
	return fmt.Errorf("%s: %w", p.file, err)
}

// try asks the API server what the change would make of the object.
func (p planned) try(ctx context.Context, c client.Client) error {
	err := p.Try(ctx, c)
	if meta.IsNoMatchError(err) {
		return p.of(fmt.Errorf("%s %s: kind: the management plane does not know the kind: %w", p.Object.GetKind(), p.Object.GetName(), err))
	}
	return p.of(err)
}

// fromFiles reads the objects of -f.
func (a *app) fromFiles(f planFlags) ([]planned, error) {
	var changes []planned
	for _, name := range f.files {
		objects, err := a.ReadManifest(name)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			changes = append(changes, planned{command.Change{Object: o, Manager: f.manager}, name})
		}
	}
	return changes, nil
}

// chooseWith finds the cluster that is planned: one that only -f has, or else one that exists. given reports whether it is the former.
func (a *app) chooseWith(
	ctx context.Context, from client.Reader, args []string, changes []planned,
) (key client.ObjectKey, given bool, err error) {
	var objects []*unstructured.Unstructured
	for _, c := range changes {
		objects = append(objects, c.Object)
	}
	clusters := manifest.Clusters(objects)
	if len(clusters) == 0 {
		key, err = a.Choose(ctx, from, args)
		return key, false, err
	}
	existing, err := command.Clusters(ctx, from)
	if err != nil {
		return key, false, err
	}
	if len(args) == 0 { // -f is about its own
		key, err = facts.Choose("", clusters)
	} else if key, err = facts.Choose(args[0], clusters); err != nil {
		key, err = a.Choose(ctx, from, args)
	}
	return key, !slices.Contains(existing, key), command.Usage(err)
}

// checkGiven says what is missing of a cluster that only -f has.
func (a *app) checkGiven(ctx context.Context, c client.Client, changes []planned) error {
	var objects []*unstructured.Unstructured
	for _, change := range changes {
		objects = append(objects, change.Object)
	}
	var failed error
	exists := func(r manifest.Reference) (bool, error) {
		there, err := command.Exists(ctx, c, r)
		failed = errors.Join(failed, err)
		return there, err
	}
	for _, change := range changes {
		err := manifest.CheckReferencesOf(change.Object, objects, exists)
		if err != nil && failed == nil {
			err = command.Usage(change.of(err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// atOnce is how many clusters are looked at at the same time: most of a look is waiting for one that does not answer.
	atOnce = 64
	// eachTimeout is how long the look at one of many clusters may take. It is longer than its managed cluster, and then its etcd, are waited
	// for.
	eachTimeout = 20 * time.Second
)

// planAll plans what is under way in all clusters. Those without a control plane that is known here are left out. Of clusters that cannot
// be looked at, or not in time, the error tells, beside the plans of the others.
func planAll(ctx context.Context, c client.Client, limit time.Duration) ([]report.Plan, error) {
	keys, err := command.Clusters(ctx, c)
	if err != nil {
		return nil, err
	}
	plans, errs := make([][]report.Plan, len(keys)), make([]error, len(keys))
	var wg sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for i, key := range keys {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			plans[i], errs[i] = planInTime(ctx, c, key, limit)
		})
	}
	wg.Wait()
	return slices.Concat(plans...), errors.Join(errs...)
}

// planInTime plans what is under way in one of many clusters.
func planInTime(ctx context.Context, c client.Client, key client.ObjectKey, limit time.Duration) ([]report.Plan, error) {
	short, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	plans, err := facts.Plans(short, c, c.Scheme(), key, nil)
	switch {
	case errors.Is(err, facts.ErrNoControlPlane), errors.Is(err, facts.ErrNoCluster): // none that is known here, or gone meanwhile
		return nil, nil
	case err != nil && short.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("cluster %s: not looked at within %s: %w", key, limit, err)
	case err != nil:
		return nil, fmt.Errorf("cluster %s: %w", key, err)
	}
	return plans, nil
}
