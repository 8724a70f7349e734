package recovery

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/quorate/quorate/api/backup/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/inventory"
	corebackup "github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/local/embed"
)

// wanted is what the flags of `quorate restore` describe.
type wanted struct {
	asked
	uid, namespace, managerNamespace string
}

func (w *wanted) ref() controlplanev1.BackupStoreReference {
	return controlplanev1.BackupStoreReference{Kind: controlplanev1.BackupStoreKind(w.storeKind), Name: w.store}
}

// RestoreCommand is `quorate restore`.
func RestoreCommand(i *command.Invocation) *cobra.Command {
	a, w := &app{i}, wanted{}
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make a cluster again in a new management cluster, from a backup",
		Long: `Make a cluster again of which only the store of its backups and the key that decrypts them are left: neither its machines, nor the
management cluster that kept it. The objects that the backup holds are created here, with the cluster's authorities and keys. One new
machine restores the snapshot; then the control plane grows to spec.replicas, and the workers are made again.

The plan is shown, and nothing is done before you type the sentence that the command shows. By it you confirm that none of the old machines runs.
From here they can neither be seen nor deleted. The command can be ended and started again.`,
		Example: `  quorate restore --store host --cluster 0f3c9d3e-5f9e-4ad5-a30e-6e3f3a3a3a3a --identity key.txt
  quorate restore --store host --cluster 0f3c9d3e-5f9e-4ad5-a30e-6e3f3a3a3a3a --from 20261127t170312z-x7k2p --identity key.txt`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.check(); err != nil {
				return err
			}
			c, err := a.Management()
			if err != nil {
				return err
			}
			late := fmt.Errorf("the restore did not end within --timeout %s; it goes on", w.timeout)
			return command.Within(cmd.Context(), w.timeout, late, func(ctx context.Context) error { return a.restore(ctx, c, w) })
		},
	}
	a.AddManagementTo(cmd)
	f := cmd.Flags()
	f.StringVar(&w.uid, "cluster", "", "UID of the Cluster in the former management cluster: the folder of its backups in the store")
	f.StringVar(&w.store, "store", "", "store of the backups; the restored control plane backs up into it as well")
	f.StringVar(&w.storeKind, "store-kind", string(controlplanev1.BackupStoreOfNamespace), "BackupStore or ClusterBackupStore")
	f.StringVar(&w.backup, "from", "", "name of the backup. Defaults to the newest that is verified")
	f.StringVar(&w.identity, "identity", "", "file with the age identity that decrypts the backup; "+
		"it is kept in a secret until the EtcdRecovery is deleted. Defaults to that of quorate up")
	f.StringVarP(&w.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the store and of the cluster")
	f.StringVar(&w.managerNamespace, "manager-namespace", backup.DefaultNamespace,
		"namespace of the manager, which has the credentials of a ClusterBackupStore")
	f.BoolVar(&w.yes, "yes", false, "approve without asking: none of the old machines runs")
	f.DurationVar(&w.timeout, "timeout", time.Hour, "how long to follow the restore")
	return cmd
}

func (w *wanted) check() error {
	kinds := []string{string(controlplanev1.BackupStoreOfNamespace), string(controlplanev1.BackupStoreOfCluster)}
	switch {
	case w.store == "":
		return command.Usagef("invalid --store \"\": must name the store of the backups")
	case !slices.Contains(kinds, w.storeKind):
		return command.Usagef("invalid --store-kind %q: must be %s", w.storeKind, strings.Join(kinds, " or "))
	case !corebackup.IsName(w.uid):
		return command.Usagef("invalid --cluster %q: must be the UID of the former Cluster, the name of the folder of its backups", w.uid)
	case w.timeout <= 0:
		return command.Usagef("invalid --timeout %q: must be greater than 0", w.timeout)
	}
	return nil
}

// source is the backup that a cluster is made from.
type source struct {
	manifest  *corebackup.Manifest
	inventory *inventory.Inventory
	use       inventory.Use
	// newer is a verified backup that somebody deleted or overwrote, and of which the store has the old version; nil: there is none.
	newer *backup.Entry
}

// read finds the backup and reads what it holds.
func (a *app) read(ctx context.Context, c client.Client, w wanted) (*source, error) {
	opener := backup.Opener{Reader: c, Namespace: w.managerNamespace}
	if a.IsOwnManagement() {
		opener.Folder = embed.BackupFolder(a.State)
	}
	opened, done, err := opener.Open(ctx, w.namespace, w.ref())
	if err != nil {
		return nil, err
	}
	defer done()
	catalog := backup.Catalog{Store: opened, UID: w.uid}
	e, newer, err := choose(ctx, catalog, w)
	if err != nil {
		return nil, err
	}
	m := e.Manifest
	if err := restorable(e, w); err != nil {
		return nil, err
	}
	file := cmp.Or(w.identity, OwnIdentity(a.Invocation))
	if file == "" {
		return nil, command.Usagef("backup %s is encrypted: --identity must name the file with an age identity that decrypts it", m.Name)
	}
	_, identities, err := command.ReadIdentities(file)
	if err != nil {
		return nil, err
	}
	files, err := catalog.Files(ctx, e, identities)
	if stranger := (*age.NoIdentityMatchError)(nil); errors.As(err, &stranger) {
		return nil, fmt.Errorf("no identity in %s decrypts backup %s", file, m.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading backup %s: %w", m.Name, err)
	}
	held, err := inventory.Read(files)
	if err != nil {
		return nil, fmt.Errorf("backup %s cannot be restored: %w", m.Name, err)
	}
	mark := w.uid + "/" + m.Name
	use := inventory.Use{Namespace: w.namespace, MarkKey: backupv1alpha1.RestoredFromAnnotation, Mark: mark, Store: w.ref()}
	return &source{m, held, use, newer}, nil
}

// choose returns the backup by its name, or the newest that is verified. newer is one that is newer still, and that somebody deleted or
// overwrote: its name must be given.
func choose(ctx context.Context, catalog backup.Catalog, w wanted) (e, newer *backup.Entry, err error) {
	if w.backup != "" {
		if e, err = catalog.Find(ctx, w.backup); err != nil {
			return nil, nil, fmt.Errorf("reading backup %s of cluster %s: %w", w.backup, w.uid, err)
		}
		return e, nil, e.Err
	}
	all, err := catalog.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	// Where nothing is known of versions, what is there counts.
	there, changed, _ := catalog.Changed(ctx, all, "", backup.MostChanged)
	now := time.Now()
	e, newer = backup.Newest(there, true, now), backup.Newest(changed, true, now)
	if e != nil && newer != nil && !newer.Manifest.Taken.After(e.Manifest.Taken) {
		newer = nil
	}
	switch {
	case e != nil:
		return e, newer, nil
	case newer != nil:
		return nil, nil, fmt.Errorf("no verified backup of cluster %s is left; backup %s was %s, and %s %s has its old version: --from %s "+
			"restores that",
			w.uid, newer.Name, newer.Changed, w.storeKind, w.store, newer.Name)
	case len(all) == 0:
		return nil, nil, fmt.Errorf("%s %s has no backup of a cluster with the UID %s", w.storeKind, w.store, w.uid)
	}
	return nil, nil, fmt.Errorf("none of the %d backups of cluster %s is verified: --from names one to see what is wrong with it", len(all),
		w.uid)
}

// restorable says why no cluster can be made from a backup.
func restorable(e *backup.Entry, w wanted) error {
	m := e.Manifest
	switch {
	case !e.Verified():
		return fmt.Errorf("backup %s is not verified: its data was not restored and compared yet", m.Name)
	case !m.Archive.Encrypted():
		return fmt.Errorf("backup %s is not encrypted, and so holds neither the keys nor the objects of the cluster", m.Name)
	case m.Cluster.Namespace != w.namespace:
		return command.Usagef("invalid --namespace %q: backup %s is of a cluster in namespace %q", w.namespace, m.Name, m.Cluster.Namespace)
	}
	return nil
}

// restore makes the cluster, has its recovery approved and follows it.
func (a *app) restore(ctx context.Context, c client.Client, w wanted) error {
	from, err := a.read(ctx, c, w)
	if err != nil {
		return err
	}
	made, err := from.check(ctx, c)
	if err != nil {
		return err
	}
	var of *lost
	if made {
		if of, err = a.found(ctx, c, from); err != nil {
			return err
		}
	}
	if of == nil || of.recovery == nil || !of.isApproved() {
		if err := a.confirm(from, w); err != nil {
			return err
		}
		if of, err = a.remake(ctx, c, from, w); err != nil {
			return err
		}
	}
	if err := from.unpause(ctx, c, of); err != nil {
		return err
	}
	return a.follow(ctx, c, of)
}

// confirm shows what will be made, and asks.
func (a *app) confirm(from *source, w wanted) error {
	m, s := from.manifest, a.NewScreen()
	name := m.Cluster.Name
	s.Printf("Restore of cluster %s from %s %s:", name, w.storeKind, w.store)
	age := time.Since(m.Taken).Round(time.Second)
	s.Printf("  restore   %s, taken %s ago, revision %d, %d bytes, Kubernetes %s", m.Name, age, m.Revision(), m.Snapshot.Size, m.Kubernetes)
	if from.newer != nil {
		s.Printf("  not       %s", from.left())
	}
	s.Printf("  lose      every write after revision %d", m.Revision())
	s.Printf("  create    %s", strings.Join(from.names(), ", "))
	s.Printf("  then      one machine restores the backup, the control plane grows, and the workers are made again")
	var old []string
	for _, member := range m.Etcd.Members {
		old = append(old, member.Name)
	}
	s.Printf("  you say   no old machine runs any more: neither %s, nor one made since, nor a worker.", strings.Join(old, ", "))
	s.Printf("            From here they can neither be seen nor deleted. With one that runs there would be two clusters with one")
	s.Printf("            identity: the same keys, and the same endpoint. What is written to the old one would be lost.")
	sentence := "restore " + name + ", its old machines are off"
	if w.yes {
		return nil
	}
	s.Printf("\nType %q to approve this: ", sentence)
	answer, _ := bufio.NewReader(a.In).ReadString('\n')
	if strings.TrimSpace(answer) != sentence {
		return errors.New("nothing was approved, and nothing is done")
	}
	return nil
}

// left says which newer backup is not restored, and why.
func (s *source) left() string {
	age := time.Since(s.newer.Manifest.Taken).Round(time.Second)
	return fmt.Sprintf("%s, taken %s ago, which was %s: --from %s restores its old version", s.newer.Name, age, s.newer.Changed, s.newer.Name)
}

// remake creates the objects of the cluster and its recovery, and approves that.
func (a *app) remake(ctx context.Context, c client.Client, from *source, w wanted) (*lost, error) {
	if err := from.make(ctx, c); err != nil {
		return nil, err
	}
	of, err := a.found(ctx, c, from)
	if err != nil {
		return nil, err
	}
	if of.recovery == nil {
		w.former, w.backup = w.uid, from.manifest.Name
		if err := a.create(ctx, c, of, w.asked); err != nil {
			return nil, err
		}
	}
	if err := a.awaitSeed(ctx, c, of); err != nil {
		return nil, err
	}
	m, seed := from.manifest, observe.SeedOf(of.recovery)
	same := seed != nil && seed.Backup == m.Name && seed.SHA256 == m.Snapshot.SHA256 && of.recovery.Spec.FormerClusterUID == m.Cluster.UID
	if !same {
		return nil, fmt.Errorf("EtcdRecovery %s restores another backup than the one that was shown: delete it and begin again", of.recovery.Name)
	}
	return of, of.writeApproval(ctx, c)
}

// found reads the cluster that was made, and its recovery.
func (a *app) found(ctx context.Context, c client.Client, from *source) (*lost, error) {
	of, err := a.find(ctx, c, client.ObjectKey{Namespace: from.use.Namespace, Name: from.manifest.Cluster.Name})
	if err != nil || of.recovery != nil {
		return of, err
	}
	ended, err := of.hasEnded(ctx, c)
	if err == nil && ended {
		err = fmt.Errorf("cluster %s was restored already; see quorate status %s", of.cluster.Name, of.cluster.Name)
	}
	return of, err
}
