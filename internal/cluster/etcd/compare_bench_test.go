package etcd_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// BenchmarkCompare compares three members of QUORATE_COMPARE_SIZE MiB of data, 100 without it, while a client writes one key after the
// other, and reports the longest time that a write took.
func BenchmarkCompare(b *testing.B) {
	const value = 512 << 10
	size := 100
	if given := os.Getenv("QUORATE_COMPARE_SIZE"); given != "" {
		var err error
		size, err = strconv.Atoi(given)
		etcdtest.Must(b, err)
	}
	ca := etcdtest.NewAuthority(b)
	g := etcdtest.Run(b, ca, three, "--quota-backend-bytes=8589934592")
	c := etcd.Open(ca.Client())
	b.Cleanup(c.Close)
	kv := pb.NewKVClient(g[0].Connect())
	put := func(key string, bytes []byte) {
		_, err := kv.Put(b.Context(), &pb.PutRequest{Key: []byte(key), Value: bytes})
		etcdtest.Must(b, err)
	}
	for i := range size << 20 / value {
		put(fmt.Sprint("large", i), make([]byte, value))
	}
	survey := c.Survey(b.Context(), g.Targets())
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		for i := 0; ; i++ {
			select {
			case <-stop:
				longest <- most
				return
			default:
			}
			begun := time.Now()
			put(fmt.Sprint("small", i%100), []byte("x"))
			most = max(most, time.Since(begun))
		}
	}()
	for b.Loop() {
		if found := c.Compare(b.Context(), g.Targets(), survey); found.Why != "" || len(found.Differ) > 0 {
			b.Fatalf("%+v", found)
		}
	}
	close(stop)
	b.ReportMetric((<-longest).Seconds(), "s-longest-write")
	b.ReportMetric(float64(survey.Members[0].Size)/1e6, "MB")
}
