package upgrader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/atomicfile"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// The service on the node that swaps.
const (
	unitName = "quorate-upgrade.service"
	unitDir  = "/etc/systemd/system"
)

// unitText is its unit. It is enabled, so that after a restart of the node it goes on.
func (l layout) unitText() string {
	return `[Unit]
Description=Upgrade of this node in place
StartLimitIntervalSec=0
After=network-online.target containerd.service

[Service]
Type=simple
ExecStart=` + l.upgrader() + ` ` + serviceCommand + `
Restart=on-failure
RestartSec=1s

[Install]
WantedBy=multi-user.target
`
}

// How often the journal is read, and the service looked at, while it works.
const (
	followInterval  = 200 * time.Millisecond
	serviceInterval = 5 * time.Second
)

// swap has the service do its work, follows it, and reports how it ended.
func (n *node) swap(ctx context.Context) steps.Result {
	if n.journal.Phase == steps.Committed {
		return result("the node was brought to "+n.wanted.KubernetesVersion+" before", errSkipped)
	}
	if err := n.awaitOthers(ctx); err != nil {
		return result("", err)
	}
	if !n.journal.Phase.Over() {
		if err := n.settle(ctx); err != nil {
			return result("", err)
		}
		if err := n.startService(ctx); err != nil {
			return result("", err)
		}
		if err := n.follow(ctx); err != nil {
			return result("", err)
		}
	}
	return n.outcome()
}

// outcome is how the swap, or the way back from it, ended. That a failure was reported is remembered.
func (n *node) outcome() steps.Result {
	r := n.journal.Outcome()
	r.Message = plaintext.Shown(r.Message)
	if !r.State.Succeeded() {
		n.journal.Reported = n.wanted.Attempt
		if err := n.saveJournal(n.journal); err != nil {
			return result("", err)
		}
	}
	return r
}

// startService installs the service, and starts it unless it runs.
func (n *node) startService(ctx context.Context) error {
	first := !n.journal.Begun()
	if first {
		// That all is prepared is on record before there is a service: without it that does nothing. From its first start on only the service
		// writes the journal.
		n.journal.Phase = steps.Preparing
		if err := n.saveJournal(n.journal); err != nil {
			return err
		}
	}
	err := n.installService(ctx)
	if err != nil && first {
		// Another upgrade of the node would wait forever for one that has not begun.
		n.journal.Phase = ""
		err = errors.Join(err, n.saveJournal(n.journal))
	}
	return err
}

// installService writes the service's unit, and has it started now and with the node.
func (n *node) installService(ctx context.Context) error {
	if err := atomicfile.Write(n.unitFile(), []byte(n.unitText()), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", unitName}, {"start", unitName}} {
		if err := n.manage(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// follow prints each phase until the swap is over.
func (n *node) follow(ctx context.Context) error {
	look, check := time.NewTicker(followInterval), time.NewTicker(serviceInterval)
	defer look.Stop()
	defer check.Stop()
	for !n.journal.Phase.Over() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("following the swap: %w", ctx.Err())
		case <-check.C:
			// A person may have stopped it; a start of what runs does nothing.
			if err := n.manage(ctx, "start", unitName); err != nil {
				n.say("%v", err)
			}
		case <-look.C:
		}
		now, err := n.loadJournal()
		if err != nil {
			return err
		}
		if now.Phase != n.journal.Phase {
			n.say("%s %s", now.Phase, plaintext.Shown(now.Reason))
		}
		n.journal = now
	}
	return nil
}

// systemctl asks the node's service manager.
func systemctl(ctx context.Context, args ...string) error {
	program := lookup("systemctl")
	if program == "" {
		return errors.New("looking for systemctl: the node has none")
	}
	_, err := run(ctx, nil, append([]string{program}, args...)...)
	return err
}

// retire takes the service away: a restart of the node finds nothing to go on with. What was cut off at the end of that finds no unit,
// which cannot be disabled.
func (l layout) retire(ctx context.Context) error {
	cut, err := filepath.Glob(filepath.Join(filepath.Dir(l.unitFile()), "."+unitName+".*"))
	if err != nil {
		return fmt.Errorf("removing the service of the upgrade: %w", err)
	}
	for _, file := range cut {
		if err := removeFile(file); err != nil {
			return fmt.Errorf("removing the service of the upgrade: %w", err)
		}
	}
	if _, err := os.Stat(l.unitFile()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := l.manage(ctx, "disable", unitName); err != nil {
		return err
	}
	if err := removeFile(l.unitFile()); err != nil {
		return fmt.Errorf("removing the service of the upgrade: %w", err)
	}
	return nil
}
