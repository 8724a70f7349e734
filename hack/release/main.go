// Command release makes images and releases; make calls it (docs/release.md).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := release.Options{Report: func(format string, values ...any) { fmt.Printf(format+"\n", values...) }}
	flag.StringVar(&o.Root, "root", ".", "Folder of the sources.")
	flag.StringVar(&o.Out, "out", "dist", "Folder to write to.")
	flag.StringVar(&o.Version, "version", "", "Version that programs say. Empty: made of the revision.")
	flag.StringVar(&o.Revision, "revision", "", "Commit of the sources.")
	flag.StringVar(&o.Date, "date", "", "Date of the commit, such as 2026-11-23T04:05:06Z.")
	flag.StringVar(&o.KeyFile, "key", os.Getenv("QUORATE_RELEASE_KEY"),
		"PEM file with the ed25519 private key that signs the checksums and bundles. Defaults to that of QUORATE_RELEASE_KEY. "+
			"Empty: they are not signed.")
	public := flag.String("public-key", os.Getenv("QUORATE_RELEASE_PUBLIC_KEY"),
		"PEM file with the ed25519 public key for verify. Defaults to that of QUORATE_RELEASE_PUBLIC_KEY.")
	architectures := flag.String("architectures", "", "What to build for, separated by blanks. Defaults to all.")
	kubernetes := flag.String("kubernetes", "", "Versions of Kubernetes for which upgraders' images are made, separated by blanks, or none. "+
		"Defaults to all that are pinned but the oldest, from which upgrades begin.")
	bundles := flag.String("bundles", "",
		"Versions of Kubernetes for which bundles are made, separated by blanks, or none. Defaults to the version that 'quorate up' uses.")
	flag.Parse()
	o.Architectures = strings.Fields(*architectures)
	o.Kubernetes, o.Bundles = versions(*kubernetes), versions(*bundles)
	if strings.Join(flag.Args(), " ") == "verify" {
		return verify(o.Out, *public)
	}
	r, err := release.New(ctx, o)
	if err != nil {
		return err
	}
	return do(ctx, r, strings.Join(flag.Args(), " "))
}

// versions returns what a flag lists: nil where it is empty, which leaves the choice to release.New, and nothing for none.
func versions(flag string) []string {
	switch flag {
	case "":
		return nil
	case "none":
		return []string{}
	default:
		return strings.Fields(flag)
	}
}

// verify verifies a release that was made before.
func verify(folder, key string) error {
	if key == "" {
		return errors.New("verify: -public-key or QUORATE_RELEASE_PUBLIC_KEY must name a PEM file with an ed25519 public key")
	}
	files, err := release.Verify(folder, key)
	if err != nil {
		return fmt.Errorf("verifying %s: %w", folder, err)
	}
	fmt.Printf("%s: the signature is good, and so are %d files\n", folder, files)
	return nil
}

// do makes one part of a release, or all of it.
func do(ctx context.Context, r *release.Release, what string) error {
	switch what {
	case "manager":
		return r.Manager(ctx)
	case "upgrader":
		if len(r.Kubernetes) != 1 {
			return errors.New("upgrader: -kubernetes must have one version")
		}
		return r.Upgrader(ctx, r.Kubernetes[0])
	case "cached":
		versions, err := r.Cached(ctx)
		for _, v := range versions {
			fmt.Println(v)
		}
		return err
	case "images":
		return r.Images(ctx)
	case "bundle":
		return r.WriteBundles(ctx)
	case "chart":
		return r.Chart()
	case "all":
		return r.All(ctx)
	default:
		return fmt.Errorf("%q: must be manager, upgrader, cached, images, bundle, chart, all or verify", what)
	}
}
