// Package recovery is `quorate recover`: a control plane whose etcd lost its quorum, or all of its machines, is made again from a
// snapshot. The work is done by the controllers of the management cluster; here an EtcdRecovery is created, shown, approved and followed.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/command"
)

// app is the command.
type app struct{ *command.Invocation }

// asked is what flags ask for.
type asked struct {
	backup, survivor, store, storeKind, identity, file string
	// former is the UID under which the store has the backup, where that was taken by a management cluster that is gone.
	former     string
	off        []string
	yes, abort bool
	timeout    time.Duration
}

// Command is `quorate recover`.
func Command(i *command.Invocation) *cobra.Command {
	a, o := &app{i}, asked{}
	cmd := &cobra.Command{
		Use:   "recover [NAME]",
		Short: "Make a control plane again whose etcd lost its quorum, from a survivor or from a backup",
		Long: `Make a control plane again whose etcd lost its quorum, or all of its machines. The snapshot of the member that survived,
or a verified backup, is restored on one new machine. All other machines of the control plane are deleted with their infrastructure
before that, so that no old member can come back. The workers stay. Then the control plane grows to spec.replicas.
Where the control plane has its etcd in an EtcdCluster, the machines of that are the ones that are given up and made again.

The plan is shown, and nothing is done before you type the sentence that the command shows. The command can be ended and started again:
the recovery goes on by itself, and the command follows it.`,
		Example: `  quorate recover demo                                         # from the member with the newest data
  quorate recover demo --from 20261127t170312z-x7k2p           # from a backup
  quorate recover demo --from 20261127t170312z-x7k2p --identity key.txt
  quorate recover demo --from-file demo.tar.zst.age             # an archive that quorate backup get fetched
  quorate recover demo --off demo-cp-2                         # a machine whose infrastructure cannot be deleted is off for good
  quorate recover demo --abort                                 # before it has begun`,
		Args:              command.OneArgumentAtMost,
		ValidArgsFunction: a.Complete(1, a.ClusterNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, key, err := a.Cluster(cmd.Context(), args)
			if err != nil {
				return err
			}
			late := fmt.Errorf("the recovery did not end within --timeout %s; it goes on", o.timeout)
			return command.Within(cmd.Context(), o.timeout, late, func(ctx context.Context) error { return a.recover(ctx, c, key, o) })
		},
	}
	a.AddManagementTo(cmd)
	f := cmd.Flags()
	f.StringVar(&o.backup, "from", "", "name of the verified backup to restore, as quorate backup list shows it")
	f.StringVar(&o.file, "from-file", "",
		"archive that quorate backup get fetched; it is stored in the BackupStore and verified, and then restored as with --from")
	f.StringVar(&o.survivor, "survivor", "Best", "Machine whose etcd member is backed up and restored; Best: the one with the newest data")
	f.StringVar(&o.store, "store", "", "BackupStore of the backup. Defaults to that of the control plane's spec.backup")
	f.StringVar(&o.identity, "identity", "",
		"file with the age identity that decrypts the backup; it is kept in a secret until the EtcdRecovery is deleted. Defaults to that of "+
			"quorate up")
	f.StringSliceVar(&o.off, "off", nil, "Machines that are off for good although their infrastructure cannot be deleted")
	f.BoolVar(&o.yes, "yes", false, "approve without asking")
	f.BoolVar(&o.abort, "abort", false, "delete a recovery that has not begun")
	f.DurationVar(&o.timeout, "timeout", time.Hour, "how long to follow the recovery")
	return cmd
}

func (o *asked) check() error {
	switch {
	case o.timeout <= 0:
		return command.Usagef("invalid --timeout %q: must be greater than 0", o.timeout)
	case o.backup != "" && o.survivor != best:
		return command.Usagef("--from and --survivor cannot be combined")
	case o.file != "" && (o.backup != "" || o.survivor != best):
		return command.Usagef("--from-file cannot be combined with --from or --survivor")
	case o.abort && (o.backup != "" || o.file != "" || o.survivor != best || o.identity != "" || len(o.off) > 0 || o.yes):
		return command.Usagef("--abort cannot be combined with other flags than --timeout")
	}
	return nil
}

// recover finds or creates the recovery, has it approved and follows it.
func (a *app) recover(ctx context.Context, c client.Client, key client.ObjectKey, o asked) error {
	of, err := a.find(ctx, c, key)
	if err != nil {
		return err
	}
	if o.abort {
		return a.abort(ctx, c, of)
	}
	if of.recovery == nil {
		p := of.group.Kind.Status(of.object).Plan
		a.NewScreen().Printf("%s: %s", p.Reason, p.Message) // it says what the control plane can be recovered from
		if err := a.create(ctx, c, of, o); err != nil {
			return err
		}
	} else if err := a.declareOff(ctx, c, of, o.off); err != nil {
		return err
	}
	if err := a.awaitSeed(ctx, c, of); err != nil {
		return err
	}
	if !of.isApproved() {
		if err := a.approve(ctx, c, of, o.yes); err != nil {
			return err
		}
	}
	return a.follow(ctx, c, of)
}

// errNotApproved: a person was asked, and did not type the sentence.
var errNotApproved = errors.New("nothing was approved, and nothing is done; quorate recover --abort deletes the recovery")
