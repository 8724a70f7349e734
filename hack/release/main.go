// Command release makes images and releases; make calls it (docs/release.md).
package main

import (
	"context"
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
	architectures := flag.String("architectures", "", "What to build for, separated by blanks. Defaults to all.")
	kubernetes := flag.String("kubernetes", "", "Versions of Kubernetes for which upgraders' images are made, separated by blanks, or none. Defaults to all that are pinned.")
	flag.Parse()
	o.Architectures = strings.Fields(*architectures)
	switch *kubernetes {
	case "": // all
	case "none":
		o.Kubernetes = []string{}
	default:
		o.Kubernetes = strings.Fields(*kubernetes)
	}
	r, err := release.New(ctx, o)
	if err != nil {
		return err
	}
	switch what := strings.Join(flag.Args(), " "); what {
	case "manager":
		return r.Manager(ctx)
	case "images":
		return r.Images(ctx)
	case "all":
		return r.All(ctx)
	default:
		return fmt.Errorf("%q: manager, images or all would be accepted", what)
	}
}
