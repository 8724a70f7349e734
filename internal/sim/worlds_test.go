package sim

import (
	"errors"
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"
)

var (
	seed  = flag.Int64("seed", -1, "run the world of this seed alone, and tell its story")
	steps = flag.Int("steps", 1_000_000, "how many steps random worlds take in all")
	brief = flag.Int("brief", 0, "tell one line of each world that fails, up to so many; 0: the stories of a few")
)

// TestWorlds lets the rules run many random worlds, in which much goes wrong, and
// holds every step against the truth. A world that fails is told as a story;
// -seed tells it again.
func TestWorlds(t *testing.T) {
	if *seed >= 0 {
		story := &Story{}
		_, err := Live(Random(*seed), story)
		t.Logf("seed %d: %+v\n%s", *seed, Random(*seed), story)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	total, failed, helped, n := 0, 0, 0, int64(0)
	for ; total < *steps; n++ {
		took, err := Live(Random(n), nil)
		total += took
		if err == nil {
			continue
		}
		if errors.As(err, &NeedsHelp{}) {
			helped++
		}
		if *brief > 0 {
			t.Errorf("seed %d: %v", n, err)
			if failed++; failed == *brief {
				break
			}
			continue
		}
		story := &Story{}
		Live(Random(n), story)
		t.Errorf("seed %d: %v\n%+v\n%s\ntell it again: make worlds SEED=%d", n, err, Random(n), story, n)
		if failed++; failed == 5 {
			break
		}
	}
	fmt.Printf("%d worlds, %d steps; worlds in which somebody had to help: %d\n", n, total, helped)
}

// BenchmarkWorlds measures steps a second, and a second of the processor's where the
// host is busy: looking, deciding, checking, acting and judging.
func BenchmarkWorlds(b *testing.B) {
	total, n := 0, int64(0)
	before := processor(b)
	for b.Loop() {
		steps, err := Live(Random(n), nil)
		if err != nil {
			b.Fatal(fmt.Errorf("seed %d: %w", n, err))
		}
		total, n = total+steps, n+1
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(total)/(processor(b)-before).Seconds(), "steps/cpu-s")
}

// processor is how much of the processor's time this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
