package backup

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/core/version"
)

// Ground is a control plane as far as it decides which backups it can be recovered from.
type Ground struct {
	// UID is that under which the store has the backups of the cluster.
	UID string
	// Kubernetes is the version of the machine that restores the seed, such as v1.37.2; empty where it is one of etcd alone.
	Kubernetes string
	// Etcd is the version of etcd of a machine of etcd alone, such as v3.6.16; empty for others.
	Etcd string
	// Fingerprints are those of the authorities and keys that the machine gets, by the name of their secret.
	Fingerprints map[string]string
}

// RefuseSeed returns why the control plane cannot be recovered from a backup; nil: it can.
func (m *Manifest) RefuseSeed(proof *Verification, g Ground) error {
	switch {
	case m.Cluster.UID != g.UID:
		return fmt.Errorf("backup %s is of cluster %s, and this one is %s", m.Name, m.Cluster.UID, g.UID)
	case !proof.Proves(m):
		return fmt.Errorf("backup %s is not verified: verify it first", m.Name)
	case m.Kubernetes == "" && g.Etcd == "":
		return fmt.Errorf("backup %s names no version of Kubernetes: it is one of an etcd without a control plane", m.Name)
	}
	if g.Etcd != "" {
		if err := refuseEtcd(m, g.Etcd); err != nil {
			return err
		}
	} else if err := refuseVersion(m, g.Kubernetes); err != nil {
		return err
	}
	return refuseKeys(m, g.Fingerprints)
}

// refuseVersion: an API server reads what the version before it wrote, and etcd the data of the minor version before.
func refuseVersion(m *Manifest, kubernetes string) error {
	of, err := version.Parse(m.Kubernetes)
	if err != nil {
		return fmt.Errorf("backup %s: kubernetes %q: %w", m.Name, m.Kubernetes, err)
	}
	next, err := version.Parse(kubernetes)
	if err != nil {
		return fmt.Errorf("version %q: %w", kubernetes, err)
	}
	if ahead := version.CompareMinor(next, of); ahead < 0 || next.Major != of.Major || next.Minor > of.Minor+1 {
		return fmt.Errorf("backup %s is of Kubernetes %s, and the machine would run %s: must be the same minor version or the next one",
			m.Name, m.Kubernetes, kubernetes)
	}
	return nil
}

// refuseEtcd: etcd reads the data of its own minor version and of the one before.
func refuseEtcd(m *Manifest, etcd string) error {
	if m.Kubernetes != "" {
		return fmt.Errorf("backup %s is one of a control plane with Kubernetes %s, whose etcd ran on its own machines", m.Name, m.Kubernetes)
	}
	of, err := version.Parse("v" + m.Etcd.Version)
	if err != nil {
		return fmt.Errorf("backup %s: etcd %q: %w", m.Name, m.Etcd.Version, err)
	}
	next, err := version.Parse(etcd)
	if err != nil {
		return fmt.Errorf("version %q: %w", etcd, err)
	}
	if next.Major != of.Major || next.Minor < of.Minor || next.Minor > of.Minor+1 {
		return fmt.Errorf("backup %s is of etcd %s, and the machine would run %s: must be the same minor version or the next one",
			m.Name, m.Etcd.Version, etcd)
	}
	return nil
}

// refuseKeys: what etcd holds was signed, and names who signs; other authorities or keys would leave every token and certificate in it
// invalid.
func refuseKeys(m *Manifest, given map[string]string) error {
	if len(m.Fingerprints) == 0 || len(given) == 0 {
		return errors.New("the fingerprints of the authorities are not known: the backup, or the control plane, has none")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if was := m.Fingerprints[name]; was != given[name] {
			return fmt.Errorf("secret %s has the fingerprint %.12s, and backup %s was taken with %.12s: restore the secret first",
				name, given[name], m.Name, cmp.Or(was, "none"))
		}
	}
	return nil
}

// Survivor is a member of an etcd without a quorum, as the choice of a seed looks at it.
type Survivor struct {
	// Name is its machine's or node's name.
	Name string
	// Term is the raft term, and Applied the last entry of the log that its data contains.
	Term, Applied uint64
}

// Best returns the survivor with the newest data; ok is false where none is left.
func Best(all []Survivor) (best Survivor, ok bool) {
	for i, s := range all {
		newer := cmp.Or(cmp.Compare(s.Term, best.Term), cmp.Compare(s.Applied, best.Applied), cmp.Compare(best.Name, s.Name))
		if i == 0 || newer > 0 {
			best = s
		}
	}
	return best, len(all) > 0
}
