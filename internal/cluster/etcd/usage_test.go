package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// TestUsage: keys are counted by resource or by namespace too, groups are told from resources, sizes are near the truth, and no name of an
// object is in what is found.
func TestUsage(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, []string{"cp-1"})
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	kv := pb.NewKVClient(g[0].Connect())
	bytes := map[string]int64{}
	put := func(prefix, name string, size int) {
		key := prefix + "/" + name
		_, err := kv.Put(t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte(strings.Repeat("v", size))})
		etcdtest.Must(t, err)
		bytes[prefix] += int64(len(key) + size)
	}
	for i := range 300 {
		put("/registry/pods/kube-system", fmt.Sprintf("%c-secretname-%d", 'a'+i%26, i), 1000)
		put("/registry/apps.example.com/widgets", fmt.Sprintf("%c-secretname-%d", 'a'+i%26, i), 100)
	}
	for i := range 5 {
		put("/registry/pods/prod", fmt.Sprintf("secretname-%d", i), 200_000+i)
		put("/registry/pods/prod-2", fmt.Sprintf("secretname-%d", i), 10)
		put("/registry/services/specs/prod", fmt.Sprintf("secretname-%d", i), 10)
		put("/registry/services/endpoints/prod", fmt.Sprintf("secretname-%d", i), 10)
		put("/registry/namespaces", fmt.Sprintf("secretname-%d", i), 10)
	}
	put("/registry", "health", 10)
	for _, key := range []string{"compact_rev_key", "!secretname", "/\x1b[31m/b/secretname", "/registry/\xff/secretname"} {
		_, err := kv.Put(t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte("v")})
		etcdtest.Must(t, err)
	}

	for by, want := range map[bool][]string{
		false: {"/registry/pods 310", "/registry/apps.example.com/widgets 300", "/registry/services/specs 5", "/registry/services/endpoints 5",
			"/registry/namespaces 5", "(other keys) 3", "/(unreadable)/b 1", "/registry/(unreadable) 1"},
		true: {"/registry/pods kube-system 300", "/registry/pods prod 5", "/registry/pods prod-2 5", "/registry/namespaces 5",
			"/registry/services/specs prod 5", "/registry/apps.example.com/widgets 300"},
	} {
		u, err := c.Usage(t.Context(), g.Targets()[0], by)
		etcdtest.Must(t, err)
		var got []string
		for _, p := range u.Prefixes {
			got = append(got, strings.Join(strings.Fields(fmt.Sprint(p.Name, " ", p.Namespace, " ", p.Keys)), " "))
			if p.Sampled == 0 || p.Sampled > 16 || p.Keys <= 8 && p.Sampled != p.Keys {
				t.Errorf("%s: %d of %d values were read", p.Name, p.Sampled, p.Keys)
			}
			exact, known := bytes[strings.TrimSuffix(p.Name+"/"+p.Namespace, "/")]
			if known && (p.Keys == p.Sampled && p.Bytes != exact || max(p.Bytes, exact) > 2*min(p.Bytes, exact)) {
				t.Errorf("%s %s: %d bytes, they are %d", p.Name, p.Namespace, p.Bytes, exact)
			}
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q is not found", w)
			}
		}
		if text := fmt.Sprintf("%+v", u); u.Cut != "" || strings.Contains(text, "secretname") || strings.Contains(text, "\x1b") {
			t.Errorf("found are %q", text)
		}
		if !slices.IsSortedFunc(u.Prefixes, func(x, y etcd.Prefix) int { return int(y.Bytes - x.Bytes) }) {
			t.Errorf("not the largest first: %v", got)
		}
	}
	if took, err := c.Latency(t.Context(), g.Targets()[0]); err != nil || took <= 0 || took > 2*time.Second {
		t.Errorf("it answered in %s: %v", took, err)
	}
}

// TestUsageEnds: with more prefixes than are counted, and where time is over, it is said that not all was counted.
func TestUsageEnds(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, []string{"cp-1"})
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	kv := pb.NewKVClient(g[0].Connect())
	for i := range 21 {
		puts := &pb.TxnRequest{}
		for j := range 100 {
			puts.Success = append(puts.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
				RequestPut: &pb.PutRequest{Key: fmt.Appendf(nil, "/registry/r%d-%d/x", i, j)}}})
		}
		_, err := kv.Txn(t.Context(), puts)
		etcdtest.Must(t, err)
	}
	u, err := c.Usage(t.Context(), g.Targets()[0], false)
	if err != nil || len(u.Prefixes) != 2000 || u.Cut != "there are more than 2000 prefixes" {
		t.Errorf("%d prefixes, %q: %v", len(u.Prefixes), u.Cut, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	u, err = c.Usage(ctx, g.Targets()[0], false)
	if err != nil || len(u.Prefixes) == 0 || len(u.Prefixes) == 2000 ||
		u.Cut != fmt.Sprintf("time was over after %d prefixes", len(u.Prefixes)) {
		t.Errorf("%d prefixes, %q: %v", len(u.Prefixes), u.Cut, err)
	}
	g[0].Kill()
	if u, err = c.Usage(t.Context(), g.Targets()[0], false); err == nil {
		t.Errorf("a member that does not answer: %+v", u)
	}
}
