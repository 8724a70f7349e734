package plan_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/plan/rows"
)

func BenchmarkNext(b *testing.B) {
	for name, row := range map[string]string{
		"rest":  "7/abc kubeconfig=364 | 1a 2b 3c 4a 5b 6c 7a | 1^ 2 3 4 5 6 7",
		"grow":  "7/abc kubeconfig=364 | 1a 2b~40s 3c~40s 4a~40s 5b~40s 6c~40s | 1^ 2lu@5s",
		"leave": "5/abc kubeconfig=364 | 1a!! 2b 3c 4a 5b 6c 7ax | 1^ 2 3 4 5 6 7x",
	} {
		o, err := rows.State(row)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			before := processor(b)
			for b.Loop() {
				plan.Next(o)
			}
			b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processor is how much of the processor's time this process has used: on a busy
// host it tells more than the time that went by.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
