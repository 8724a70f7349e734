package main

// backupGuards are what both keys hold to where a change waits for a verified backup.
var backupGuards = []guard{
	{says: "another machine comes for one that is outdated, and there is no backup",
		rules: []change{{"holdsRollout", `case gate{s}.holdsAlone():`, `case false:`}},
		check: []change{
			{"checkNumber", `err := checkBackup(o, "one more than wanted would come"); err != nil`,
				`err := checkBackup(o, "one more than wanted would come"); err != nil && false`},
			{"checkStays", `err := checkBackup(o, gone.Name+" would be replaced"); err != nil`,
				`err := checkBackup(o, gone.Name+" would be replaced"); err != nil && false`},
		}},
	{says: "a machine that may have served goes as one that never came up, and there is no backup",
		rules: []change{{"heldRollout", `case gate{s}.holds():`, `case false:`}},
		check: []change{{"checkStays", `err := checkBackup(o, gone.Name+" would be replaced"); err != nil`,
			`err := checkBackup(o, gone.Name+" would be replaced"); err != nil && false`}}},
	{says: "a machine is changed in place, and there is no backup",
		rules: []change{{"updateInPlace", `case gate{s}.holdsAlone():`, `case false:`}},
		check: []change{{"checkUpdate", `err := checkBackup(o, m.Name+" would be changed in place"); err != nil`,
			`err := checkBackup(o, m.Name+" would be changed in place"); err != nil && false`}}},
	{says: "etcd is lowered, and there is no backup",
		rules: []change{{"holdsLowering", `case gate{s}.holds():`, `case false:`}},
		check: []change{{"checkLacking", `err := checkBackup(o, what); err != nil`, `err := checkBackup(o, what); err != nil && false`}}},
	{says: "a backup that is too old is enough",
		rules: []change{{"isOpen", `age <= g.s.Policy.MaxBackupAge`, `age <= 2*g.s.Policy.MaxBackupAge`}},
		check: []change{{"checkBackup", `o.Now.Add(-most)`, `o.Now.Add(-2 * most)`}}},
	{says: "the only machine is changed in place, and there is no backup",
		rules: []change{{"machines", `single := g.s.Policy.BackupBeforeSingle`, `single := false && g.s.Policy.BackupBeforeSingle`}},
		check: []change{{"checkBackup", `case o.Policy.BackupBeforeSingle &&`, `case false && o.Policy.BackupBeforeSingle &&`}}},
}

// backupAlone are sabotages of what only the rules hold to.
var backupAlone = []meaning{
	{says: "nobody asks for a backup",
		edits: []change{{"requestBackup", `case !next.Acts():`, `case true:`}}},
	{says: "a backup is asked for again and again",
		edits: []change{{"isAsked", `return asked && (`, `return false && asked && (`}}},
	{says: "one that was asked for once is waited for, and no other is asked for",
		edits: []change{{"isAsked", `return asked && (`, `return asked && (true || `}}},
}
