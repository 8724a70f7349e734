package backups

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// Settings are what an administrator says of backups.
type Settings struct {
	// Folder is the mount of a volume for stores of the kind folder; empty: there are none.
	Folder string
	// Scratch is the folder in which snapshots are restored to prove them; empty: nothing is proven.
	Scratch string
	// Limits bound one restore.
	Limits scratch.Limits
	// Refuse are ranges of addresses that no store may lead to, such as 10.96.0.0/12, beside loopback and link-local ones.
	Refuse []string
	// AtOnce is how many backups are taken at the same time.
	AtOnce int
	// SeedBind is the address at which snapshots are handed out to machines that restore one, and SeedAddress the host:port at which
	// machines reach it; empty: control planes cannot be recovered.
	SeedBind, SeedAddress string
}

// DefaultAtOnce is how many backups are taken at the same time unless it is said.
const DefaultAtOnce = 2

// DefaultSeedBind is where snapshots are handed out unless it is said. The Runtime Extension has the port before it.
const DefaultSeedBind = ":9446"

// noSeeds is a value of --seed-address that is as good as none: a variable of clusterctl has no empty default.
const noSeeds = "none"

// DefaultScratch is where the manifests mount an emptyDir.
const DefaultScratch = "/scratch"

// AddFlags adds a flag for each setting.
func (s *Settings) AddFlags(fs *pflag.FlagSet) {
	s.Limits = scratch.DefaultLimits
	fs.StringVar(&s.Folder, "backup-folder", "",
		"Mount of a volume for BackupStores of the kind folder, each of which gets the folder NAMESPACE/NAME in it. Empty: there are none.")
	fs.StringVar(&s.Scratch, "backup-scratch", "", "Folder in which snapshots are restored to prove backups. Defaults to "+DefaultScratch+
		", which the manifests mount, if it is there; else no backup is verified.")
	fs.Int64Var(&s.Limits.Memory, "backup-scratch-memory", s.Limits.Memory,
		"Most memory in bytes that restoring one snapshot may take, in a process of its own.")
	fs.Int64Var(&s.Limits.Disk, "backup-scratch-disk", s.Limits.Disk,
		"Most bytes that restoring one snapshot may take in --backup-scratch. It takes twice the snapshot's size and 72 MiB; larger snapshots "+
			"are not backed up.")
	fs.StringSliceVar(&s.Refuse, "backup-refuse", nil,
		"Ranges of addresses, such as 10.96.0.0/12, that no BackupStore may lead to: those of the management cluster. Loopback and link-local "+
			"addresses are always refused.")
	fs.StringVar(&s.SeedBind, "seed-bind-address", DefaultSeedBind,
		"Address at which the manager hands snapshots out to machines that restore one.")
	fs.StringVar(&s.SeedAddress, "seed-address", "",
		"Host and port at which machines reach --seed-bind-address, such as those of a Service of type LoadBalancer. "+
			"Empty or none: control planes cannot be recovered by an EtcdRecovery.")
	fs.IntVar(&s.AtOnce, "backups-at-once", DefaultAtOnce, "How many backups are taken at the same time.")
}

// Check says which flag has a value that cannot be worked with, and turns those that stand for none into none.
func (s *Settings) Check() error {
	const leastMemory, leastDisk = 64 << 20, 128 << 20
	switch {
	case s.Limits.Memory < leastMemory:
		return fmt.Errorf("--backup-scratch-memory=%d: it must be at least %d", s.Limits.Memory, leastMemory)
	case s.Limits.Disk < leastDisk:
		return fmt.Errorf("--backup-scratch-disk=%d: it must be at least %d", s.Limits.Disk, leastDisk)
	case s.AtOnce < 1:
		return fmt.Errorf("--backups-at-once=%d: it must be at least 1", s.AtOnce)
	}
	if s.SeedAddress == noSeeds {
		s.SeedAddress = ""
	}
	if s.SeedAddress != "" {
		if _, port, err := net.SplitHostPort(s.SeedAddress); err != nil || port == "" {
			return fmt.Errorf("--seed-address=%q: it must be a host and a port, such as seeds.example.com:9446", s.SeedAddress)
		}
	}
	_, err := s.refused()
	return err
}

func (s *Settings) refused() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range s.Refuse {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--backup-refuse=%q: it must be a range of addresses, such as 10.96.0.0/12", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// Options returns what the controllers of one manager share. direct lets stores lead to any address, where all of them are the
// administrator's own.
func (s *Settings) Options(mgr ctrl.Manager, with controller.Options, direct bool) (Options, error) {
	refused, err := s.refused()
	if err != nil {
		return Options{}, err
	}
	dial := untrusted.DialerExcept(refused).DialContext
	if direct {
		dial = nil
	}
	scratchFolder := s.Scratch
	if scratchFolder == "" {
		if _, err := os.Stat(DefaultScratch); err == nil {
			scratchFolder = DefaultScratch
		}
	}
	for _, folder := range []string{s.Scratch, s.Folder} {
		if folder == "" {
			continue
		}
		if _, err := os.Stat(folder); err != nil {
			return Options{}, errors.Join(fmt.Errorf("a folder for backups is not there: %s", folder), err)
		}
	}
	limits, atOnce := s.Limits, s.AtOnce
	if limits == (scratch.Limits{}) {
		limits = scratch.DefaultLimits
	}
	if atOnce == 0 {
		atOnce = DefaultAtOnce
	}
	return Options{
		Controller: with, Stores: clusterbackup.Opener{Reader: mgr.GetAPIReader(), Folder: s.Folder, DialTenants: dial},
		Scratch: scratchFolder, Limits: limits,
		Slots: make(chan struct{}, atOnce),
	}, nil
}
