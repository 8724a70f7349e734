// Package backup decides about backups of etcd. It knows what a backup's manifest must say, whether a restored snapshot is the one that a
// member held, which backups retention deletes, and when the next one is due. It has no client, no clock and no file. It does not know
// where backups are stored, nor how they are taken.
package backup
