package etcd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/program/untrusted"
)

const (
	// mostPrefixes is how many prefixes are counted at most.
	mostPrefixes = 2000
	// mostValues is how many bytes one answer with values may have. Two values fit, each as large as etcd accepts by default.
	mostValues = 8 << 20
	// valuesAtOnce is how many values one request reads, and fewValues up to how many all values of a prefix are read.
	valuesAtOnce, fewValues = 2, 8
)

// samplePoints are the beginnings of names at which values are read: most names begin with a small letter.
var samplePoints = []string{"", "4", "b", "e", "i", "m", "p", "t"}

// otherKeys is how keys are shown that lie below no resource.
const otherKeys = "(other keys)"

// Usage is what fills an etcd: its keys by prefix.
type Usage struct {
	// Prefixes are sorted, those with the most bytes first.
	Prefixes []Prefix
	// Cut says why not all keys were counted; empty: all were.
	Cut string
}

// Prefix is what lies below one prefix.
type Prefix struct {
	// Name is /registry/<resource> or /registry/<group>/<resource>.
	Name string
	// Namespace is that of the keys, where it was asked for and they have one.
	Namespace string
	// Keys is their number, and Bytes how many bytes they and their newest values have, estimated from Sampled of them. Where Sampled is Keys
	// it is exact.
	Keys, Bytes int64
	Sampled     int64
}

// Usage counts the keys of a member by prefix, until ctx ends. It reads no list of all keys: of each prefix it asks for the first key, for
// their number, and for the sizes of at most 16 values, which are dropped at once. The reads are of the member alone and need no quorum.
func (c *Cluster) Usage(ctx context.Context, t Target, byNamespace bool) (Usage, error) {
	u := &counting{c: c, target: t, byNamespace: byNamespace, found: map[Prefix]Prefix{}}
	err := u.all(ctx)
	if err != nil && len(u.found) == 0 {
		return Usage{}, fmt.Errorf("counting the keys of etcd member %s: %w", t.Name, shownError{err})
	}
	done := Usage{Cut: u.cut}
	for _, p := range u.found {
		done.Prefixes = append(done.Prefixes, p)
	}
	switch {
	case err != nil && isOver(ctx, err):
		done.Cut = fmt.Sprintf("time was over after %d prefixes", len(done.Prefixes))
	case err != nil:
		done.Cut = plain(err)
	}
	slices.SortFunc(done.Prefixes, func(x, y Prefix) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(y.Keys, x.Keys), cmp.Compare(x.Name, y.Name),
			cmp.Compare(x.Namespace, y.Namespace))
	})
	return done, nil
}

// isOver reports whether a request failed because ctx ended, and not by its own limit. The member may notice the end a moment before.
func isOver(ctx context.Context, err error) bool {
	end, ends := ctx.Deadline()
	return ctx.Err() != nil || ends && time.Until(end) < patience/2 && status.Code(err) == codes.DeadlineExceeded
}

// Latency returns how long a member takes to answer once, over a connection that is open if one is.
func (c *Cluster) Latency(ctx context.Context, t Target) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var took time.Duration
	err := c.try(ctx, t, func(ctx context.Context, conn *grpc.ClientConn) error {
		begun := time.Now()
		_, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
		took = time.Since(begun)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("asking etcd member %s: %w", t.Name, shownError{err})
	}
	return took, nil
}

// counting is one count.
type counting struct {
	c           *Cluster
	target      Target
	byNamespace bool
	// found are what was counted, by name and namespace.
	found map[Prefix]Prefix
	cut   string
}

// part is a range of keys that are counted as one. The end theEnd is that of all keys.
type part struct {
	of        Prefix
	from, end []byte
}

// theEnd is how etcd writes the end of a range that ends with the last key.
var theEnd = []byte{0}

func (p part) isLast() bool { return bytes.Equal(p.end, theEnd) }

// all counts one part after the other.
func (u *counting) all(ctx context.Context) error {
	at := []byte{0}
	for range mostPrefixes {
		first, err := u.read(ctx, &pb.RangeRequest{Key: at, RangeEnd: theEnd, Limit: 1, KeysOnly: true}, mostAnswer)
		if err != nil || len(first.Kvs) == 0 {
			return err
		}
		if bytes.Compare(first.Kvs[0].Key, at) < 0 {
			return untrusted.Nonsense("its answer makes no sense: keys are not in order")
		}
		p := partOf(first.Kvs[0].Key, u.byNamespace)
		if err := u.count(ctx, p); err != nil || p.isLast() {
			return err
		}
		at = p.end
	}
	u.cut = fmt.Sprintf("there are more than %d prefixes", mostPrefixes)
	return nil
}

// count adds what a part has.
func (u *counting) count(ctx context.Context, p part) error {
	counted, err := u.read(ctx, &pb.RangeRequest{Key: p.from, RangeEnd: p.end, CountOnly: true}, mostAnswer)
	if err != nil {
		return err
	}
	keys := max(counted.Count, 0)
	size, sampled, err := u.sample(ctx, p, keys)
	if err != nil {
		return err
	}
	sum := u.found[p.of]
	sum.Name, sum.Namespace = p.of.Name, p.of.Namespace
	sum.Keys += keys
	sum.Sampled += sampled
	if sampled > 0 {
		sum.Bytes += int64(float64(size) / float64(sampled) * float64(keys))
	}
	u.found[p.of] = sum
	return nil
}

// sample returns how many bytes some keys of a part have with their values, and how many keys these are.
func (u *counting) sample(ctx context.Context, p part, keys int64) (size, sampled int64, err error) {
	seen := map[string]bool{}
	add := func(from []byte) (last []byte, err error) {
		if !p.isLast() && bytes.Compare(from, p.end) >= 0 {
			return nil, nil
		}
		some, err := u.read(ctx, &pb.RangeRequest{Key: from, RangeEnd: p.end, Limit: valuesAtOnce}, mostValues)
		if err != nil {
			return nil, err
		}
		for _, kv := range some.Kvs {
			if last = kv.Key; !seen[string(kv.Key)] {
				seen[string(kv.Key)] = true
				size += int64(len(kv.Key) + len(kv.Value))
			}
		}
		return last, nil
	}
	if keys <= fewValues {
		for at := p.from; at != nil && len(seen) < fewValues; {
			last, err := add(at)
			if err != nil {
				return 0, 0, err
			}
			if at = nil; last != nil {
				at = append(bytes.Clone(last), 0)
			}
		}
		return size, int64(len(seen)), nil
	}
	for _, point := range samplePoints {
		if _, err := add(append(bytes.Clone(p.from), point...)); err != nil {
			return 0, 0, err
		}
	}
	return size, int64(len(seen)), nil
}

// read reads a range of the member alone.
func (u *counting) read(ctx context.Context, r *pb.RangeRequest, most int) (*pb.RangeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.Serializable = true
	var response *pb.RangeResponse
	err := u.c.try(ctx, u.target, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		response, err = pb.NewKVClient(conn).Range(ctx, r, grpc.MaxCallRecvMsgSize(most))
		return err
	})
	if large := tooLarge(err); large != nil {
		return nil, errors.New("an answer is larger than is read")
	}
	return response, rpctypes.Error(err)
}

// partOf returns the range of keys that a key is counted with. The API server keeps an object under /registry/<resource>/<name>,
// /registry/<resource>/<namespace>/<name>, or the same below /registry/<group>, and groups have a dot. Names of objects are in no Prefix.
func partOf(key []byte, byNamespace bool) part {
	if key[0] != '/' {
		if key[0] > '/' {
			return part{of: Prefix{Name: otherKeys}, from: []byte{'/' + 1}, end: theEnd}
		}
		return part{of: Prefix{Name: otherKeys}, from: []byte{0}, end: []byte{'/'}}
	}
	segments := strings.Split(string(key[1:]), "/")
	depth := 2
	if len(segments) > 1 && (strings.Contains(segments[1], ".") || segments[1] == "services") {
		depth = 3
	}
	if len(segments) <= depth { // the key itself
		return part{of: Prefix{Name: otherKeys}, from: key, end: append(bytes.Clone(key), 0)}
	}
	of := Prefix{Name: shownPrefix(segments[:depth])}
	if byNamespace && len(segments) > depth+1 {
		of.Namespace = shownWord(segments[depth])
		depth++
	}
	from := []byte("/" + strings.Join(segments[:depth], "/"))
	return part{of: of, from: append(bytes.Clone(from), '/'), end: append(from, '/'+1)}
}

func shownPrefix(segments []string) string {
	shown := ""
	for _, s := range segments {
		shown += "/" + shownWord(s)
	}
	return shown
}

// shownWord is a part of a key that is fit to be shown. Anybody may have written a key.
func shownWord(text string) string {
	const longest = 253 // of a name in Kubernetes
	if text == "" || len(text) > longest || !isWord(text) {
		return "(unreadable)"
	}
	return text
}
