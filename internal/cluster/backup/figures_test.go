package backup_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// valueSize is the size of the values in a benchmark.
const valueSize = 128 << 10

// BenchmarkBackup takes, stores and verifies a backup of an etcd of QUORATE_BACKUP_SIZE (100M, as Kubernetes writes quantities). It reports
// how much memory this process took at most, which is the manager's without the scratch, the longest gap between two writes to etcd
// meanwhile, and how many of them failed. Beside it stands how long the disk takes to write a file of the snapshot's size.
// QUORATE_BACKUP_MEMBERS is how many members etcd has (3), each of which has all data.
func BenchmarkBackup(b *testing.B) {
	size, err := resource.ParseQuantity(cmp.Or(os.Getenv("QUORATE_BACKUP_SIZE"), "100M"))
	etcdtest.Must(b, err)
	members := []string{"a", "b", "c"}
	if n, err := strconv.Atoi(os.Getenv("QUORATE_BACKUP_MEMBERS")); err == nil {
		members = members[:n]
	}
	w := newWorld(b, members...)
	w.fill(int(size.Value()/valueSize), valueSize)
	owner := identity(b)
	for b.Loop() {
		stop := w.writes()
		before := resident(b)
		resetPeak(b)
		begun := time.Now()
		r := w.request(owner.Recipient().String())
		r.Limits = scratch.DefaultLimits
		e := w.must(r)
		b.ReportMetric(time.Since(begun).Seconds(), "s/backup")
		gap, failed := stop()
		b.ReportMetric(gap.Seconds(), "s-gap")
		b.ReportMetric(float64(failed), "failed-writes")
		b.ReportMetric(float64(peak(b)-before)/1024, "MiB-more")
		b.ReportMetric(float64(e.Manifest.Snapshot.Size)/1e6, "MB-snapshot")
		b.ReportMetric(diskTakes(b, e.Manifest.Snapshot.Size).Seconds(), "s-disk")
	}
}

// diskTakes returns how long it takes to write a file of a size, and to have it on the disk.
func diskTakes(tb testing.TB, size int64) time.Duration {
	tb.Helper()
	file, err := os.Create(filepath.Join(tb.TempDir(), "file"))
	etcdtest.Must(tb, err)
	begun := time.Now()
	_, err = io.Copy(file, io.LimitReader(rand.NewChaCha8([32]byte{}), size))
	etcdtest.Must(tb, errors.Join(err, file.Sync()))
	took := time.Since(begun)
	etcdtest.Must(tb, errors.Join(file.Close(), os.Remove(file.Name())))
	return took
}

// writes writes to the leader all the time, until the function is called that it returns.
func (w *world) writes() func() (longest time.Duration, failed int) {
	ctx, cancel := context.WithCancel(context.Background())
	kv := pb.NewKVClient(w.members.Leader().Connect())
	var done sync.WaitGroup
	var longest time.Duration
	var failed, n int
	done.Go(func() {
		for last := time.Now(); ctx.Err() == nil; n++ {
			if _, err := kv.Put(ctx, &pb.PutRequest{Key: []byte("written"), Value: fmt.Append(nil, n)}); err != nil {
				if ctx.Err() == nil {
					failed++
				}
				continue
			}
			longest, last = max(longest, time.Since(last)), time.Now()
		}
	})
	return func() (time.Duration, int) {
		cancel()
		done.Wait()
		return longest, failed
	}
}

// status returns a value of /proc/self/status in KiB.
func status(tb testing.TB, field string) int {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/status")
	etcdtest.Must(tb, err)
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, field+":"); is {
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			etcdtest.Must(tb, err)
			return kib
		}
	}
	tb.Fatalf("no %s in /proc/self/status", field)
	return 0
}

func resident(tb testing.TB) int { tb.Helper(); return status(tb, "VmRSS") }

func peak(tb testing.TB) int { tb.Helper(); return status(tb, "VmHWM") }

// resetPeak makes the peak what is resident now.
func resetPeak(tb testing.TB) {
	tb.Helper()
	etcdtest.Must(tb, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
}
