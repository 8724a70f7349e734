// Command quorate-manager runs Quorate's controllers for a management cluster that has Cluster API already.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the log format json
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/internal/manager/outgoing"
	"github.com/quorate/quorate/internal/program/buildinfo"
	"github.com/quorate/quorate/internal/program/buildinfo/gauge"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// program is the name of this program.
const program = "quorate-manager"

// settings are what the command line says.
type settings struct {
	manager manager.Options
	serving flags.ManagerOptions
	logs    *logs.Options

	health      string
	profiling   bool
	profiler    string
	version     bool
	qps         float32
	burst       int
	elect       bool
	lease       time.Duration
	renew       time.Duration
	retry       time.Duration
	electionNS  string
	gracePeriod time.Duration
	headroom    int

	webhookPort     int
	webhookCert     string
	webhookCertName string
	webhookKeyName  string
}

func (s *settings) add(fs *pflag.FlagSet) {
	s.logs = logs.NewOptions()
	logsv1.AddFlags(s.logs, fs)
	flags.AddManagerOptions(fs, &s.serving)
	feature.MutableGates.AddFlag(fs)
	fs.StringSliceVar(&s.manager.Providers, "providers", manager.Providers,
		"Which of Quorate's providers this is, of "+strings.Join(manager.Providers, " and ")+
			". Empty: none, for a manager that serves the Runtime Extension alone.")
	fs.IntVar(&s.headroom, "memory-headroom", 10,
		"How much of GOMEMLIMIT Go leaves, in percent, where that is set: a container's limit counts more than Go does.")
	fs.StringVar(&s.manager.Namespace, "namespace", "", "Work on objects of this namespace only. Empty: of all.")
	fs.StringVar(&s.manager.WatchFilter, "watch-filter", "",
		"Work on objects only whose label "+clusterv1.WatchLabel+
			" has this value. Several managers with a value each share a large management cluster.")
	fs.BoolVar(&s.manager.EtcdForwardOnly, "etcd-forward-only", false,
		"Reach etcd by port-forwards through the clusters' API servers alone. For management clusters that cannot reach machines, or whose "+
			"networks use the same addresses.")
	s.manager.Bounds.AddFlags(fs)
	s.manager.Backups.AddFlags(fs)
	fs.StringVar(&s.manager.UpgraderImage, "upgrader-image", "",
		"Image that upgrades nodes in place, with %s for the Kubernetes version, where neither a NodeUpgrade nor the ConfigMap "+
			upgraders.ConfigMap+" names one. "+
			"Empty: nothing is upgraded in place to versions without one.")
	fs.IntVar(&s.manager.Concurrency, "concurrency", manager.DefaultConcurrency,
		"How many control planes are worked on at the same time; those that wait for their own API server or etcd are not counted.")
	fs.DurationVar(&s.manager.SyncPeriod, "sync-period", 10*time.Minute,
		"After how long every object is looked at again although nothing was reported.")
	fs.Float32Var(&s.qps, "kube-api-qps", 100, "Requests a second to the management cluster's API server.")
	fs.IntVar(&s.burst, "kube-api-burst", 200, "Requests to the management cluster's API server in one burst.")
	fs.BoolVar(&s.version, "version", false, "Print the version of this program, and end.")
	fs.StringVar(&s.health, "health-addr", ":9440", "Address of the endpoints healthz and readyz.")
	fs.BoolVar(&s.profiling, "profiling", false,
		"Serve profiles at /debug/pprof/ of the diagnostics endpoint, for those who may read them there.")
	fs.StringVar(&s.profiler, "profiler-address", "",
		"Address of an endpoint for profiles, without authentication, for example localhost:6060. Empty: none.")
	fs.IntVar(&s.webhookPort, "webhook-port", 0,
		"Port of the webhooks that validate and convert Quorate's kinds. 0: none, for a manager beside one that serves them.")
	fs.StringVar(&s.webhookCert, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs",
		"Folder of the certificate and key of webhooks, Runtime Extension and diagnostics endpoint.")
	fs.StringVar(&s.webhookCertName, "webhook-cert-name", "tls.crt", "File of the certificate.")
	fs.StringVar(&s.webhookKeyName, "webhook-key-name", "tls.key", "File of the key.")
	fs.IntVar(&s.manager.Extension.Port, "runtime-extension-port", 0,
		"Port of the Runtime Extension by which Cluster API's own controllers update machines in place, "+
			"for an ExtensionConfig that names it. It has the webhooks' certificate. 0: none.")
	fs.BoolVar(&s.elect, "leader-elect", false, "Work only while holding a lease, so that one of several replicas works.")
	fs.StringVar(&s.electionNS, "leader-elect-namespace", "", "Namespace of the lease. Empty: the one this runs in.")
	fs.DurationVar(&s.lease, "leader-elect-lease-duration", 15*time.Second, "After how long without renewal another replica takes over.")
	fs.DurationVar(&s.renew, "leader-elect-renew-deadline", 10*time.Second, "For how long the leader tries to renew before it gives up.")
	fs.DurationVar(&s.retry, "leader-elect-retry-period", 2*time.Second, "How often replicas try to take or renew the lease.")
	fs.DurationVar(&s.gracePeriod, "shutdown-grace-period", 30*time.Second, "How long what is under way may take to end.")
}

// maxHeadroom is the largest part of the memory limit, in percent, that may be left. With less memory than the rest Go does little but
// collect garbage.
const maxHeadroom = 50

// garbage is how much memory, in percent of what is in use, may be taken before garbage is collected, where the environment variable GOGC
// does not say it. More than Go's own 100: collecting took a seventh of a manager's processor time, for less than half of its memory.
const garbage = 150

// memoryLimit returns the limit for Go, in bytes, where the container may use limit, of which headroom percent are left. math.MaxInt64 is
// no limit, and stays none.
func memoryLimit(limit int64, headroom int) int64 {
	if limit == math.MaxInt64 {
		return limit
	}
	return limit - limit/100*int64(headroom)
}

// check says which value cannot be worked with.
func (s *settings) check() error {
	if err := s.checkProviders(); err != nil {
		return err
	}
	switch {
	case s.headroom < 0 || s.headroom > maxHeadroom:
		return fmt.Errorf("--memory-headroom=%d: it must be from 0 to %d", s.headroom, maxHeadroom)
	case s.manager.Concurrency < 1:
		return fmt.Errorf("--concurrency=%d: at least 1 is needed", s.manager.Concurrency)
	case s.manager.SyncPeriod < time.Minute:
		return fmt.Errorf("--sync-period=%s: at least 1m is needed", s.manager.SyncPeriod)
	case !isPort(s.webhookPort):
		return fmt.Errorf("--webhook-port=%d: it must be from 0 to %d", s.webhookPort, math.MaxUint16)
	case !isPort(s.manager.Extension.Port):
		return fmt.Errorf("--runtime-extension-port=%d: it must be from 0 to %d", s.manager.Extension.Port, math.MaxUint16)
	case s.profiling && s.serving.InsecureDiagnostics:
		return errors.New("--profiling, --insecure-diagnostics: profiles are served to those only who prove who they are; leave one of " +
			"the two out")
	case s.qps <= 0 || s.burst < 1:
		return fmt.Errorf("--kube-api-qps=%v, --kube-api-burst=%d: both must be positive", s.qps, s.burst)
	case !s.electsInOrder():
		return fmt.Errorf("--leader-elect-...: retry period %s, renew deadline %s and lease duration %s must be positive and grow in this order",
			s.retry, s.renew, s.lease)
	}
	if err := s.manager.Backups.Check(); err != nil {
		return err
	}
	return s.manager.Bounds.Check()
}

// checkProviders says which provider there is not, or that nothing is to be done.
func (s *settings) checkProviders() error {
	known := strings.Join(manager.Providers, " and ")
	for _, p := range s.manager.Providers {
		if !slices.Contains(manager.Providers, p) {
			return fmt.Errorf("--providers=%s: there is no provider %q; there are %s", strings.Join(s.manager.Providers, ","), p, known)
		}
	}
	if len(s.manager.Providers) == 0 && s.manager.Extension.Port == 0 {
		return fmt.Errorf("--providers, --runtime-extension-port: there is nothing to do without one of %s and without the Runtime Extension",
			known)
	}
	return nil
}

func isPort(n int) bool { return 0 <= n && n <= math.MaxUint16 }

// electsInOrder reports whether a leader, if one is elected, tries again before it must have renewed its lease, and renews before that
// ends.
func (s *settings) electsInOrder() bool {
	return !s.elect || 0 < s.retry && s.retry < s.renew && s.renew < s.lease
}

// profiles are where the diagnostics endpoint has profiles, if it has.
const profiles = "/debug/pprof/"

// options are those of the manager. They complete those of the Runtime Extension, which has certificate and TLS settings of the webhooks.
func (s *settings) options() (ctrl.Options, error) {
	tlsOptions, metrics, err := flags.GetManagerOptions(s.serving)
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("reading the flags of TLS and of the diagnostics endpoint: %w", err)
	}
	if !s.profiling {
		maps.DeleteFunc(metrics.ExtraHandlers, func(path string, _ http.Handler) bool { return strings.HasPrefix(path, profiles) })
	}
	// The certificate of webhooks and Runtime Extension, so that who scrapes can verify it. Where its files are missing, the endpoint makes
	// one itself.
	metrics.CertDir, metrics.CertName, metrics.KeyName = s.webhookCert, s.webhookCertName, s.webhookKeyName
	e := &s.manager.Extension
	e.CertDir, e.CertName, e.KeyName, e.TLS = s.webhookCert, s.webhookCertName, s.webhookKeyName, tlsOptions
	return ctrl.Options{
		Metrics: *metrics,
		WebhookServer: webhook.NewServer(webhook.Options{
			Port: s.webhookPort, CertDir: s.webhookCert, CertName: s.webhookCertName, KeyName: s.webhookKeyName, TLSOpts: tlsOptions,
		}),
		HealthProbeBindAddress:     s.health,
		PprofBindAddress:           s.profiler,
		LeaderElection:             s.elect,
		LeaderElectionID:           leaseOf(s.manager.Providers, s.manager.WatchFilter, s.manager.Namespace),
		LeaderElectionNamespace:    s.electionNS,
		LeaderElectionResourceLock: resourcelock.LeasesResourceLock,
		// The lease is released when all controllers have ended, or the process is about to.
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &s.lease,
		RenewDeadline:                 &s.renew,
		RetryPeriod:                   &s.retry,
		GracefulShutdownTimeout:       &s.gracePeriod,
	}, nil
}

func run(ctx context.Context, s *settings) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := logsv1.ValidateAndApply(s.logs, nil); err != nil {
		return fmt.Errorf("reading the flags of the log: %w", err)
	}
	log := outgoing.Logger(klog.Background())
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true))
	ctrl.SetLogger(log)
	build := buildinfo.Get()
	log.Info("starting "+program, "version", build.Version, "revision", build.Revision, "date", build.Date, "go", build.Go)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	debug.SetMemoryLimit(memoryLimit(debug.SetMemoryLimit(-1), s.headroom))
	s.manager.Webhooks = s.webhookPort != 0
	if err := gauge.Register(metrics.Registry); err != nil {
		return err
	}
	mgr, err := s.newManager()
	if err != nil {
		return err
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return fmt.Errorf("adding probes: %w", err)
	}
	if err := manager.Setup(ctx, mgr, s.manager); err != nil {
		return err
	}
	if s.manager.Webhooks {
		if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
			return fmt.Errorf("adding probes: %w", err)
		}
	}
	return mgr.Start(ctx)
}

// newManager makes the manager over the management cluster that flags and environment name.
func (s *settings) newManager() (ctrl.Manager, error) {
	base, err := s.options()
	if err != nil {
		return nil, err
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the management cluster: %w", err)
	}
	cfg.QPS, cfg.Burst = s.qps, s.burst
	return manager.New(cfg, base, s.manager)
}

func main() {
	scratch.RunIfChild()
	s := &settings{}
	fs := pflag.CommandLine
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	s.add(fs)
	fs.AddGoFlagSet(flag.CommandLine)
	pflag.Parse()
	if s.version {
		fmt.Println(buildinfo.Get().Line(program))
		return
	}
	if err := run(ctrl.SetupSignalHandler(), s); err != nil {
		fmt.Fprintln(os.Stderr, program+":", err)
		os.Exit(1)
	}
}
