package provider

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/local/balancer"
)

// addressBook remembers which addresses the host was given.
type addressBook struct {
	mu  sync.Mutex
	all []netip.Addr
}

func (b *addressBook) add(_ context.Context, a netip.Addr) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.all, a) {
		b.all = append(b.all, a)
	}
	return nil
}

func (b *addressBook) remove(a netip.Addr) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(x netip.Addr) bool { return x == a })
	return nil
}

// newEndpoints has endpoints as real processes, in a state folder of the test.
func newEndpoints(t *testing.T, state string) (e *endpoints, ended chan client.ObjectKey) {
	t.Helper()
	ended = make(chan client.ObjectKey, 10)
	e = &endpoints{
		state: state, nodeBinary: os.Args[0], addresses: &addressBook{}, watched: map[client.ObjectKey]bool{},
		ended: func(key client.ObjectKey) { ended <- key },
	}
	t.Cleanup(func() {
		if err := Teardown(context.Background(), state); err != nil {
			t.Error(err)
		}
	})
	return e, ended
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (e *endpoints) must(t *testing.T, key client.ObjectKey, c balancer.Config) (pid int) {
	t.Helper()
	if err := e.serve(context.Background(), key, c); err != nil {
		t.Fatal(err)
	}
	pid, ok := balancer.Running(EndpointConfig(e.state, key))
	if !ok {
		t.Fatal("no process serves the endpoint")
	}
	return pid
}

func TestEndpointProcesses(t *testing.T) {
	ctx, state, alpha := context.Background(), t.TempDir(), keyOf("alpha")
	e, ended := newEndpoints(t, state)
	config := balancer.Config{Listen: freePort(t)}
	first := e.must(t, alpha, config)
	if again := e.must(t, alpha, config); again != first {
		t.Errorf("process %d replaced %d for nothing", again, first)
	}
	config.Backends = []balancer.Backend{{Name: "one", Address: freePort(t)}}
	if again := e.must(t, alpha, config); again != first {
		t.Errorf("process %d replaced %d for a new backend", again, first)
	}
	file := EndpointConfig(state, alpha)
	eventually(t, "the process knows the backend", func() bool {
		s, _ := balancer.ReadStatus(file)
		_, ok := s.Backend("one")
		return ok
	})

	// A new life of this process finds it.
	e, ended2 := newEndpoints(t, state)
	if again := e.must(t, alpha, config); again != first {
		t.Errorf("process %d replaced %d, which was there", again, first)
	}
	e.must(t, alpha, config)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if key := <-ended2; key != alpha {
		t.Errorf("the end of %s is told, want alpha", key)
	}
	<-ended // the old life would have heard of it too
	second := e.must(t, alpha, config)
	if second == first {
		t.Error("it was not started again")
	}

	// Another address needs another process, and the old one is given up.
	config.Listen = strings.Replace(freePort(t), "127.0.0.1", "127.0.0.2", 1)
	if third := e.must(t, alpha, config); third == second {
		t.Error("the process cannot listen elsewhere, and was not replaced")
	}
	book := e.addresses.(*addressBook)
	if want := []netip.Addr{netip.MustParseAddr("127.0.0.2")}; !slices.Equal(book.all, want) {
		t.Errorf("the host has %v, want %v", book.all, want)
	}
	// A process that was killed while it wrote its status has left that.
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "."+filepath.Base(balancer.StatusFile(file))+".499748093"), nil,
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.stop(ctx, alpha); err != nil {
		t.Fatal(err)
	}
	if _, ok := balancer.Running(file); ok || len(book.all) != 0 {
		t.Errorf("after the stop: running is %v, addresses are %v", ok, book.all)
	}
	if left, err := os.ReadDir(endpointsFolder(state)); err != nil || len(left) != 0 {
		t.Errorf("files %v are left, %v", left, err)
	}
	if err := e.stop(ctx, alpha); err != nil {
		t.Errorf("stopping what is stopped: %v", err)
	}
	if len(ended2) > 2 {
		t.Errorf("one end is told %d times", len(ended2))
	}
}

func TestAnAddressThatTwoEndpointsShare(t *testing.T) {
	e, _ := newEndpoints(t, t.TempDir())
	e.must(t, keyOf("alpha"), balancer.Config{Listen: freePort(t)})
	e.must(t, keyOf("bravo"), balancer.Config{Listen: freePort(t)})
	book := e.addresses.(*addressBook)
	for i, name := range []string{"alpha", "bravo"} {
		if err := e.stop(context.Background(), keyOf(name)); err != nil {
			t.Fatal(err)
		}
		if len(book.all) != 1-i {
			t.Errorf("after %s stopped the host has %v", name, book.all)
		}
	}
}

func TestDrainedEndpoint(t *testing.T) {
	ctx := context.Background()
	e, _ := newEndpoints(t, t.TempDir())
	alpha := keyOf("alpha")
	if !e.drained(alpha, "one") {
		t.Error("without a process there is nothing to wait for")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	config := balancer.Config{Listen: freePort(t), Backends: []balancer.Backend{{Name: "one", Address: listener.Addr().String()}}}
	e.must(t, alpha, config)
	if e.drained(alpha, "one") {
		t.Error("one is not draining yet")
	}
	config.Backends[0].Draining = true
	e.must(t, alpha, config)
	eventually(t, "one has drained", func() bool { return e.drained(alpha, "one") })
	if err := e.stop(ctx, alpha); err != nil {
		t.Fatal(err)
	}
}

func TestAnEndpointSaysWhyItIsNotServed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	e, _ := newEndpoints(t, t.TempDir())
	for range 2 {
		err = e.serve(context.Background(), keyOf("alpha"), balancer.Config{Listen: taken.Addr().String()})
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("error %v, want that the address is in use", err)
		}
	}
}

func TestTeardown(t *testing.T) {
	ctx, state := context.Background(), t.TempDir()
	e, _ := newEndpoints(t, state)
	alpha, bravo := keyOf("alpha"), keyOf("team/bravo.example")
	pids := []int{e.must(t, alpha, balancer.Config{Listen: freePort(t)}), e.must(t, bravo, balancer.Config{Listen: freePort(t)})}
	// Of one of them half of the files are lost.
	if err := os.Remove(EndpointConfig(state, bravo)); err != nil {
		t.Fatal(err)
	}
	if err := Teardown(ctx, state); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		eventually(t, "the process is gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
	if _, err := os.Stat(endpointsFolder(state)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	if err := Teardown(ctx, state); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

// Names may have dots, and file names have them for other reasons.
func TestEndpointFilesAreApart(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"alpha", "alpha.status", "alpha.json", "team/alpha", "team/a.b", "team-a/b"} {
		config := EndpointConfig("/state", keyOf(name))
		for _, file := range []string{config, balancer.StatusFile(config), balancer.PIDFile(config), balancer.LogFile(config)} {
			if other, ok := seen[file]; ok {
				t.Errorf("%s is a file of %s and of %s", file, other, name)
			}
			if filepath.Dir(file) != "/state/endpoints" {
				t.Errorf("%s lies elsewhere", file)
			}
			seen[file] = name
		}
	}
}

// bridgeHost is a host with a bridge, and nothing else.
type bridgeHost struct{ *host }

func (bridgeHost) EnsureNetwork(context.Context) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = "qrt-test"
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	return nil
}

func TestAddressesOfTheHost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it needs root for a network namespace of its own")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and the namespace with it
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	h := hostAddresses{bridgeHost{newHost()}}
	endpoint, foreign := netip.MustParseAddr("172.30.0.10"), netip.MustParseAddr("10.1.2.3")
	if err := h.remove(endpoint); err != nil {
		t.Errorf("removing an address when there is no bridge: %v", err)
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(loopback, own(foreign)); err != nil {
		t.Fatal(err)
	}
	on := func() string {
		t.Helper()
		all, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, a := range all {
			link, err := netlink.LinkByIndex(a.LinkIndex)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, link.Attrs().Name+" "+a.IPNet.String())
		}
		return strings.Join(text, ", ")
	}
	for range 2 {
		for _, a := range []netip.Addr{endpoint, foreign} {
			if err := h.add(context.Background(), a); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := on(), "lo 10.1.2.3/32, qrt-test 172.30.0.10/32"; got != want {
			t.Errorf("the host has %s, want %s: what it had elsewhere stays there", got, want)
		}
	}
	for range 2 {
		for _, a := range []netip.Addr{endpoint, foreign} {
			if err := h.remove(a); err != nil {
				t.Errorf("removing %s: %v", a, err)
			}
		}
		if got, want := on(), "lo 10.1.2.3/32"; got != want {
			t.Errorf("the host has %s, want %s", got, want)
		}
	}
}
