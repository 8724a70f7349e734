// Package artifact is `quorate artifacts`, what machines are made of, listed, built, carried to other hosts and pruned, and `quorate
// version`.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/embed"
)

// app is the commands of this package.
type app struct{ *command.Invocation }

// Command is `quorate artifacts`.
func Command(i *command.Invocation) *cobra.Command { return (&app{i}).artifactsCommand() }

func (a *app) artifactsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "artifacts",
		Short: "List, build, export, import or remove what runs on machines and in the management plane",
		Long: `Kubernetes, etcd, containerd and all else that runs on machines is built from pinned sources, once for each version of
Kubernetes, and kept in a cache (~/.cache/quorate, or QUORATE_CACHE). 'quorate up' builds what is missing by itself.
QUORATE_ARTIFACTS names a folder of prebuilt ones. 'quorate artifacts export' and 'import' carry what was built to other hosts, which
then need no Go. 'quorate artifacts prune' removes what newer pins have superseded.`,
		Example: `  quorate artifacts list
  quorate artifacts build v1.37.2
  quorate artifacts prune    # what an older quorate built`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no %q; see %q", "quorate artifacts "+args[0], "quorate artifacts --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.artifactsListCommand(), a.artifactsBuildCommand(), a.exportCommand(), a.importCommand(), a.artifactsPruneCommand())
	return cmd
}

// artifactSet is one version of Kubernetes in a list, or the providers of a management cluster.
type artifactSet struct {
	// Kubernetes is the version; empty: these are the providers, which are the same for all versions.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Missing are the products that are not there.
	Missing []string `json:"missing,omitempty"`
	// Bytes on disk of what is there for this version; what versions share counts for each.
	Bytes int64 `json:"bytes"`
	// Set says where everything is; nil while something is missing.
	Set *artifacts.Set `json:"set,omitempty"`
	// Providers says where they are; nil: this is a version of Kubernetes, or something is missing.
	Providers *artifacts.Providers `json:"providers,omitempty"`
}

func (a *app) artifactsListCommand() *cobra.Command {
	var output command.Format
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the versions of Kubernetes that can be had, and the providers of a management cluster, and which are built",
		Example: "  quorate artifacts list -o yaml",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := artifacts.Options{Prebuilt: a.Environment("QUORATE_ARTIFACTS")}
			sets := []artifactSet{}
			for _, v := range artifacts.Versions() {
				s, err := artifactsOf(cmd.Context(), options, v)
				if err != nil {
					return err
				}
				sets = append(sets, s)
			}
			providers, err := providersOf(cmd.Context(), options)
			if err != nil {
				return err
			}
			sets = append(sets, providers)
			if output != "table" {
				return a.Data(output, sets)
			}
			folder, err := options.CacheFolder()
			if err != nil {
				return err
			}
			if options.Prebuilt != "" {
				folder = options.Prebuilt
			}
			a.NewScreen().Show(artifactsTable(sets, folder))
			return nil
		},
	}
	output.AddTo(cmd)
	return cmd
}

func artifactsOf(ctx context.Context, o artifacts.Options, version string) (artifactSet, error) {
	s := artifactSet{Kubernetes: version}
	var err error
	if s.Missing, err = artifacts.Missing(ctx, o, version); err != nil || len(s.Missing) > 0 {
		return s, err
	}
	if s.Set, err = artifacts.Ensure(ctx, o, version); err != nil {
		return s, err
	}
	paths := append([]string{s.Set.Management, s.Set.Machine, s.Set.CNI, s.Set.Store, s.Set.CRDs}, s.Set.Images...)
	s.Bytes, err = diskUse(paths)
	return s, err
}

// providersOf is what 'quorate up --self-managed' installs.
func providersOf(ctx context.Context, o artifacts.Options) (artifactSet, error) {
	var s artifactSet
	var err error
	if s.Missing, err = artifacts.MissingProviders(ctx, o); err != nil || len(s.Missing) > 0 {
		return s, err
	}
	if s.Providers, err = artifacts.EnsureProviders(ctx, o); err != nil {
		return s, err
	}
	s.Bytes, err = diskUse(append([]string{s.Providers.Clusterctl, s.Providers.Helm, s.Providers.Repository}, s.Providers.Images...))
	return s, err
}

// diskUse is how much the files below paths take, each file once however often it is linked.
func diskUse(paths []string) (int64, error) {
	var sum int64
	seen := map[[2]uint64]bool{}
	for _, p := range paths {
		if p == "" {
			continue
		}
		err := filepath.WalkDir(p, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			sum += fileUse(info, seen)
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			return 0, fmt.Errorf("measuring %s: %w", p, err)
		}
	}
	return sum, nil
}

// fileUse is how much one file takes; nothing when it was seen already, by device and inode.
func fileUse(info fs.FileInfo, seen map[[2]uint64]bool) int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || seen[[2]uint64{stat.Dev, stat.Ino}] {
		return 0
	}
	seen[[2]uint64{stat.Dev, stat.Ino}] = true
	return stat.Blocks * 512
}

func artifactsTable(sets []artifactSet, folder string) []screen.Line {
	rows := [][]screen.Span{{
		{Text: "WHAT", Colour: screen.Strong}, {Text: "BUILT", Colour: screen.Strong},
		{Text: "SIZE", Colour: screen.Strong}, {Text: "WHERE", Colour: screen.Strong},
	}}
	for _, s := range sets {
		what, build := s.Kubernetes, s.Kubernetes
		if what == "" {
			what, build = "providers", "--providers"
		}
		row := []screen.Span{{Text: what}, {Text: "yes", Colour: screen.Good}, {Text: megabytes(s.Bytes)}, {Text: folder}}
		if len(s.Missing) > 0 {
			row[1] = screen.Span{Text: fmt.Sprintf("no, %d products are missing", len(s.Missing)), Colour: screen.Doubt}
			row[2], row[3] = screen.Span{Text: "-"}, screen.Span{Text: "`quorate artifacts build " + build + "` builds them"}
		}
		rows = append(rows, row)
	}
	return screen.Columns(rows)
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+500_000)/1_000_000) }

func (a *app) artifactsBuildCommand() *cobra.Command {
	var providers bool
	cmd := &cobra.Command{
		Use:   "build [VERSION...]",
		Short: "Build what is missing for versions of Kubernetes; without one, for the default one",
		Example: `  quorate artifacts build
  quorate artifacts build v1.37.2 v1.35.4
  quorate artifacts build --providers    # also what 'quorate up --self-managed' installs`,
		Args:              pinnedVersions,
		ValidArgsFunction: a.Complete(0, func(context.Context) []string { return artifacts.Versions() }),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, v := range orDefault(args) {
				if err := a.buildArtifacts(cmd.Context(), v); err != nil {
					return err
				}
			}
			if providers {
				return a.buildProviders(cmd.Context())
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&providers, "providers", false,
		"also what 'quorate up --self-managed' installs: clusterctl, Helm, images of Cluster API's providers and of cert-manager")
	return cmd
}

// pinnedVersions accepts the versions of Kubernetes that can be built.
func pinnedVersions(_ *cobra.Command, args []string) error {
	for _, v := range args {
		if !slices.Contains(artifacts.Versions(), command.WithV(v)) {
			return fmt.Errorf("invalid VERSION %q: must be %s", v, strings.Join(artifacts.Versions(), " or "))
		}
	}
	return nil
}

// orDefault returns versions as the pins write them, each once; the default one if there are none.
func orDefault(args []string) []string {
	if len(args) == 0 {
		return []string{artifacts.DefaultVersion}
	}
	var versions []string
	for _, v := range args {
		if v = command.WithV(v); !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return versions
}

func (a *app) buildArtifacts(ctx context.Context, version string) error {
	s := a.NewScreen()
	return command.Stage(s, "artifacts", func() (string, error) {
		ticker := command.NewTicker(s)
		defer ticker.Stop()
		options := artifacts.Options{Prebuilt: a.Environment("QUORATE_ARTIFACTS"), Bundle: a.Bundle(), Progress: ticker.Product}
		begun := time.Now()
		set, err := artifacts.Ensure(ctx, options, version)
		if err != nil {
			return "", fmt.Errorf("preparing the artifacts of Kubernetes %s after %s: %w", version, time.Since(begun).Round(time.Second), err)
		}
		if _, err := artifacts.EnsureEtcd(ctx, options); err != nil {
			return "", fmt.Errorf("preparing the artifacts of machines of etcd after %s: %w", time.Since(begun).Round(time.Second), err)
		}
		return "Kubernetes " + set.Kubernetes + " in " + set.Machine, nil
	})
}

func (a *app) buildProviders(ctx context.Context) error {
	s := a.NewScreen()
	return command.Stage(s, "providers", func() (string, error) {
		ticker := command.NewTicker(s)
		defer ticker.Stop()
		begun := time.Now()
		p, err := artifacts.EnsureProviders(ctx, artifacts.Options{Prebuilt: a.Environment("QUORATE_ARTIFACTS"), Bundle: a.Bundle(),
			Progress: ticker.Product})
		if err != nil {
			return "", fmt.Errorf("preparing the providers of a management cluster after %s: %w", time.Since(begun).Round(time.Second), err)
		}
		return "Cluster API " + p.ClusterAPI + " and cert-manager " + p.CertManager + " in " + filepath.Dir(p.Repository), nil
	})
}

func (a *app) artifactsPruneCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove what the pins of this quorate do not ask for any more",
		Long: `Remove from the cache what was built for other pins, another toolchain or other libraries of this host, and is not asked for
any more. What the environment of --state, or any other that takes its artifacts from this cache, was made with stays until
'quorate down', whether its machines run or not. What is being built at the moment stays as well. Prebuilt artifacts are not touched.`,
		Example: `  quorate artifacts prune --dry-run    # only say what would go
  quorate artifacts prune`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.pruneArtifacts(cmd.Context(), dryRun) },
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be removed and change nothing")
	return cmd
}

func (a *app) pruneArtifacts(ctx context.Context, dryRun bool) error {
	var options artifacts.Options
	used, err := a.usedArtifacts(options)
	if err != nil {
		return err
	}
	pruned, err := artifacts.Prune(ctx, options, used, dryRun)
	rows := make([][]screen.Span, 0, len(pruned))
	var all artifacts.Pruned
	for _, p := range pruned {
		rows = append(rows, []screen.Span{{Text: p.Folder}, {Text: p.Bytes.String()}})
		all.Bytes += p.Bytes
	}
	s := a.NewScreen()
	s.Print(screen.Columns(rows)...)
	if err != nil {
		return fmt.Errorf("pruning the artifacts: %w", err)
	}
	what, products := "removed", "products"
	if dryRun {
		what = "would be removed"
	}
	if len(pruned) == 1 {
		products = "product"
	}
	s.Printf("%d %s %s: %d bytes (%s)", len(pruned), products, what, all.Bytes, all.Bytes)
	return nil
}

// usedArtifacts are those of every environment that takes artifacts from the cache. One that cannot be read ends it: what it
// uses could be removed.
func (a *app) usedArtifacts(o artifacts.Options) ([]artifacts.Set, error) {
	users, err := artifacts.Users(o)
	if err != nil {
		return nil, err
	}
	var used []artifacts.Set
	for _, state := range append(users, a.State) { // who made it may be of a time when users were not noted
		sets, err := embed.Used(state)
		if errors.Is(err, fs.ErrPermission) {
			return nil, command.HostLacks(fmt.Errorf("%s, which may use the artifacts, belongs to root: run this as root, for example with sudo",
				state))
		}
		if err != nil {
			return nil, err
		}
		used = append(used, sets...)
	}
	return used, nil
}
