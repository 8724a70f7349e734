// Package up is `quorate up`: it checks the flags and files, brings the management plane up, applies what makes a cluster,
// and waits until that is as wanted.
package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/manifest"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/embed"
)

// up is one run of `quorate up`: what its flags say, and what follows from them.
type up struct {
	*command.Invocation
	cluster manifest.Cluster
	domains string
	files   []string
	network string
	wait    bool
	timeout time.Duration
	dryRun  bool
	output  command.Format
	// selfManaged: the cluster is to keep the Clusters of the environment, its own among them.
	selfManaged bool
	// featureGates is the text of --feature-gates, and gates what it chooses; nil: it is not given.
	featureGates string
	gates        map[string]bool
	// given reports whether a flag was on the command line.
	given func(flag string) bool

	// objects are those of the files; nil when the flags describe the cluster.
	objects []*unstructured.Unstructured
	// prefix is the address range of --network; not valid when none was given.
	prefix netip.Prefix
}

// Command is `quorate up`.
func Command(a *command.Invocation) *cobra.Command {
	u := &up{Invocation: a}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make a cluster on this host, or change one to what the flags say",
		Long: `Make a cluster on this host, and with the first one the management plane that keeps it.

What is given on the command line is wanted; what is not stays as it is in a cluster that exists, and has the defaults
below in a new one. So the same command again changes nothing, and 'quorate up --replicas 5' makes a cluster of three one of
five. With -f your own manifests are applied instead (server-side, as kubectl apply does).

The control plane is a KubeadmControlPlane, or with --kind ControlPlane the machines alone, which the kubeadm bootstrap provider sets
up from templates of its own. A cluster keeps its kind.

Root in a local machine is root on the host: machines are namespaces, which keep experiments apart and not attackers. A user who
may run privileged pods in such a cluster can become root here.

It waits until the control plane says that it is as wanted, all machines are Ready and all components healthy. Interrupting it
interrupts the waiting only: the work goes on in the background. What is made is shown by 'quorate up --dry-run -o yaml', with
comments.

Its etcd is backed up once a day, or as --backup says, into the folder backups of --state, encrypted for the identity in that folder. Both
stay when the cluster goes. The first 'quorate up' in a state folder makes the identity: --dry-run before it shows no encryption.

With --self-managed the cluster becomes its own management cluster, and that of all others of the environment. clusterctl installs
cert-manager, Cluster API and Quorate in it, and all Clusters are moved there. No machine is replaced. The daemon
stays as the provider of machines. --self-managed=false moves all back.

With QUORATE_ETCD_FORWARD_ONLY=true in its environment the management plane reaches etcd by port-forwards alone, like a manager with
--etcd-forward-only in a management cluster that cannot reach machines. With QUORATE_RUNTIME_EXTENSIONS=true, until it is false, its
Cluster API calls Runtime Extensions, of which Quorate is one: docs/in-place.md.`,
		Example: `  quorate up                                         # three machines, called demo
  quorate up --name small --replicas 1 --workers 2   # one machine and two workers
  quorate up --name small --workers 3                # the same cluster, one worker more
  quorate up --kubernetes-version v1.35.4 --name old
  quorate up --max-parallel 1                        # machines join one after the other
  quorate up --auto-repair                           # machines that break are replaced
  quorate up --in-place --kubernetes-version v1.37.2 # another version without other machines
  quorate up --etcd 3 --name apart                   # etcd on three machines of its own
  quorate up --kind ControlPlane --name machines     # the control plane is machines and their bootstrap templates
  quorate up --backup @hourly                        # etcd is backed up every hour; with none never
  quorate up --feature-gates MachineTaintPropagation=true
  quorate up --self-managed                          # demo keeps itself, and clusters that are made later
  quorate up -f examples/cluster.yaml                # your own manifests; - reads them from standard input
  quorate up --dry-run -o yaml --workers 2           # only print the manifests`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u.given = func(flag string) bool { return cmd.Flags().Changed(flag) }
			return u.run(cmd.Context())
		},
	}
	u.addFlags(cmd)
	return cmd
}

// addFlags adds the flags: what the cluster is to be, first, and then how it is brought up.
func (u *up) addFlags(cmd *cobra.Command) {
	u.cluster.Namespace = "default"
	f := cmd.Flags()
	f.StringVar(&u.cluster.Name, "name", "demo", "name of the cluster")
	f.StringVar((*string)(&u.cluster.Kind), "kind", string(manifest.KubeadmControlPlane), "kind of the control plane: "+
		strings.Join(manifest.Kinds(), " or "))
	f.Int32Var(&u.cluster.Replicas, "replicas", 3, "machines of the control plane: 1, 3, 5 or 7")
	f.Int32Var(&u.cluster.Etcd, "etcd", 0, "machines of etcd's own: 1, 3, 5 or 7; 0 for etcd on the control plane's machines")
	f.StringVar(&u.cluster.EtcdVersion, "etcd-version", "", "version of etcd on machines of its own (default 3.6.16)")
	f.Int32Var(&u.cluster.Workers, "workers", 0, "worker machines")
	f.StringVar(&u.cluster.Version, "kubernetes-version", artifacts.DefaultVersion, "version of Kubernetes: "+
		strings.Join(artifacts.Versions(), " or "))
	f.StringVar(&u.domains, "failure-domains", "a,b,c", "names of failure domains that machines are spread over; empty for none")
	f.Int32Var(&u.cluster.MaxParallel, "max-parallel", 0, "machines that may join at once; 0 for as many as are missing")
	f.BoolVar(&u.cluster.Eager, "eager", false,
		"make all machines of the control plane at the same moment as the first; they join when that has initialised the cluster")
	f.BoolVar(&u.cluster.AutoRepair, "auto-repair", false,
		"replace machines of the control plane that break, as far as the quorum allows; a ControlPlane does unless this is false")
	f.StringVar((*string)(&u.cluster.InPlace), "in-place", string(controlplanev1.InPlaceNever),
		"change machines in place instead of replacing them, the workers after the control plane: "+strings.Join(manifest.InPlacePolicies(),
			", ")+"; without a value "+string(controlplanev1.InPlacePreferred))
	f.Lookup("in-place").NoOptDefVal = string(controlplanev1.InPlacePreferred)
	f.StringVar(&u.cluster.Backup, "backup", "@daily",
		"when etcd is backed up into the folder backups of --state: the five fields of cron, a word such as @hourly, or "+manifest.NoBackup)
	f.StringVar((*string)(&u.cluster.IPFamily), "ip-family", string(manifest.IPv4),
		"addresses of machines, pods and Services: ipv4, ipv6 or dual for both; a cluster keeps its own")
	f.BoolVar(&u.selfManaged, "self-managed", false,
		"the cluster becomes the management cluster of this environment; with false it gives all Clusters back to the host's management plane")
	f.StringSliceVarP(&u.files, "filename", "f", nil, "apply these manifests instead; - is standard input")
	f.StringVar(&u.network, "network", "", "address range of a new environment, from /8 to /22 (default 172.30.0.0/16)")
	f.StringVar(&u.featureGates, "feature-gates", "",
		"feature gates of the management plane's Cluster API, as NAME=true,NAME=false, until other ones are given; empty for its defaults: "+
			strings.Join(embed.FeatureGates(), ", "))
	f.BoolVar(&u.wait, "wait", true, "wait until the cluster is up")
	f.DurationVar(&u.timeout, "timeout", 15*time.Minute, "how long to wait for the cluster")
	f.BoolVar(&u.dryRun, "dry-run", false, "print the manifests and change nothing")
	f.VarP(&u.output, "output", "o", "yaml; with --dry-run")
	u.output = "yaml"
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", cobra.FixedCompletions(artifacts.Versions(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("in-place", cobra.FixedCompletions(manifest.InPlacePolicies(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("ip-family", cobra.FixedCompletions(manifest.IPFamilies(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(manifest.Kinds(), cobra.ShellCompDirectiveNoFileComp))
}

// run goes from what can be checked without changing anything to what changes most.
func (u *up) run(ctx context.Context) error {
	if err := u.check(); err != nil {
		return command.Usage(err)
	}
	if u.dryRun {
		return u.print()
	}
	node, err := u.checkHost(ctx)
	if err != nil {
		return err
	}
	b := &bringUp{up: u, nodeBinary: node, screen: u.NewScreen(), begun: time.Now()}
	err = b.run(ctx)
	if ctx.Err() != nil && err != nil {
		return &command.ExitError{Code: command.ExitInterrupted, Err: errors.New(b.whatGoesOn())}
	}
	return err
}

// check looks at what can be known to be wrong without a management plane.
func (u *up) check() error {
	if err := u.checkFlags(); err != nil {
		return err
	}
	if len(u.files) > 0 {
		return u.readFiles()
	}
	if !u.given("auto-repair") {
		u.cluster.AutoRepair = u.cluster.Kind.RepairsByDefault()
	}
	u.cluster.FailureDomains = manifest.Domains(u.domains)
	u.cluster.Version = command.WithV(u.cluster.Version)
	u.cluster.BackupStore = embed.BackupStore
	return u.cluster.Check(u.accepted())
}

// checkFlags checks flags that cannot be combined, and at those about the environment.
func (u *up) checkFlags() error {
	if err := u.checkFiles(); err != nil {
		return err
	}
	if u.given("output") && !u.dryRun {
		return errors.New("--output is for --dry-run, which prints the manifests")
	}
	if u.output == "table" {
		return errors.New("invalid --output \"table\": must be yaml or json")
	}
	if err := u.checkSelfManaged(); err != nil {
		return err
	}
	if u.given("timeout") && !u.wait {
		return errors.New("--timeout cannot be combined with --wait=false")
	}
	if u.timeout <= 0 {
		return fmt.Errorf("invalid --timeout \"%s\": must be greater than 0, for example 15m", u.timeout)
	}
	return errors.Join(u.checkNetwork(), u.checkGates())
}

// checkFiles looks for flags that say what manifests say.
func (u *up) checkFiles() error {
	if len(u.files) == 0 {
		return nil
	}
	for _, flag := range []string{"name", "kind", "replicas", "etcd", "etcd-version", "workers", "kubernetes-version", "failure-domains",
		"max-parallel", "eager", "auto-repair", "in-place", "ip-family",
		"backup"} {
		if u.given(flag) {
			return fmt.Errorf("--%s cannot be combined with -f: set it in the manifests, or leave -f out", flag)
		}
	}
	return nil
}

func (u *up) checkNetwork() error {
	if u.network == "" {
		return nil
	}
	prefix, err := netip.ParsePrefix(u.network)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() < 8 || prefix.Bits() > 22 {
		return fmt.Errorf("invalid --network %q: must be an IPv4 range from /8 to /22, for example 172.30.0.0/16", u.network)
	}
	u.prefix = prefix.Masked()
	return nil
}

func (u *up) readFiles() error {
	for _, name := range u.files {
		objects, err := u.ReadManifest(name)
		if err != nil {
			return err
		}
		u.objects = append(u.objects, objects...)
	}
	// What is not in the files may have been applied before; that is looked up once the management plane runs. Where there is
	// no environment nothing was: then it is known before anything is built or started.
	_, err := embed.Load(u.State)
	maybe := !errors.Is(err, fs.ErrNotExist)
	return manifest.CheckObjects(u.objects, u.accepted(), func(manifest.Reference) (bool, error) { return maybe, nil })
}

// print is --dry-run.
func (u *up) print() error {
	if u.objects != nil {
		for _, o := range u.objects {
			if err := u.printDocument(manifest.Document{About: "From your manifests.", Object: o}); err != nil {
				return err
			}
		}
		return nil
	}
	recipient, err := embed.ReadBackupRecipient(u.State)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	u.cluster.BackupRecipient = recipient
	for _, d := range u.cluster.Documents() {
		if err := u.printDocument(d); err != nil {
			return err
		}
	}
	return nil
}

func (u *up) printDocument(d manifest.Document) error {
	if u.output == "json" {
		o, err := manifest.Generic(d)
		if err != nil {
			return err
		}
		return u.Data("json", o)
	}
	return manifest.Write(u.Out, []manifest.Document{d})
}

// targets are the clusters that this run is about.
func (u *up) targets() []client.ObjectKey {
	if u.objects != nil {
		return manifest.Clusters(u.objects)
	}
	return []client.ObjectKey{{Namespace: u.cluster.Namespace, Name: u.cluster.Name}}
}

// versions are those of Kubernetes that the wanted machines need.
func (u *up) versions() []string {
	if u.objects != nil {
		return manifest.Versions(u.objects)
	}
	return []string{u.cluster.Version}
}

// accepted are the versions of Kubernetes that machines can have: those that are pinned, and those that the environment was made with.
func (u *up) accepted() []string { return artifacts.Options{Made: embed.Made(u.State)}.Versions() }
