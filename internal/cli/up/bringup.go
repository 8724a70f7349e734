package up

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/facts"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/embed"
)

// bringUp carries out what an `up` that passed its checks wants.
type bringUp struct {
	*up
	nodeBinary string
	screen     *screen.Screen
	begun      time.Time
	// changed: something was asked of the management plane that it did not have.
	changed bool
	// started: the daemon runs, or is about to.
	started bool
	// applied: something was asked of the management plane, which works on it from then on.
	applied bool
}

// run is the list of what `quorate up` does.
func (b *bringUp) run(ctx context.Context) error {
	options := b.options(b.nodeBinary)
	if err := embed.Check(options); err != nil {
		return command.Usage(err)
	}
	if _, err := b.managerBinary(); err != nil {
		return err
	}
	if err := b.checkRunning(ctx); err != nil {
		return err
	}
	first := append([]string{options.Kubernetes}, b.needed()...)
	if err := command.Stage(b.screen, "artifacts", func() (string, error) { return b.ensureArtifacts(ctx, options, first) }); err != nil {
		return err
	}
	if err := command.Stage(b.screen, "management plane", func() (string, error) { return b.startDaemon(ctx, options) }); err != nil {
		return err
	}
	c, err := b.Connect()
	if err != nil {
		return err
	}
	if b.cluster.BackupRecipient, err = embed.EnsureBackupRecipient(b.State); err != nil {
		return err
	}
	if err := b.ensureLater(ctx, c, options, first); err != nil {
		return err
	}
	if err := command.Stage(b.screen, "manifests", func() (string, error) { return b.apply(ctx, c) }); err != nil {
		return err
	}
	if err := b.waitForAll(ctx, c); err != nil {
		return err
	}
	return b.keep(ctx)
}

// waitForAll waits until each cluster is as it was asked for, unless --wait=false is set.
func (b *bringUp) waitForAll(ctx context.Context, c client.Client) error {
	if !b.wait {
		b.screen.Printf("not waiting; `quorate status --watch` shows how it goes on")
		return nil
	}
	b.applied = true // also what was asked for before goes on
	for _, key := range b.targets() {
		if err := b.waitFor(ctx, c, key); err != nil {
			return err
		}
	}
	return nil
}

// options are the environment's; an existing one keeps what it was made with.
func (u *up) options(nodeBinary string) embed.Options {
	o := embed.Options{State: u.State, Network: u.prefix, NodeBinary: nodeBinary, FeatureGates: u.gates}
	o.Artifacts.Prebuilt, o.Artifacts.Bundle = u.Environment("QUORATE_ARTIFACTS"), u.Bundle()
	if e, err := embed.Load(u.State); err == nil {
		o.Kubernetes, o.Artifacts.Cache, o.Artifacts.Made = e.Kubernetes, e.Cache, embed.Made(u.State)
		if o.Artifacts.Prebuilt == "" {
			o.Artifacts.Prebuilt = e.Prebuilt
		}
		return o
	}
	o.Kubernetes = artifacts.DefaultVersion
	if v := u.versions(); len(v) > 0 {
		o.Kubernetes = v[0]
	}
	return o
}

// checkRunning finds what is impossible before anything is built or started, if there is a management plane to ask.
func (b *bringUp) checkRunning(ctx context.Context) error {
	if _, running := embed.Running(b.State); !running {
		return nil
	}
	c, err := b.Connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := b.todo(ctx, c); isRefused(err) {
		return err
	}
	return nil // the daemon may be coming up; applying asks again
}

// needed are the versions that the machines are known to need before a management plane is asked. In an environment that exists, the
// cluster may exist too, and keeps its version unless the flags set another.
func (u *up) needed() []string {
	if _, err := embed.Load(u.State); err == nil && u.objects == nil && !u.given("kubernetes-version") {
		return nil
	}
	return u.versions()
}

// ensureLater builds what the machines turn out to need once the management plane has said which version they have.
func (b *bringUp) ensureLater(ctx context.Context, c client.Client, o embed.Options, before []string) error {
	if _, err := b.todo(ctx, c); err != nil {
		return err
	}
	later := slices.DeleteFunc(b.versions(), func(v string) bool { return slices.Contains(before, v) })
	if len(later) == 0 {
		return nil
	}
	return command.Stage(b.screen, "artifacts", func() (string, error) { return b.ensureArtifacts(ctx, o, later) })
}

// ensureArtifacts builds what is missing of versions.
func (b *bringUp) ensureArtifacts(ctx context.Context, o embed.Options, versions []string) (string, error) {
	ticker := command.NewTicker(b.screen)
	defer ticker.Stop()
	o.Artifacts.Progress = ticker.Product
	var done []string
	for _, v := range versions {
		if slices.Contains(done, v) {
			continue
		}
		if _, err := artifacts.Ensure(ctx, o.Artifacts, v); err != nil {
			return "", fmt.Errorf("preparing the artifacts of Kubernetes %s: %w", v, err)
		}
		done = append(done, v)
	}
	folder, err := o.Artifacts.CacheFolder()
	if o.Artifacts.Prebuilt != "" {
		folder = o.Artifacts.Prebuilt
	}
	return "Kubernetes " + strings.Join(done, ", ") + " in " + folder, err
}

func (b *bringUp) startDaemon(ctx context.Context, o embed.Options) (string, error) {
	b.started = true
	ticker := command.NewTicker(b.screen)
	defer ticker.Stop()
	o.Artifacts.Progress = ticker.Product
	if err := embed.Start(ctx, o, ticker.Say); err != nil {
		return "", err
	}
	config, err := embed.RESTConfig(b.State)
	if err != nil {
		return "", err
	}
	return planeDetail(b.State, config.Host), nil
}

// finish writes the kubeconfig and says what to do next.
func (b *bringUp) finish(ctx context.Context, c client.Client, key client.ObjectKey, how string) error {
	path, err := b.WriteKubeconfig(ctx, c, key)
	if err != nil {
		return err
	}
	seen, err := b.Look(ctx, c, key)
	if err != nil {
		return err
	}
	cluster := facts.Describe(facts.WithObserved(ctx, c, seen))
	machines := cluster.Machines()
	b.screen.Print(
		screen.Line{},
		screen.Line{
			{Text: key.Name, Colour: screen.Strong}, {Text: " " + how + ": "},
			{Text: fmt.Sprintf("%d of %d machines ready, etcd %s", report.Ready(machines), len(machines), cluster.Quorum().Sentence()),
				Colour: screen.Good},
			{Text: "  " + report.Elapsed(time.Since(b.begun)), Colour: screen.Faint},
		},
		screen.Line{},
	)
	for _, next := range [][2]string{
		{"export KUBECONFIG=" + path, "for kubectl and other tools"},
		{"quorate kubectl " + key.Name + " -- get nodes", "with the kubectl that was built"},
		{"quorate status " + key.Name + " --watch", "machines, quorum, what happens next"},
		{"quorate down " + key.Name, "deletes this cluster; `quorate down` deletes all"},
	} {
		b.screen.Print(screen.Line{{Text: fmt.Sprintf("  %-44s ", next[0])}, {Text: "# " + next[1], Colour: screen.Faint}})
	}
	return nil
}

// whatGoesOn tells the user, after an interrupt, what was begun, how to see it and how to undo it.
func (b *bringUp) whatGoesOn() string {
	name := ""
	if keys := b.targets(); len(keys) == 1 {
		name = " " + keys[0].Name
	}
	switch {
	case b.applied:
		return "interrupted; the work goes on in the background: `quorate status" + name + " --watch` shows it, `quorate down" + name +
			"` undoes it"
	case b.started:
		return "interrupted; nothing was asked of the management plane, which comes up in the background: the same command goes on from there, " +
			"`quorate down` undoes it"
	}
	return "interrupted; nothing was begun but artifacts, which stay in their cache: the same command goes on from there"
}
