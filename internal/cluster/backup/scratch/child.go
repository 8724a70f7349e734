package scratch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/lease"
	etcdbackend "go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/core/backup"
)

// argument is the first argument of a process that restores a snapshot and does nothing else.
const argument = "restore-snapshot-into-scratch"

// order is what the child is to do, as JSON in its second argument.
type order struct {
	// Folder is an empty folder.
	Folder string `json:"folder"`
	// Revision is the revision at which keys are hashed and counted.
	Revision int64 `json:"revision"`
	// Limits are what the child sets for itself.
	Limits Limits `json:"limits"`
}

// answer is what the child prints.
type answer struct {
	Restored *backup.Restored `json:"restored,omitempty"`
	Error    string           `json:"error,omitempty"`
}

// RunIfChild does a child's work and ends the process, if this process is one. Each program that calls Start calls it first of all, before
// it reads its arguments.
func RunIfChild() {
	if len(os.Args) != 3 || os.Args[1] != argument {
		return
	}
	restored, err := child(os.Args[2], os.Stdin)
	a := answer{Restored: restored}
	if err != nil {
		a = answer{Error: err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(a); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func child(text string, from io.Reader) (*backup.Restored, error) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return nil, fmt.Errorf("reading the order: %w", err)
	}
	if err := o.Limits.set(); err != nil {
		return nil, err
	}
	path := filepath.Join(o.Folder, "snapshot.db")
	digest, err := receive(path, from, o.Limits.Most())
	if err != nil {
		return nil, fmt.Errorf("writing the snapshot to the scratch folder: %w", err)
	}
	data := filepath.Join(o.Folder, "restored")
	if err := restore(path, data); err != nil {
		return nil, fmt.Errorf("restoring the snapshot: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("removing the snapshot: %w", err)
	}
	database := filepath.Join(data, "member", "snap", "db")
	if err := checkPages(database); err != nil {
		return nil, err
	}
	restored, err := measure(database, o.Revision)
	if err != nil {
		return nil, fmt.Errorf("reading the restored data: %w", err)
	}
	restored.Snapshot = digest
	return restored, nil
}

// set limits this process. The kernel ends it, and no other, where memory becomes short.
func (l Limits) set() error {
	// What a process has already the kernel lets it keep, and a small snapshot may need no more.
	if used := dataSize(); used > l.Memory {
		return fmt.Errorf("limiting the scratch's memory to %d bytes: it has %d bytes before it begins", l.Memory, used)
	}
	for _, one := range []struct {
		name     string
		resource int
		value    int64
	}{{"memory", unix.RLIMIT_DATA, l.Memory}, {"file size", unix.RLIMIT_FSIZE, l.Disk}, {"core file", unix.RLIMIT_CORE, 0}} {
		value := uint64(max(one.value, 0))
		if err := unix.Setrlimit(one.resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("limiting the scratch's %s to %d bytes: %w", one.name, one.value, err)
		}
	}
	// Both are a favour to the manager beside it, and neither is needed for a result.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	giveWay()
	return nil
}

// giveWay gives each thread of this process a low priority. Linux keeps one for each thread, and a new thread has that of the thread which
// began it: once all that are there have it, those that follow do too.
func giveWay() {
	const passes, highest = 10, 20 // the system call answers highest minus the niceness
	for range passes {
		threads, _ := os.ReadDir("/proc/self/task")
		changed := false
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			if is, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && highest-is < niceness {
				changed = true
				_ = unix.Setpriority(unix.PRIO_PROCESS, id, niceness)
			}
		}
		if !changed {
			return
		}
	}
}

// dataSize is how much memory of this process counts for RLIMIT_DATA, in bytes; 0: the kernel does not tell.
func dataSize() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, is := strings.CutPrefix(line, "VmData:"); is {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

func receive(path string, from io.Reader, most int64) (backup.Digest, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return backup.Digest{}, err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(from, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("it has more than %d bytes, which is what the scratch folder's limit allows", most)
	}
	err = errors.Join(err, file.Close())
	return backup.Digest{Size: n, SHA256: hex.EncodeToString(hash.Sum(nil))}, err
}

// restore makes a data folder of a new cluster of one, as a recovery does.
func restore(path, folder string) error {
	const url = "http://127.0.0.1:2380" // nothing listens there: no etcd is started
	return snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: path, OutputDataDir: folder, Name: "scratch", PeerURLs: []string{url},
		InitialCluster: "scratch=" + url, InitialClusterToken: "scratch",
	})
}

// checkPages reads each page of the database.
func checkPages(path string) error {
	database, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("opening the restored database: %w", err)
	}
	err = database.View(func(tx *bolt.Tx) error {
		var first error
		for problem := range tx.Check() {
			if first == nil {
				first = fmt.Errorf("the restored database is damaged: %w", problem)
			}
		}
		return first
	})
	return errors.Join(err, database.Close())
}

// measure loads the database as etcd does when it starts, hashes and counts its keys.
func measure(path string, revision int64) (*backup.Restored, error) {
	config := etcdbackend.DefaultBackendConfig(zap.NewNop())
	config.Path = path
	database := etcdbackend.New(config)
	defer func() { _ = database.Close() }()
	// Without a lessor etcd panics at the first key with a lease. This one takes all and does nothing.
	store := mvcc.NewStore(zap.NewNop(), database, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer func() { _ = store.Close() }()
	// Not the store's own hashes: those of past compactions are not computed again.
	hash, latest, err := mvcc.NewHashStorage(zap.NewNop(), store).HashByRev(revision)
	if err != nil {
		return nil, fmt.Errorf("hashing at revision %d of %d: %w", revision, latest, err)
	}
	// From the smallest key on, without an end.
	counted, err := store.Range(context.Background(), []byte{0}, []byte{}, mvcc.RangeOptions{Rev: revision, Count: true})
	if err != nil {
		return nil, fmt.Errorf("counting keys at revision %d: %w", revision, err)
	}
	return &backup.Restored{
		Witness: backup.Witness{Revision: hash.Revision, CompactRevision: hash.CompactRevision, Hash: hash.Hash},
		Keys:    int64(counted.Count), Latest: latest,
	}, nil
}
