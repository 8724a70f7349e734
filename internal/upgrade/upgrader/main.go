package upgrader

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/buildinfo"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// serviceCommand is the command of the service that swaps; it runs on the node itself, outside of any pod.
const serviceCommand = "swap-service"

// terminationLog is where the kubelet reads a container's termination message.
const terminationLog = "/dev/termination-log"

// exitUsage is the exit code when the command line makes no sense.
const exitUsage = 64

// Main runs one command and returns its exit code:
//
//	upgrader STEP... --spec JSON
//	upgrader swap-service
//	upgrader certificates ROOT
func Main(ctx context.Context, args []string, out io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(out, "upgrader is started by Quorate, not by hand")
		return exitUsage
	}
	if args[0] == "--version" {
		fmt.Fprintln(out, buildinfo.Get().Line("quorate-upgrader"))
		return 0
	}
	if args[0] == serviceCommand {
		if err := (service{at: layout{dir: home}, out: out}).run(ctx); err != nil {
			fmt.Fprintf(out, "%v\n", err)
			return 1
		}
		return 0
	}
	if args[0] == certificatesCommand && len(args) == 2 {
		if err := tellCertificates(args[1], out); err != nil {
			fmt.Fprintf(out, "%v\n", err)
			return 1
		}
		return 0
	}
	list, rest, err := named(args)
	if err != nil {
		fmt.Fprintf(out, "%v\n", err)
		return exitUsage
	}
	wanted, inside, err := parse(rest, out)
	if err != nil {
		fmt.Fprintf(out, "%v\n", err)
		return exitUsage
	}
	if inside != "" {
		return insideMain(ctx, list[0], wanted, inside, out)
	}
	return carryOut(list, terminate, out, func(name steps.Name) steps.Result { return outside(ctx, name, wanted, out) })
}

// named are the steps that a command line begins with, and the arguments that follow them.
func named(args []string) (list []steps.Name, rest []string, err error) {
	for rest = args; len(rest) > 0 && !strings.HasPrefix(rest[0], "-"); rest = rest[1:] {
		step, known := steps.ByCommand(rest[0])
		if !known {
			return nil, nil, fmt.Errorf("unknown command %q", rest[0])
		}
		list = append(list, step.Name)
	}
	if len(list) == 0 {
		return nil, nil, errors.New("no command")
	}
	return list, rest, nil
}

// parse reads the arguments of a step. Inside is the folder in which the node sees the image's files; empty: this is the pod.
func parse(args []string, out io.Writer) (wanted steps.Wanted, inside string, err error) {
	flags := flag.NewFlagSet("upgrader", flag.ContinueOnError)
	flags.SetOutput(out)
	spec := flags.String("spec", "", "what is wanted, as JSON")
	required := flags.String("requires", "", "what the upgrader must know, with commas; one that does not know it must not begin")
	flags.StringVar(&inside, "inside", "", "the folder of the image, as the node sees it; the pod's part of a step sets it")
	if err := flags.Parse(args); err != nil {
		return wanted, "", fmt.Errorf("reading the command line: %w", err)
	}
	names := strings.FieldsFunc(*required, func(r rune) bool { return r == ',' })
	if unknown := steps.Unknown(names); len(unknown) > 0 {
		return wanted, "", fmt.Errorf("this upgrader does not know %s: use the upgrader image of the manager's release",
			strings.Join(unknown, ", "))
	}
	if err := json.Unmarshal([]byte(*spec), &wanted); err != nil {
		return wanted, "", fmt.Errorf("reading --spec: %w", err)
	}
	if wanted.Node == "" || wanted.ID == "" || wanted.Attempt < 1 {
		return wanted, "", errors.New("reading --spec: id, attempt or node is missing")
	}
	return wanted, inside, nil
}

// exitKilled is the exit code of a step that was killed, as the runtime has it.
const exitKilled = 137

// carryOut does steps in their order until one does not succeed, and returns the exit code. What each reports is written where the kubelet
// finds it before the next one begins: of a container that is killed it is known how far it came. A step that was interrupted reports
// nothing.
func carryOut(list []steps.Name, write func(lines string) error, out io.Writer, do func(steps.Name) steps.Result) int {
	lines := ""
	for _, name := range list {
		r := do(name)
		if r.State == steps.Interrupted {
			return exitKilled
		}
		r.Step = name
		line, err := r.Line()
		if err != nil {
			fmt.Fprintf(out, "%v\n", err)
			return 1
		}
		fmt.Fprintln(out, line)
		lines += line + "\n"
		if err := write(lines); err != nil {
			fmt.Fprintf(out, "writing the result: %v\n", err)
		}
		if !r.State.Succeeded() {
			return r.State.ExitCode()
		}
	}
	return 0
}

// terminate writes the termination message. Outside of a pod there is no file for it, and none is made.
func terminate(lines string) error {
	f, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(lines)
	return errors.Join(err, f.Close())
}

// outside is the pod's part of a step: all is done inside the node, with the node's own credentials. The pod has none.
func outside(ctx context.Context, name steps.Name, wanted steps.Wanted, out io.Writer) steps.Result {
	began, limit := time.Now(), wanted.Limit(name)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := enter(ctx, name, wanted, out)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !r.State.Succeeded() {
		fmt.Fprintf(out, "%s did not end within %s\n", name, limit)
		return steps.Result{}
	}
	if r.State == steps.RolledBack || name == steps.Swap && r.State == steps.Failed {
		// The node serves as before: pods may come back to it.
		if back := enter(ctx, steps.Uncordon, wanted, out); !back.State.Succeeded() {
			fmt.Fprintf(out, "%s\n", back.Message)
		}
	}
	r.Seconds = float64(time.Since(began).Milliseconds()/10) / 100
	return r
}

// insideMain is the node's part of a step: it writes its result to descriptor 3.
func insideMain(ctx context.Context, name steps.Name, wanted steps.Wanted, image string, out io.Writer) int {
	n := &node{layout: layout{dir: home, image: image}, wanted: wanted, out: out}
	r := n.step(ctx, name)
	if err := json.NewEncoder(os.NewFile(resultFD, "result")).Encode(r); err != nil {
		fmt.Fprintf(out, "handing over the result: %v\n", err)
		return 1
	}
	return 0
}

// errSkipped says that there was nothing to do.
var errSkipped = errors.New("skipped")

// result is that of a step that said something and ended with err.
func result(said string, err error) steps.Result {
	switch {
	case errors.Is(err, errSkipped):
		return steps.Result{State: steps.Skipped, Message: plaintext.Shown(said)}
	case err != nil:
		return steps.Result{State: steps.Failed, Message: plaintext.Shown(err.Error()), Advice: "the node runs what it ran before this step; " +
			"retry when the cause is gone"}
	default:
		return steps.Result{State: steps.Done, Message: plaintext.Shown(said)}
	}
}

// node is one step at work inside the node.
type node struct {
	layout
	wanted steps.Wanted
	out    io.Writer
	// journal is what the node remembers of this upgrade.
	journal steps.Journal
	// held says why a file of the user's is not written; nil: steps.HeldFile.
	held func(path string) string
	// find is the file of a program of the node, or empty; nil: installed.
	find func(name string) string
	// pluginDir is the folder of its CNI plugins; empty: the one that its runtime names.
	pluginDir string
}

// say prints a line.
func (n *node) say(format string, args ...any) { fmt.Fprintf(n.out, format+"\n", args...) }

// takeJournal goes on with the journal that is there. The first step begins a new one, unless the swap has begun.
func (n *node) takeJournal(name steps.Name) error {
	remembered, err := n.loadJournal()
	if err != nil {
		return err
	}
	if n.journal, err = remembered.Take(n.wanted); err != nil {
		return err
	}
	if name == steps.Copy && !n.journal.Begun() {
		return n.begin()
	}
	return nil
}

// step carries out one step.
func (n *node) step(ctx context.Context, name steps.Name) steps.Result {
	if name == steps.Uncordon { // whatever the journal says
		return result(n.uncordon(ctx))
	}
	if err := n.takeJournal(name); err != nil {
		return result("", err)
	}
	do := map[steps.Name]func(context.Context) (string, error){
		steps.Copy: n.copy, steps.Containerd: n.runtime, steps.CNI: n.plugins, steps.Images: n.images, steps.Render: n.render,
		steps.Backup: n.backup, steps.Drain: n.drain, steps.Handover: n.handover,
	}
	if before, ok := do[name]; ok {
		if n.journal.Begun() {
			return result("the swap has begun: "+string(n.journal.Phase), errSkipped)
		}
		return result(before(ctx))
	}
	switch name {
	case steps.Swap:
		return n.swap(ctx)
	case steps.Finish:
		return n.concluding(ctx, name, n.finish)
	default:
		return n.concluding(ctx, name, n.verify)
	}
}

// begin forgets what an earlier upgrade left.
func (n *node) begin() error {
	if err := n.saveJournal(n.journal); err != nil {
		return err
	}
	return n.clear()
}
