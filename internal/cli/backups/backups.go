// Package backups is `quorate backup`: backups of a cluster's etcd are asked for, listed, proven, fetched and deleted. They are taken by
// the controllers of the management cluster; the rest is done here, with the store that the cluster names.
package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/local/embed"
)

// app is the commands of this package.
type app struct {
	*command.Invocation
	// managerNamespace is where the secrets of ClusterBackupStores are.
	managerNamespace string
}

// Command is `quorate backup`.
func Command(i *command.Invocation) *cobra.Command {
	a := &app{Invocation: i}
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Take, list, verify, fetch and delete backups of a cluster's etcd",
		Long: `Take, list, verify, fetch and delete backups of a cluster's etcd. They are taken by the controllers, as spec.backup of the control plane, or of
the EtcdCluster, says, and lie in the BackupStore that it names. A backup is verified once it was restored in a scratch folder and its data were
those that the etcd member held.`,
		Example: `  quorate backup now demo
  quorate backup list demo`,
	}
	cmd.PersistentFlags().StringVar(&a.managerNamespace, "manager-namespace", backup.DefaultNamespace,
		"namespace of the manager, which has the credentials of a ClusterBackupStore")
	cmd.AddCommand(a.nowCommand(), a.listCommand(), a.verifyCommand(), a.getCommand(), a.deleteCommand())
	return cmd
}

func (a *app) nowCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "now [NAME]",
		Short: "Take a backup of a cluster beside those of its schedule, and wait for it",
		Example: `  quorate backup now demo
  quorate backup now demo --timeout 30m`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return command.Usagef("invalid --timeout %q: must be greater than 0", timeout)
			}
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.now(cmd.Context(), c, key, timeout)
		},
	}
	a.AddManagementTo(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 15*time.Minute, "how long to wait for the backup")
	return cmd
}

// twoArguments asks for a cluster and a backup.
func twoArguments(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("expected NAME and BACKUP, got %d arguments", len(args))
	}
	return nil
}

// one makes a command about one backup.
func (a *app) one(cmd *cobra.Command, do func(context.Context, backup.Catalog, *backup.Entry) error) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = twoArguments, a.Complete(1, a.ClusterNames)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, key, err := a.Cluster(cmd.Context(), args[:1])
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), c, key, func(catalog backup.Catalog) error {
			e, err := catalog.Find(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			return do(cmd.Context(), catalog, e)
		})
	}
	a.AddManagementTo(cmd)
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var file string
	cmd := a.one(&cobra.Command{
		Use:   "verify NAME BACKUP",
		Short: "Prove a backup: fetch it, restore it in a scratch folder of this host, and compare it with what the etcd member held",
		Example: `  quorate backup verify demo 20261127t170312z-x7k2p
  quorate backup verify demo 20261127t170312z-x7k2p --identity key.txt   # an encrypted one`,
	}, func(ctx context.Context, catalog backup.Catalog, e *backup.Entry) error {
		return a.verify(ctx, catalog, e, file)
	})
	cmd.Flags().StringVar(&file, "identity", "", "file with the age identity that decrypts the backup; that of quorate up is found by itself")
	return cmd
}

func (a *app) verify(ctx context.Context, catalog backup.Catalog, e *backup.Entry, file string) error {
	if e.Err != nil {
		return e.Err
	}
	var identities []age.Identity
	if file = cmp.Or(file, a.ownIdentity(e)); file != "" {
		var err error
		if _, identities, err = command.ReadIdentities(file); err != nil {
			return err
		}
	}
	if e.Manifest.Archive.Encrypted() && len(identities) == 0 {
		return command.Usagef("backup %s is encrypted: --identity must name the file with an identity of age that decrypts it", e.Name)
	}
	folder, err := os.MkdirTemp("", "quorate-backup-")
	if err != nil {
		return fmt.Errorf("making a scratch folder: %w", err)
	}
	v, err := catalog.Verify(ctx, e, backup.Proof{Identities: identities, Scratch: folder, Limits: scratch.DefaultLimits, Now: time.Now()})
	if err = errors.Join(err, os.RemoveAll(folder)); err != nil {
		return err
	}
	a.NewScreen().Printf("%s is verified: revision %d, %d keys, hash %08x as member %s answered it%s", e.Name, e.Manifest.Revision(),
		v.Restored.Keys, v.Restored.Witness.Hash, e.Manifest.Etcd.Member, oldVersion(e))
	return nil
}

// oldVersion says that what was read of a backup is not what is there now; empty: it is.
func oldVersion(e *backup.Entry) string {
	if !e.IsOld() {
		return ""
	}
	return fmt.Sprintf("; it was %s since, and an old version was read", e.Changed)
}

// ownIdentity returns the file with the environment's identity, if a backup is encrypted for that; else nothing.
func (a *app) ownIdentity(e *backup.Entry) string {
	if !a.IsOwnManagement() {
		return ""
	}
	recipient, err := embed.ReadBackupRecipient(a.State)
	if err != nil || !slices.Contains(e.Manifest.Archive.Recipients, recipient) {
		return ""
	}
	return embed.BackupIdentity(a.State)
}

func (a *app) getCommand() *cobra.Command {
	var to string
	cmd := a.one(&cobra.Command{
		Use:   "get NAME BACKUP",
		Short: "Fetch the archive of a backup into a file",
		Long: `Fetch the archive of a backup into a file, and compare it with its manifest. It can be read without Quorate:
age -d -i key.txt FILE | zstd -d | tar x; cat snapshot/* > snapshot.db. Without encryption begin with zstd.`,
		Example: `  quorate backup get demo 20261127t170312z-x7k2p --to demo.tar.zst.age`,
	}, func(ctx context.Context, catalog backup.Catalog, e *backup.Entry) error {
		if to == "" {
			return command.Usagef("--to must name the file that the archive is written to")
		}
		return a.get(ctx, catalog, e, to)
	})
	cmd.Flags().StringVar(&to, "to", "", "file that the archive is written to; it must not exist")
	return cmd
}

func (a *app) get(ctx context.Context, catalog backup.Catalog, e *backup.Entry, to string) (err error) {
	if e.Err != nil {
		return e.Err
	}
	body, err := catalog.Archive(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	err = backup.Copy(e.Manifest, body, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("fetching backup %s: %w", e.Name, err), os.Remove(to))
	}
	a.NewScreen().Printf("%s: %d bytes, as its manifest says%s", filepath.Clean(to), e.Manifest.Archive.Size, oldVersion(e))
	return nil
}

func (a *app) deleteCommand() *cobra.Command {
	var yes bool
	cmd := a.one(&cobra.Command{
		Use:     "delete NAME BACKUP",
		Short:   "Delete a backup from its store",
		Long:    `Delete a backup from its store. The newest verified backup is deleted only with --yes.`,
		Example: `  quorate backup delete demo 20261127t170312z-x7k2p`,
	}, func(ctx context.Context, catalog backup.Catalog, e *backup.Entry) error {
		if e.Changed == backup.Deleted {
			return fmt.Errorf("backup %s was deleted already; its old versions are left to the bucket's own rules", e.Name)
		}
		all, err := catalog.List(ctx)
		if err != nil {
			return err
		}
		if newest := backup.Newest(all, true, time.Now()); newest != nil && newest.Name == e.Name && !yes {
			return fmt.Errorf("backup %s is the newest that is verified: without it the cluster may be lost. Delete it with --yes", e.Name)
		}
		if err := catalog.Delete(ctx, e.Name); err != nil {
			return err
		}
		a.NewScreen().Printf("%s is deleted", e.Name)
		return nil
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "delete the newest verified backup too")
	return cmd
}
