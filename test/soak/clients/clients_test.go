package clients

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"slices"

	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/quorate/quorate/test/soak/history"
	"github.com/quorate/quorate/test/soak/judge"
)

// buffer is a file that is written by a recorder and read by the test.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) entries(t *testing.T) []history.Entry {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text.Len() == 0 {
		return nil
	}
	all, err := history.Read(bytes.NewReader(b.text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// cable leads to a server, and can be cut.
type cable struct {
	to string

	mu   sync.Mutex
	open []net.Conn
	away bool
}

// lay listens for what is to be led to an address, and returns where.
func lay(t *testing.T, to string) (c *cable, address string) {
	t.Helper()
	c = &cable{to: to}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		listener.Close()
		c.cut(true)
	})
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go c.lead(from)
		}
	}()
	return c, listener.Addr().String()
}

// hostOf returns host and port of a server, as a kubeconfig may name it.
func hostOf(server string) string {
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		return u.Host
	}
	return server
}

// lead copies both ways, until one side ends.
func (c *cable) lead(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer to.Close()
	c.mu.Lock()
	away := c.away
	c.open = append(c.open, from, to)
	c.mu.Unlock()
	if away {
		return
	}
	go func() {
		defer from.Close()
		_, _ = io.Copy(from, to)
	}()
	_, _ = io.Copy(to, from)
}

// cut closes all connections; no request gets through until it is mended.
func (c *cable) cut(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
	for _, one := range c.open {
		one.Close()
	}
	c.open = nil
}

// TestLoad: on a real API server that is cut off, all kinds of clients write, read, watch and hold a lease, go on, and follow to the end.
// What they recorded is right. Only the members of etcd are not asked here.
func TestLoad(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
	server := &envtest.Environment{ControlPlaneStopTimeout: 3 * time.Minute}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := server.Start()
	if err != nil {
		t.Fatal(err)
	}
	c, address := lay(t, hostOf(config.Host))
	config.Host = address
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	file := &buffer{}
	record := history.NewRecorder(file)
	load, err := Start(ctx, config, record)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "all have worked", func() bool { return len(worked(file.entries(t), 0)) == kinds })
	c.cut(true)
	until(t, "answers are missing", func() bool {
		return slices.ContainsFunc(file.entries(t), func(e history.Entry) bool { return e.Outcome == history.Unknown })
	})
	c.cut(false)
	mended := record.Now()
	until(t, "all but holders have worked again", func() bool { return len(worked(file.entries(t), mended)) >= kinds-1 })
	if err := load.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	v := judge.Judge(file.entries(t), time.Minute)
	for _, violation := range v.Violations {
		if violation.Text != "there is no hash of a member" {
			t.Errorf("%+v", violation)
		}
	}
	if v.Acknowledged < 100 || v.Events < 50 || v.Unknown == 0 || v.Lost > 0 {
		t.Errorf("%+v", v)
	}
}

// kinds is how many kinds of entries clients write.
const kinds = 7

// worked returns the kinds of entries that record a success after a moment.
func worked(all []history.Entry, after int64) map[history.Kind]bool {
	is := map[history.Kind]bool{}
	for _, e := range all {
		if (e.Outcome == history.OK || e.Kind == history.Event) && max(e.Begin, e.End) > after {
			is[e.Kind] = true
		}
	}
	return is
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	end := time.Now().Add(3 * time.Minute)
	for !is() {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 3 minutes", what)
		}
		<-time.After(300 * time.Millisecond)
	}
}
