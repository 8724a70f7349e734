package scratch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	RunIfChild()
	os.Exit(m.Run())
}

// TestPriority: each thread of a restore gives way to all else on the host, etcd above all. The priority of a process is that of one thread
// for Linux.
func TestPriority(t *testing.T) {
	s, err := Start(t.Context(), t.TempDir(), 1, Limits{Memory: 1 << 30, Disk: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Discard()
	threads := func() (ids, high int) {
		all := priorities(t, s.command.Process.Pid)
		for _, p := range all {
			if p < niceness {
				high++
			}
		}
		return len(all), high
	}
	// What is received begins threads.
	for end := time.Now().Add(20 * time.Second); ; {
		s.Write(make([]byte, 1<<20))
		if n, high := threads(); n > 2 && high == 0 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d of %d threads of the restore have a higher priority than %d", high, n, niceness)
		}
	}
	for range 50 {
		s.Write(make([]byte, 1<<20))
	}
	if n, high := threads(); high > 0 {
		t.Errorf("later %d of %d threads have a higher priority than %d", high, n, niceness)
	}
}

// priorities are those of the threads of a process.
func priorities(t *testing.T, pid int) (all []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d threads, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		const nice = 19 - 3 // of proc_pid_stat(5), after the name
		p, err := strconv.Atoi(fields[nice])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}
