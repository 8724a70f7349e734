package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// A rollout, or an update in place, of a machine that needs a backup first waits for one. The rules request it when only the backup keeps
// the next step back, so that it is as young as can be. What is missing or broken waits for no store.

// mostAhead is how far ahead of this clock a backup's time may be: managers that took turns may have had clocks that differ. A backup of a
// later time would stay young for ever, and does not count.
const mostAhead = time.Minute

// gate is what a group's backups mean for its rollouts and updates in place.
type gate struct{ s *state }

// isOpen reports whether the newest verified backup may be relied on for a change.
func (g gate) isOpen() bool {
	b := g.s.Group.Backup
	age := g.s.Now.Sub(b.Taken)
	return g.s.backed || age <= g.s.Policy.MaxBackupAge && age >= -mostAhead // without a backup the age is centuries
}

// machines are those that need a backup before they are replaced or changed in place.
func (g gate) machines() []*machine {
	single := g.s.Policy.BackupBeforeSingle && len(g.s.machines) == 1
	return g.s.those(func(m *machine) bool {
		return m.isOutdated() && m.NeedsBackup != "" || single && g.s.isChangedInPlace(m)
	})
}

// holds: no machine is replaced or changed in place before there is another backup, as one of those that are outdated needs it.
// Quorate takes none of an etcd that is not ours.
func (g gate) holds() bool {
	return g.s.Etcd.Ours() && g.s.Policy.MaxBackupAge > 0 && !g.isOpen() && len(g.machines()) > 0
}

// after is the step that nothing but a backup keeps back; Nothing: there is none. The rules are asked in their order what they would do if
// there was one.
func (g gate) after() Step {
	if !g.holds() {
		return Step{Verb: Nothing}
	}
	open := *g.s
	open.backed = true
	for _, would := range []func(*state) opinion{discardFailed, enableDowngrade, updateInPlace, rollOut} {
		if v := would(&open); v.decided {
			return v.decision.Step
		}
	}
	return Step{Verb: Nothing}
}

// holdsAlone: nothing but a backup keeps the next step of an update or a rollout back.
func (g gate) holdsAlone() bool { return g.after().Acts() }

// isAsked: a backup was asked for, and there is no verified one since.
func (g gate) isAsked() bool {
	b := g.s.Group.Backup
	latest := g.s.Now.Add(mostAhead)
	asked := !b.Required.IsZero() && !b.Required.After(latest)
	return asked && (b.Taken.Before(b.Required) || b.Taken.After(latest))
}

// why says which machines need a backup, and what there is.
func (g gate) why() string {
	needing, b := g.machines(), g.s.Group.Backup
	newest := "no verified backup is known"
	if b.Name != "" {
		newest = fmt.Sprintf("the newest verified backup, %s, was taken at %s", b.Name, timeText(b.Taken))
	}
	return fmt.Sprintf("a verified backup not older than %s is needed before %s is replaced or changed in place (%s: %s); %s",
		ageText(g.s.Policy.MaxBackupAge), oneOf(len(needing)), needing[0].Name, cmp.Or(needing[0].NeedsBackup, "the only machine"), newest)
}

// oneOf writes "a machine", "one of 3 machines".
func oneOf(n int) string {
	if n == 1 {
		return "a machine"
	}
	return "one of " + count(n, "machine")
}

// ageText writes an age that a user has set: 1h, 1h30m, 10m.
func ageText(d time.Duration) string {
	text := d.String()
	if d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// wait waits for a verified backup. It is told last, so that all else goes on.
func (g gate) wait() opinion {
	if !g.holdsAlone() {
		return pass("nothing waits for a backup")
	}
	why := g.why()
	if g.s.Group.Backup.Trouble != "" {
		why += "; " + g.s.Group.Backup.Trouble
	}
	return wait(BackupRequired, "%s", why)
}

// LastBackupRequired is the reason of a deletion that waits for a last backup.
const LastBackupRequired = "LastBackupRequired"

// waitForLast waits for a last backup before the machines of a group that is being deleted go: the data goes with them. The controller that
// takes it sees by itself that the group is being deleted.
func (g gate) waitForLast() opinion {
	b := g.s.Group.Backup
	hibernated := g.s.Power.Backup != "" // which took one
	if b.Last.IsZero() || !g.s.Etcd.Ours() || len(g.s.machines) == 0 || hibernated ||
		!b.Taken.Before(b.Last) && !b.Taken.After(g.s.Now.Add(mostAhead)) {
		return pass("no last backup is needed, or there is one")
	}
	trouble := ""
	if b.Trouble != "" {
		trouble = "; " + b.Trouble
	}
	return wait(LastBackupRequired, "%s is being deleted, and a last verified backup is taken before its machines are%s; "+
		"spec.backup.lastBackup None deletes it without one", g.s.Group.Name, trouble)
}

// BackupRequired is the reason of a wait for a verified backup, and of the step that asks for it.
const BackupRequired = "BackupRequired"

// requestBackup asks for a backup, once, where nothing but that keeps the next step back.
func requestBackup(s *state) opinion {
	g := gate{s}
	next := g.after()
	switch {
	case !next.Acts():
		return pass("nothing waits for a backup")
	case g.isAsked():
		return pass("a backup was asked for at %s, and there is no verified one since", timeText(s.Group.Backup.Required))
	}
	return do(Step{Verb: RequestBackup}, BackupRequired, "%s; then %s", g.why(), next)
}
