// Command upstream compares Quorate's controller with Cluster API's own, side by side in Cluster API's in-memory world. That has a real API
// server and etcd, Cluster API's own core and bootstrap controllers, and machines, API servers and etcds that live in the memory of one
// process.
//
// It prints one line for each measurement, and the medians and ratios at the end. Logs and the API server's audit log stay in the output
// folder.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are what the command line says.
type options struct {
	root, out, programs string
	quick               bool
	delays              delays
	overlap             bool
	patience            time.Duration
	repeat              int
	rest                time.Duration
	sides               []side
	flags               map[side][]string
}

// scenario is one comparison.
type scenario struct {
	name, about string
	do          func(context.Context, options, *report, *fleet) error
}

var scenarios = []scenario{
	{"one", "0 -> 1, 0 -> 3 and a rollout of three, one after the other, repeated", one},
	{"twenty", "20 control planes of three: made, rolled out, at rest", func(ctx context.Context, o options, r *report, f *fleet) error {
		return many(ctx, o, r, f, 20, 3, true)
	}},
	{"hundred", "100 control planes of one", func(ctx context.Context, o options, r *report, f *fleet) error {
		return many(ctx, o, r, f, 100, 1, false)
	}},
	{"rest", "300 control planes of three: made, at rest", func(ctx context.Context, o options, r *report, f *fleet) error {
		return many(ctx, o, r, f, 300, 3, false)
	}},
	{"thousand", "1,000 control planes of one: made, at rest", func(ctx context.Context, o options, r *report, f *fleet) error {
		return many(ctx, o, r, f, 1000, 1, false)
	}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context) error {
	o, chosen, err := parse()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.programs, 0o755); err != nil {
		return err
	}
	if err := programs(ctx, o.root, o.programs, o.quick); err != nil {
		return err
	}
	ctrl.SetLogger(logr.Discard())
	for _, s := range chosen {
		if err := s.compare(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// parse reads the command line.
func parse() (options, []scenario, error) {
	o := options{flags: map[side][]string{}}
	var about []string
	for _, s := range scenarios {
		about = append(about, s.name+": "+s.about)
	}
	run := flag.String("run", "one", "what to compare, several with commas; "+strings.Join(about, "; "))
	sides := flag.String("sides", "upstream,quorate", "whose controllers run")
	flag.StringVar(&o.root, "root", "../..", "folder of Quorate's sources")
	flag.StringVar(&o.out, "out", "", "folder for programs and logs")
	flag.BoolVar(&o.quick, "quick", false, "take the waits of Cluster API's other controllers out: connections that failed are tried again "+
		"after a second, reconcilers are not limited")
	flag.DurationVar(&o.delays.Machine, "machine", 10*time.Millisecond, "how long a machine takes in memory")
	flag.DurationVar(&o.delays.Parts, "parts", 10*time.Millisecond, "how long each of Node, API server and etcd takes")
	flag.BoolVar(&o.overlap, "overlap", false,
		"let Quorate's rollouts go on beside the infrastructure of a machine that has left (spec.joins.overlap)")
	flag.IntVar(&o.repeat, "repeat", 3, "how often what is short is repeated")
	flag.DurationVar(&o.rest, "rest", 2*time.Minute, "how long control planes are watched at rest")
	flag.DurationVar(&o.patience, "patience", 30*time.Minute, "how long one step may take")
	more := flag.String("flags", "", "more flags of Quorate's manager, with commas")
	flag.Parse()
	if o.out == "" {
		return o, nil, errors.New("-out is empty: name a folder for programs and logs")
	}
	o.programs = filepath.Join(o.out, "programs")
	if o.quick {
		o.programs += "-quick"
	}
	if *more != "" {
		o.flags[quorate] = strings.Split(*more, ",")
	}
	for s := range strings.SplitSeq(*sides, ",") {
		if s := side(s); s != upstream && s != quorate {
			return o, nil, fmt.Errorf("invalid -sides %q: must be upstream or quorate", s)
		}
		o.sides = append(o.sides, side(s))
	}
	chosen, err := choose(*run, about)
	return o, chosen, err
}

// choose finds scenarios by their names.
func choose(names string, about []string) ([]scenario, error) {
	var chosen []scenario
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-run has %q, which is none of: %s", name, strings.Join(about, "; "))
		}
		chosen = append(chosen, scenarios[at])
	}
	return chosen, nil
}

// compare runs the scenario in a world of each side.
func (s scenario) compare(ctx context.Context, o options) error {
	r := &report{}
	for _, of := range o.sides {
		folder := filepath.Join(o.out, s.name+"-"+string(of))
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		if err := s.run(ctx, o, r, of, folder); err != nil {
			return fmt.Errorf("%s: %w; logs are in %s", of, err, folder)
		}
	}
	r.compare()
	return nil
}

func (s scenario) run(ctx context.Context, o options, r *report, of side, folder string) (err error) {
	w, err := newWorld(ctx, o, of, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, err := newFleet(ctx, w)
	if err != nil {
		return err
	}
	return s.do(ctx, o, r, f)
}

// one makes control planes one after the other.
func one(ctx context.Context, o options, r *report, f *fleet) error {
	for i := range o.repeat {
		single, triple := names(fmt.Sprintf("single%d-", i), 1), names(fmt.Sprintf("triple%d-", i), 1)
		took, err := f.create(ctx, o, single, 1)
		if err != nil {
			return err
		}
		r.add(f.world.side, "0 -> 1", "s", took.Seconds())
		if took, err = f.create(ctx, o, triple, 3); err != nil {
			return err
		}
		r.add(f.world.side, "0 -> 3", "s", took.Seconds())
		if took, err = f.roll(ctx, o, triple, 3); err != nil {
			return err
		}
		r.add(f.world.side, "roll of 3", "s", took.Seconds())
	}
	return nil
}

// many makes that many control planes at once, rolls them out where that is wanted, and watches them at rest.
func many(ctx context.Context, o options, r *report, f *fleet, clusters, replicas int, roll bool) error {
	all, of := names("c", clusters), f.world.side
	took, err := f.create(ctx, o, all, replicas)
	if err != nil {
		return err
	}
	r.add(of, "create", "s", took.Seconds())
	created, err := f.world.used(ctx)
	if err != nil {
		return err
	}
	r.use(of, "create", created, clusters)
	if roll {
		if took, err = f.roll(ctx, o, all, replicas); err != nil {
			return err
		}
		r.add(of, "roll", "s", took.Seconds())
		rolled, err := f.world.used(ctx)
		if err != nil {
			return err
		}
		r.use(of, "roll", rolled.since(created), clusters)
		r.use(of, "create and roll", rolled, clusters)
	}
	return atRest(ctx, o, r, f, clusters)
}

// atRest watches control planes that do not change, once what follows a change has settled.
func atRest(ctx context.Context, o options, r *report, f *fleet, clusters int) error {
	if err := pause(ctx, o.rest/2); err != nil {
		return err
	}
	before, err := f.world.used(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, o.rest); err != nil {
		return err
	}
	now, err := f.world.used(ctx)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("at rest for %s", o.rest)
	idle := now.since(before)
	r.use(f.world.side, at, idle, clusters)
	r.add(f.world.side, at+": cores", "", idle.CPU.Seconds()/o.rest.Seconds())
	r.add(f.world.side, at+": requests a minute a cluster", "", float64(idle.Requests)/o.rest.Minutes()/float64(clusters))
	return f.world.alive()
}

// pause lasts as long as a measurement at rest does.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// report is what was measured.
type report struct {
	order  []string
	values map[string]map[side][]float64
	units  map[string]string
}

func (r *report) add(of side, what, unit string, value float64) {
	if r.values == nil {
		r.values, r.units = map[string]map[side][]float64{}, map[string]string{}
	}
	if r.values[what] == nil {
		r.values[what], r.units[what] = map[side][]float64{}, unit
		r.order = append(r.order, what)
	}
	r.values[what][of] = append(r.values[what][of], value)
	fmt.Printf("%s  %-9s %-50s %10.2f %s\n", time.Now().Format(time.TimeOnly), of, what, value, unit)
}

func (r *report) use(of side, what string, u usage, clusters int) {
	const mib = 1 << 20
	r.add(of, what+": CPU", "s", u.CPU.Seconds())
	r.add(of, what+": memory", "MiB", float64(u.Resident)/mib)
	r.add(of, what+": most memory so far", "MiB", float64(u.Peak)/mib)
	r.add(of, what+": goroutines a cluster", "", float64(u.Goroutines)/float64(clusters))
	r.add(of, what+": requests", "", float64(u.Requests))
}

// compare prints medians, and how much of upstream's Quorate needs.
func (r *report) compare() {
	fmt.Printf("\n%-50s %12s %12s %8s\n", "medians", upstream, quorate, "ratio")
	for _, what := range r.order {
		line := fmt.Sprintf("%-50s", strings.TrimSpace(what+" "+r.units[what]))
		theirs, ours := median(r.values[what][upstream]), median(r.values[what][quorate])
		line += fmt.Sprintf(" %12s %12s", figure(r.values[what][upstream]), figure(r.values[what][quorate]))
		if theirs > 0 && len(r.values[what][quorate]) > 0 {
			line += fmt.Sprintf(" %8.2f", ours/theirs)
		}
		fmt.Println(line)
	}
	fmt.Println()
}

func figure(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", median(values))
}

// median is the middle one of an odd number of values, the lower of the two middle ones of an even number; 0: there is none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(values), cmp.Compare)
	return sorted[(len(sorted)-1)/2]
}
