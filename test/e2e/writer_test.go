//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// writer begins a write ten times a second through a cluster's endpoint, whether those before have ended or not, and remembers what was
// acknowledged. One that hangs, because etcd had forwarded it to a leader that died, does not hide that others are served.
type writer struct {
	client kubernetes.Interface
	name   string // of what it writes, before a number
	tried  int

	mu           sync.Mutex // guards what follows
	acknowledged []string
	failed       int
	last         time.Time     // when a write was acknowledged last
	times        []time.Time   // when each was acknowledged
	gap          time.Duration // the longest time without an acknowledged write
	gapBegan     time.Time     // when that began
	slowest      time.Duration // the longest time that a write took that was acknowledged
	errors       []string      // when the failed ones were begun, and what they said
}

// writeTimeout ends a write that nobody answers.
const writeTimeout = 5 * time.Second

func newWriter(c kubernetes.Interface) *writer {
	return &writer{client: c, name: fmt.Sprintf("write-%d", time.Now().UnixNano())}
}

// run writes until ctx ends, and returns when the last write has ended.
func (w *writer) run(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	w.last = time.Now()
	var writes sync.WaitGroup
	for ; ctx.Err() == nil; <-tick.C {
		w.tried++
		name := fmt.Sprintf("%s-%05d", w.name, w.tried)
		writes.Go(func() { w.write(name) })
	}
	ended := time.Now()
	writes.Wait()
	w.note(ended)
}

// note notes the time without an acknowledged write that ends now, if it is the longest.
func (w *writer) note(now time.Time) {
	if gap := now.Sub(w.last); gap > w.gap {
		w.gap, w.gapBegan = gap, w.last
	}
}

// write writes once.
func (w *writer) write(name string) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	_, err := w.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failed++
		w.errors = append(w.errors, fmt.Sprintf("begun %s, ended after %.1f s: %v", began.Format("15:04:05.000"), time.Since(began).Seconds(),
			err))
		return
	}
	now := time.Now()
	w.note(now)
	w.acknowledged, w.times, w.last = append(w.acknowledged, name), append(w.times, now), now
	w.slowest = max(w.slowest, now.Sub(began))
}

// firstAfter returns how long after a moment the first write was acknowledged; 0: none was.
func (w *writer) firstAfter(moment time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.times {
		if at.After(moment) {
			return at.Sub(moment)
		}
	}
	return 0
}

// lost counts the acknowledged writes that cannot be read any more. The cluster must still be there.
func (w *writer) lost(ctx context.Context, t *testing.T) int {
	t.Helper()
	if len(w.acknowledged) == 0 {
		t.Fatal("no write was acknowledged")
	}
	there := map[string]bool{}
	eventually(t, "what was written is read", patience, func() string {
		all, err := w.client.CoreV1().ConfigMaps("default").List(ctx, listAll)
		if err != nil {
			return err.Error()
		}
		for _, c := range all.Items {
			there[c.Name] = true
		}
		return ""
	})
	lost := 0
	for _, name := range w.acknowledged {
		if !there[name] {
			lost++
		}
	}
	return lost
}

func (w *writer) String() string {
	return fmt.Sprintf("%d tried, %d failed, longest gap %.1f s from %s on, slowest %.1f s %q",
		w.tried, w.failed, w.gap.Seconds(), w.gapBegan.Format("15:04:05.000"), w.slowest.Seconds(), w.errors)
}

// reportMemory prints what the daemon with its children and each machine really use.
func reportMemory(t *testing.T, e *environment) {
	t.Helper()
	text, err := os.ReadFile(e.state + "/daemon.pid")
	if err != nil {
		t.Fatal(err)
	}
	daemon := strings.Fields(string(text))[0]
	total := proportional(t, daemon)
	parts := []string{fmt.Sprintf("daemon %d MB", total)}
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, p := range all {
		stat, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		rest := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
		if rest[1] == daemon {
			m := proportional(t, filepath.Base(filepath.Dir(p)))
			name, _ := os.ReadFile(filepath.Dir(p) + "/comm")
			parts = append(parts, fmt.Sprintf("%s %d MB", strings.TrimSpace(string(name)), m))
			total += m
		}
	}
	t.Logf("FIGURE memory of the management plane: %d MB (%s)", total, strings.Join(parts, ", "))
	usage, _ := filepath.Glob("/sys/fs/cgroup/memory/quorate-*/*/memory.stat")
	unified, _ := filepath.Glob("/sys/fs/cgroup/quorate-*/*/memory.stat")
	for _, f := range append(usage, unified...) {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		rss := 0
		for _, line := range strings.Split(string(text), "\n") {
			for _, key := range []string{"total_rss ", "anon "} {
				if v, ok := strings.CutPrefix(line, key); ok {
					n, _ := strconv.Atoi(v)
					rss += n
				}
			}
		}
		t.Logf("FIGURE memory of %s: %d MB (anonymous)", filepath.Base(filepath.Dir(f)), rss>>20)
	}
}

// proportional is a process's memory with shared pages divided among those that share them, in MB.
func proportional(t *testing.T, pid string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		if v, ok := strings.CutPrefix(line, "Pss:"); ok {
			n, _ := strconv.Atoi(strings.Fields(v)[0])
			return n >> 10
		}
	}
	return 0
}
