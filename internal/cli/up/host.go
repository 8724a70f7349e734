package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cli/manifest"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/local/hostcheck"
)

// checkHost says what this host lacks for what is wanted, and finds quorate-node. Nothing is changed.
func (u *up) checkHost(ctx context.Context) (nodePath string, err error) {
	if err := command.NeedRoot(); err != nil {
		return "", err
	}
	if err := lacking(u.lacks(ctx)); err != nil {
		return "", err
	}
	return command.NodeBinary()
}

// lacks asks for less where an environment runs: the room that its machines take is theirs already.
func (u *up) lacks(ctx context.Context) []hostcheck.Lack {
	if _, running := embed.Running(u.State); running {
		return hostcheck.Missing()
	}
	options := u.options("")
	plan := hostcheck.Plan{
		State: u.State, Machines: u.machineCount(), Network: u.prefix, Bridge: embed.BridgeName(u.State),
		IPv6: u.cluster.IPFamily.HasIPv6() || manifest.HasIPv6(u.objects),
	}
	if !plan.Network.IsValid() {
		plan.Network = embed.DefaultNetwork
		if e, err := embed.Load(u.State); err == nil {
			plan.Network = e.Network
		}
	}
	for _, v := range append([]string{options.Kubernetes}, u.needed()...) {
		missing, err := artifacts.Missing(ctx, options.Artifacts, v)
		plan.Build = plan.Build || err != nil || len(missing) > 0 && options.Artifacts.Bundle == nil // an import looks for room itself
	}
	plan.Cache, _ = options.Artifacts.CacheFolder() // what is wrong with it is told when it is used
	return hostcheck.Check(plan)
}

func (u *up) machineCount() int {
	if u.objects != nil {
		return manifest.Machines(u.objects)
	}
	return int(u.cluster.Replicas + u.cluster.Workers)
}

// lacking makes an error of what the host lacks: the first line says what and how to get it, the others why.
func lacking(lacks []hostcheck.Lack) error {
	if len(lacks) == 0 {
		return nil
	}
	var what, fixes []string
	for _, l := range lacks {
		what = append(what, l.What)
		if !slices.Contains(fixes, l.Fix) {
			fixes = append(fixes, l.Fix)
		}
	}
	text := fmt.Sprintf("this host lacks %s: %s", strings.Join(what, ", "), strings.Join(fixes, "; "))
	for _, l := range lacks {
		text += fmt.Sprintf("\n  %s: %s", l.What, l.Why)
	}
	return command.HostLacks(errors.New(text))
}
