package forecast

import "time"

// futureBackup names a backup that is yet to come: who takes it names it.
const futureBackup = "the one that is taken now"

// backupTaken is what happens where a change needs a backup that was asked for: it is taken and verified.
func (w *world) backupTaken() (event, bool) {
	b := &w.o.Group.Backup
	last := !b.Last.IsZero() && b.Taken.Before(b.Last)
	lacks := !b.Required.IsZero() && (b.Name == "" || b.Taken.Before(b.Required))
	asked := last || lacks && (w.o.Policy.MaxBackupAge > 0 || sleeper{w}.isPreparing())
	return event{of: "backup", what: "is taken since " + b.Required.String(), takes: w.t.Backup, happens: func() {
		b.Name, b.Taken, b.Trouble = futureBackup, w.o.Now, ""
		w.backedUp = w.elapsed - w.t.Backup
	}}, asked
}

// ageBackup lets the newest verified backup become as old as it will be: the clock of the facts runs slower than that of the estimate.
func (w *world) ageBackup() {
	b := &w.o.Group.Backup
	if most := w.o.Policy.MaxBackupAge; b.Name != "" && most > 0 && w.elapsed-w.backedUp > most && w.o.Now.Sub(b.Taken) <= most {
		b.Taken, b.Required = w.o.Now.Add(-most-time.Second), time.Time{} // what was asked for was answered
	}
}

// requestBackup notes that a backup is needed that is taken from now on.
func (w *world) requestBackup() { w.o.Group.Backup.Required = w.o.Now }
