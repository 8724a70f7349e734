// Package embed is the management plane of a single host. One daemon runs etcd, kube-apiserver and the garbage
// collector as its children, puts Cluster API's and Quorate's kinds into them, and runs all controllers itself. It
// knows the files of a state folder's daemon, its ports, keys and processes. It does not know machines or clusters; what
// the controllers do is theirs.
package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/gofrs/flock"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/provider"
	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/manager/host"
)

// Options are an environment's, as its user wishes. All but State may be empty. What an existing environment
// has stays, and a new one gets what the fields say.
type Options struct {
	// State is the state folder.
	State string
	// Network is the range of addresses of a new environment; zero: DefaultNetwork. For an existing one it must be its own.
	Network netip.Prefix
	// Kubernetes is the version of a new environment's management plane, "v1.36.3"; empty: the newest. An existing one keeps its own.
	Kubernetes string
	// Artifacts say where artifacts are found or built.
	Artifacts artifacts.Options
	// NodeBinary is the path of quorate-node.
	NodeBinary string
	// FeatureGates are those of Cluster API to choose; nil: they stay as they are.
	FeatureGates map[string]bool
	// Command is what Start runs as the daemon: it must call Run for the same State. Empty: this program with
	// the arguments daemon --state STATE.
	Command []string
	// Audit has the API server keep a log of what Quorate's own controllers ask of it: see AuditLogs.
	Audit bool
	// Verbosity is the level of detail of the log: 0 says what happens, up to 5.
	Verbosity int
}

func (o Options) complete() (Options, error) {
	if o.State == "" {
		return o, errors.New("state: empty; the path of a folder is needed, for example /var/lib/quorate")
	}
	state, err := filepath.Abs(o.State)
	if err != nil {
		return o, fmt.Errorf("making %q absolute: %w", o.State, err)
	}
	o.State = state
	if len(o.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("finding this program: %w", err)
		}
		o.Command = []string{self, "daemon", "--state", state}
	}
	return o, nil
}

// Run is the daemon: it runs the management plane of a state folder in the foreground until ctx ends, and ends it in order.
// When a daemon runs already, it returns ErrRunning. What is written to standard error goes on into daemon.log when it
// is that file already; Start sees to that.
func Run(ctx context.Context, o Options) error {
	o, err := o.complete()
	if err != nil {
		return err
	}
	lock, err := lockDaemon(o.State)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := errors.Join(status{Phase: "starting"}.save(o.State), record(filepath.Join(o.State, daemonPID), os.Getpid())); err != nil {
		return err
	}
	defer func() { _ = os.Remove(filepath.Join(o.State, daemonPID)) }()

	log, err := setLog(o)
	if err != nil {
		return err
	}
	d := &daemon{state: o.State, audit: o.Audit, log: log, began: time.Now()}
	e, err := Load(o.State)
	if err != nil || !e.complete() {
		// It was not prepared: Run was not called by way of Start, or the cache was removed.
		if e, err = ensureEnvironment(ctx, o, d.phase); err != nil {
			return err
		}
	}
	err = d.run(ctx, e)
	log.Info("daemon ends", "error", fmt.Sprint(err))
	return err
}

// lockDaemon makes the state folder and the calling process its only daemon; ErrRunning when there is another.
func lockDaemon(state string) (*flock.Flock, error) {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, fmt.Errorf("creating the state folder: %w", err)
	}
	lock := flock.New(filepath.Join(state, daemonLock))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking the state folder: %w", err)
	}
	if !got {
		return nil, fmt.Errorf("%s: %w", state, ErrRunning)
	}
	return lock, nil
}

// daemon is one life of the management plane.
type daemon struct {
	state string
	audit bool
	log   logr.Logger
	began time.Time
}

// phase reports how far the start is, to the log and to who waits for it.
func (d *daemon) phase(what string) {
	d.log.Info(what, "after", time.Since(d.began).Round(time.Millisecond).String())
	if err := (status{Phase: what}).save(d.state); err != nil {
		d.log.Error(err, "reporting the phase")
	}
}

func (d *daemon) run(ctx context.Context, e Environment) error {
	d.phase("starting etcd and the API server")
	e, err := d.completePorts(e)
	if err != nil {
		return err
	}
	plane := newPlane(d.state, e, d.audit, d.log)
	if err := killChildren(d.state); err != nil {
		return err
	}
	if err := errors.Join(e.Ports.check(), plane.prepare()); err != nil {
		return err
	}
	stop, err := plane.run()
	if err != nil {
		return err
	}
	defer stop()
	authority, err := os.ReadFile(plane.secret(clusterAuthority + ".crt"))
	if err != nil {
		return fmt.Errorf("reading the authority: %w", err)
	}
	m, err := readManifests(e.Artifacts.CRDs, loopbackURL(e.Ports.Webhooks), authority)
	if err != nil {
		return err
	}
	mgr, err := d.controllers(ctx, e, plane, m)
	if err != nil {
		return err
	}
	return d.serve(ctx, mgr, e)
}

// completePorts chooses the ports that an environment of an older version does not have.
func (d *daemon) completePorts(e Environment) (Environment, error) {
	ports, err := e.Ports.complete()
	if err != nil || ports == e.Ports {
		return e, err
	}
	e.Ports = ports
	return e, e.Save(d.state)
}

// controllers installs the manifests and sets up all controllers; it returns with an API server that serves all kinds.
func (d *daemon) controllers(ctx context.Context, e Environment, plane *plane, m *manifests) (ctrl.Manager, error) {
	c, err := d.adminClient()
	if err != nil {
		return nil, err
	}
	if err := ask(ctx, c, plane.trouble); err != nil {
		return nil, err
	}
	d.phase("installing Cluster API's and Quorate's kinds")
	if err := install(ctx, c, m); err != nil {
		return nil, err
	}
	// Only now: it gives up without an answer.
	if err := plane.garbage.start(); err != nil {
		return nil, err
	}
	mgr, o, err := d.newManager(ctx, e, plane)
	if err != nil {
		return nil, err
	}
	d.phase("waiting for all kinds to be served")
	if err := ready(ctx, c, mgr.GetRESTMapper(), m.crds); err != nil {
		return nil, err
	}
	if e.madeFor() == "" { // else the management cluster has it
		if err := ensureBackupStore(ctx, c); err != nil {
			return nil, err
		}
	}
	d.phase("starting the controllers")
	return mgr, host.Setup(ctx, mgr, o)
}

// adminClient works before there is anything to serve kinds; nothing limits it.
func (d *daemon) adminClient() (client.Client, error) {
	admin, err := PlaneRESTConfig(d.state)
	if err != nil {
		return nil, err
	}
	admin.QPS = -1
	c, err := client.New(admin, client.Options{Scheme: host.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("creating the administrator's client: %w", err)
	}
	return c, nil
}

// newManager makes the manager, with identities of its own, and returns what its controllers are to be set up with.
func (d *daemon) newManager(ctx context.Context, e Environment, plane *plane) (ctrl.Manager, host.Options, error) {
	cfg, err := user(ctx, plane, "controllers")
	if err != nil {
		return nil, host.Options{}, err
	}
	own, err := user(ctx, plane, "manager")
	if err != nil {
		return nil, host.Options{}, err
	}
	machines, err := d.machines(e)
	if err != nil {
		return nil, host.Options{}, err
	}
	o := options(e, own)
	o.Extension = extensionOptions(e, plane)
	// As a management cluster does that reaches machines through their API servers alone.
	o.EtcdForwardOnly = os.Getenv("QUORATE_ETCD_FORWARD_ONLY") == "true"
	if e.madeFor() == "" {
		o.Local = machines
		seeds := net.JoinHostPort(machines.Host.Gateway().String(), seedPort)
		o.Backups.SeedBind, o.Backups.SeedAddress = seeds, seeds
	}
	o.Backups.Folder, o.Backups.Scratch = BackupFolder(d.state), filepath.Join(d.state, "scratch")
	// What a process before left in the scratch folder goes.
	err = errors.Join(os.RemoveAll(o.Backups.Scratch), os.MkdirAll(o.Backups.Scratch, 0o700), os.MkdirAll(o.Backups.Folder, 0o700))
	if err != nil {
		return nil, host.Options{}, fmt.Errorf("making the folders of backups: %w", err)
	}
	if _, err := EnsureBackupRecipient(d.state); err != nil {
		return nil, host.Options{}, err
	}
	mgr, err := host.New(cfg, d.managerOptions(e, plane), o)
	if err != nil || e.madeFor() == "" {
		return mgr, o, err
	}
	return mgr, o, mgr.Add(ctrlmanager.RunnableFunc(func(ctx context.Context) error { return d.follow(ctx, e, *machines) }))
}

// seedPort is where machines fetch the snapshots that they restore, on the host's address on their bridge.
const seedPort = "9445"

// options are those of an environment's controllers. Local machines import their upgrader's image from the host, under the name that it has
// there.
func options(e Environment, own *rest.Config) host.Options {
	o := host.Options{Embedded: &host.Embedded{Own: own, RuntimeExtensions: e.RuntimeExtensions, FeatureGates: e.FeatureGates}}
	o.UpgraderImage = artifacts.UpgraderImage + ":%s"
	return o
}

// user returns how one of the daemon's users reaches the API server, once that has taken notice of the user's rights.
func user(ctx context.Context, plane *plane, name string) (*rest.Config, error) {
	cfg, err := restConfig(plane.kubeconfig(name))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	cfg.QPS = -1
	return cfg, mayRead(ctx, cfg)
}

// machines is what machines are made with.
func (d *daemon) machines(e Environment) (*provider.Options, error) {
	on, err := sandbox.Open(d.state, e.Network, e.NodeBinary)
	if err != nil {
		return nil, fmt.Errorf("opening the machines' host: %w", err)
	}
	return &provider.Options{
		Host: on, Network: e.Network, State: d.state, NodeBinary: e.NodeBinary,
		Artifacts: func(ctx context.Context, version string) (*artifacts.Set, error) {
			set, err := artifacts.Ensure(ctx, e.artifacts(d.state, nil), version)
			if err != nil || e.ManagementCluster == nil {
				return set, err
			}
			return artifacts.AddImages(ctx, e.artifacts(d.state, nil), set, e.ManagementCluster.Images)
		},
		EtcdArtifacts: func(ctx context.Context) (*artifacts.Set, error) {
			return artifacts.EnsureEtcd(ctx, e.artifacts(d.state, nil))
		},
		Upgrader: func(ctx context.Context, set *artifacts.Set) (string, error) {
			return artifacts.EnsureUpgrader(ctx, e.artifacts(d.state, nil), set, e.upgraderBinary())
		},
	}, nil
}

func (d *daemon) managerOptions(e Environment, plane *plane) ctrl.Options {
	limit := 5 * time.Second
	return ctrl.Options{
		Logger:  d.log,
		Metrics: metricsserver.Options{BindAddress: netip.AddrPortFrom(loopback, e.Ports.Metrics).String()},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: loopback.String(), Port: int(e.Ports.Webhooks),
			CertDir: plane.pki(), CertName: "webhooks.crt", KeyName: "webhooks.key",
		}),
		GracefulShutdownTimeout: &limit,
	}
}

// serve runs the controllers until ctx ends, or until they cannot run.
func (d *daemon) serve(ctx context.Context, mgr ctrl.Manager, e Environment) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		if err := d.report(ctx, mgr, e); err != nil {
			cancel(err)
		}
	}()
	err := mgr.Start(ctx)
	cancel(err)
	<-reported
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("running the controllers: %w", err)
	}
	return nil
}

// report says when webhooks answer and caches are filled, and when the end begins.
func (d *daemon) report(ctx context.Context, mgr ctrl.Manager, e Environment) error {
	if mgr.GetCache().WaitForCacheSync(ctx) {
		var last error
		started := mgr.GetWebhookServer().StartedChecker()
		if err := until(ctx, &last, "the webhook server", func(context.Context) (bool, error) {
			last = started(nil)
			return last == nil, nil
		}); err != nil && ctx.Err() == nil {
			return err
		}
		if err := d.registerExtension(ctx, e, &last); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if ctx.Err() == nil {
		d.log.Info("ready", "after", time.Since(d.began).Round(time.Millisecond).String())
		is := status{Phase: "ready", Ready: true, RuntimeExtensions: e.RuntimeExtensions, FeatureGates: e.FeatureGates, MadeFor: e.madeFor()}
		if err := is.save(d.state); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return status{Phase: phaseEnding}.save(d.state)
}

// setLog turns all logging of this process to standard error, or to daemon.log, with its size limited, when standard
// error is that file.
func setLog(o Options) (logr.Logger, error) {
	var out io.Writer = os.Stderr
	if isLog(o.State) {
		file, err := openLog(LogPath(o.State), 1, 2)
		if err != nil {
			return logr.Logger{}, err
		}
		out = file
	}
	log := host.Logger(logr.FromSlogHandler(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.Level(-o.Verbosity)})))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return log, nil
}

// isLog reports whether standard error is the daemon's log.
func isLog(state string) bool {
	there, err := os.Stat(LogPath(state))
	if err != nil {
		return false
	}
	mine, err := os.Stderr.Stat()
	return err == nil && os.SameFile(there, mine)
}
