package artifact

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/local/artifacts"
)

func (a *app) exportCommand() *cobra.Command {
	var to, key string
	cmd := &cobra.Command{
		Use:   "export [VERSION...] --to TO",
		Short: "Write what was built for versions of Kubernetes to a bundle; without one, for the default one",
		Long: `Write all that 'quorate artifacts build' made for versions of Kubernetes to one compressed file, for hosts that import it instead of
building. It holds the checksum of each file, and says for which platform it is. The same artifacts give the same bytes.
TO is a file or a tag in a registry, for which the credentials of 'docker login' are taken. With --key it is signed:
'openssl genpkey -algorithm ed25519' makes such a key.`,
		Example: `  quorate artifacts export --to quorate-bundle.tar.zst
  quorate artifacts export v1.37.2 v1.36.3 --to quorate-bundle.tar.zst --key bundle.key
  quorate artifacts export --to oci://registry.example.org/quorate/bundle:v1.37.2`,
		Args:              pinnedVersions,
		ValidArgsFunction: a.Complete(0, func(context.Context) []string { return artifacts.Versions() }),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return command.Usagef("invalid --to \"\": must be a file or oci://REGISTRY/REPOSITORY:TAG")
			}
			return a.exportArtifacts(cmd.Context(), orDefault(args), to, key)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "file that is written, or replaced when all is there; or oci://REGISTRY/REPOSITORY:TAG")
	cmd.Flags().StringVar(&key, "key", "",
		"PEM file with the ed25519 private key that signs it; must not be readable by every user of the host")
	return cmd
}

func (a *app) exportArtifacts(ctx context.Context, versions []string, to, key string) error {
	s := a.NewScreen()
	return command.Stage(s, "bundle", func() (string, error) {
		ticker := command.NewTicker(s)
		defer ticker.Stop()
		options := artifacts.Options{Prebuilt: a.Environment("QUORATE_ARTIFACTS"), Progress: ticker.Product}
		size, err := artifacts.Export(ctx, options, versions, to, key)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Kubernetes %s in %s, %s", strings.Join(versions, ", "), to, size), nil
	})
}

func (a *app) importCommand() *cobra.Command {
	var key, sum string
	cmd := &cobra.Command{
		Use:   "import FROM",
		Short: "Take from a bundle what is not in the cache",
		Long: `Take from a bundle of 'quorate artifacts export' what is not in the cache. FROM is a file, an http:// or https:// URL,
oci://REGISTRY/REPOSITORY:TAG, or - for standard input. http://, and a redirect to another host, are accepted only with
--public-key or --sha256. A download that is cut goes on where it was, with --sha256 also in the next run. Each file is compared
with its checksum before anything of its product can be used. What is there stays; after an interruption the same command goes on.
A bundle of another platform, or of a release with other pins, is refused. With --public-key so is one that is not signed with the
private key of that one. 'quorate up' and 'quorate artifacts build' import from QUORATE_BUNDLE what is missing.`,
		Example: `  quorate artifacts import quorate-bundle.tar.zst
  quorate artifacts import https://example.org/quorate-bundle.tar.zst --public-key bundle.pub
  quorate artifacts import https://example.org/quorate-bundle.tar.zst --sha256 SUM
  quorate artifacts import oci://registry.example.org/quorate/bundle:v1.37.2`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%q needs FROM: must be one file, URL, oci://REGISTRY/REPOSITORY:TAG or -", "quorate artifacts import")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.importArtifacts(cmd, artifacts.Bundle{
				From: args[0], Input: cmd.InOrStdin(), KeyFile: cmp.Or(key, a.Environment("QUORATE_BUNDLE_KEY")), SHA256: sum, Warn: a.Warn,
			})
		},
	}
	cmd.Flags().StringVar(&key, "public-key", "",
		"PEM file with the ed25519 public key of the required signature (default: that of QUORATE_BUNDLE_KEY, if set)")
	cmd.Flags().StringVar(&sum, "sha256", "", "SHA-256 of the whole bundle, in hexadecimal digits; only for a file or URL")
	return cmd
}

func (a *app) importArtifacts(cmd *cobra.Command, from artifacts.Bundle) error {
	s := a.NewScreen()
	return command.Stage(s, "bundle", func() (string, error) {
		ticker := command.NewTicker(s)
		defer ticker.Stop()
		options := artifacts.Options{Progress: ticker.Product}
		imported, err := artifacts.ImportBundle(cmd.Context(), options, from)
		if err != nil {
			return "", err
		}
		folder, err := options.CacheFolder()
		if err != nil {
			return "", err
		}
		if len(imported) == 0 {
			return "nothing to import: all of it is in " + folder, nil
		}
		return fmt.Sprintf("%d products imported to %s", len(imported), folder), nil
	})
}
