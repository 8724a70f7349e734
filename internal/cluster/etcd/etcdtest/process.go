package etcdtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// Find returns etcd's path where envtest keeps it or from the PATH; empty: there is none.
func Find() string {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		path := filepath.Join(dir, "etcd")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("etcd")
	if err != nil {
		return ""
	}
	return path
}

// Binary is etcd's path. Without one the test is skipped, unless KUBEBUILDER_ASSETS promised it.
func Binary(tb testing.TB) string {
	tb.Helper()
	path := Find()
	switch {
	case path != "":
	case os.Getenv("KUBEBUILDER_ASSETS") != "":
		tb.Fatalf("no etcd in KUBEBUILDER_ASSETS (%s), nor in PATH", os.Getenv("KUBEBUILDER_ASSETS"))
	default:
		tb.Skip("no etcd: neither in KUBEBUILDER_ASSETS nor in PATH")
	}
	return path
}

// Older is the path of an etcd 3.5, the minor version before Middle's. Without one the test is skipped.
func Older(tb testing.TB) string {
	tb.Helper()
	return release(tb, "3.5")
}

// Middle is the path of an etcd 3.6. Without one the test is skipped.
func Middle(tb testing.TB) string {
	tb.Helper()
	return release(tb, "3.6")
}

// Newer is the path of an etcd 3.7, the minor version after Middle's. Without one the test is skipped.
func Newer(tb testing.TB) string {
	tb.Helper()
	return release(tb, "3.7")
}

// release is the path of an etcd of a minor version, which the artifacts hold beside envtest's.
func release(tb testing.TB, minor string) string {
	tb.Helper()
	Binary(tb)
	var found []string
	for _, folder := range []string{"etcd-v" + minor + ".*", "etcd-" + minor + "-*"} {
		paths, err := filepath.Glob(filepath.Join(filepath.Dir(os.Getenv("KUBEBUILDER_ASSETS")), folder, "etcd"))
		Must(tb, err)
		found = append(found, paths...)
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" || len(found) == 0 {
		tb.Skip("no etcd " + minor + " beside KUBEBUILDER_ASSETS")
	}
	return found[len(found)-1]
}

// Process is one etcd on loopback.
type Process struct {
	// Name is the member's.
	Name string
	// Peer is the URL at which other members are to reach it.
	Peer string
	// Path is its etcd, where that is not Binary.
	Path string

	tb     testing.TB
	ca     *Authority
	args   []string
	listen string // URL at which it takes other members
	client string // host:port
	dir    string
	cmd    *exec.Cmd
	ended  chan struct{}
	// dials and open count the connections that were made to it through Target, and those that are open.
	dials, open atomic.Int32
}

// NewProcess prepares a member, which is not started yet.
func NewProcess(tb testing.TB, ca *Authority, name string, args ...string) *Process {
	tb.Helper()
	peer := "http://" + freeAddress(tb)
	return &Process{Name: name, Peer: peer, tb: tb, ca: ca, args: args, listen: peer, client: freeAddress(tb), dir: tb.TempDir()}
}

// Start runs the member; initial are all members as name=url. With data of its own
// it goes on with that, whatever initial says.
func (p *Process) Start(state string, initial []string) {
	p.tb.Helper()
	certFile, keyFile, caFile := filepath.Join(p.dir, "crt"), filepath.Join(p.dir, "key"), filepath.Join(p.dir, "ca")
	cert, key := p.ca.sign(p.Name, time.Now().Add(-time.Hour))
	Must(p.tb, os.WriteFile(certFile, cert, 0o600))
	Must(p.tb, os.WriteFile(keyFile, key, 0o600))
	Must(p.tb, os.WriteFile(caFile, p.ca.pem, 0o600))
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Must(p.tb, err)
	path := p.Path
	if path == "" {
		path = Binary(p.tb)
	}
	p.cmd = exec.Command(path, append([]string{
		"--name", p.Name, "--data-dir", filepath.Join(p.dir, "data"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-peer-urls", p.listen, "--initial-advertise-peer-urls", p.Peer,
		"--listen-client-urls", "https://" + p.client, "--advertise-client-urls", "https://" + p.client,
		"--cert-file", certFile, "--key-file", keyFile, "--trusted-ca-file", caFile, "--client-cert-auth",
		"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-state", state,
	}, p.args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	Must(p.tb, p.cmd.Start())
	Must(p.tb, log.Close())
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}()
	p.tb.Cleanup(p.Kill)
}

// Kill ends the process at once, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.ended
}

// Ended reports whether the process is gone, by itself or not.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Log is what the process has written.
func (p *Process) Log() string {
	text, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Freeze stops the process, and returns when all its threads stand still.
func (p *Process) Freeze() {
	p.tb.Helper()
	Must(p.tb, p.cmd.Process.Signal(syscall.SIGSTOP))
	Eventually(p.tb, "all threads stand still", func() (string, bool) {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		Must(p.tb, err)
		for _, stat := range stats {
			text, err := os.ReadFile(stat)
			Must(p.tb, err)
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return stat + ": " + state, false
			}
		}
		return "", len(stats) > 0
	})
}

// Thaw lets a frozen process go on.
func (p *Process) Thaw() {
	p.tb.Helper()
	Must(p.tb, p.cmd.Process.Signal(syscall.SIGCONT))
}

// Target is the member as its own client sees it.
func (p *Process) Target() etcd.Target {
	return etcd.Target{Name: p.Name, Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.client)
		if err != nil {
			return nil, err
		}
		p.dials.Add(1)
		p.open.Add(1)
		return &counted{Conn: conn, open: &p.open}, nil
	}}
}

// URL is where the member's clients reach it.
func (p *Process) URL() string { return "https://" + p.client }

// Dials is how many connections were ever made through Target.
func (p *Process) Dials() int { return int(p.dials.Load()) }

// Open is how many of them are open.
func (p *Process) Open() int { return int(p.open.Load()) }

type counted struct {
	net.Conn
	open   *atomic.Int32
	closed atomic.Bool
}

// Close implements net.Conn, and counts once.
func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// Connect gives the test's own way to the member, for what package etcd does not do.
func (p *Process) Connect() *grpc.ClientConn {
	p.tb.Helper()
	own := p.ca.Client()
	own.ServerName = p.Name
	conn, err := grpc.NewClient("passthrough:///"+p.client, grpc.WithTransportCredentials(credentials.NewTLS(own)))
	Must(p.tb, err)
	p.tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Status is what the member says of itself.
func (p *Process) Status() *pb.StatusResponse {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := pb.NewMaintenanceClient(p.Connect()).Status(ctx, &pb.StatusRequest{})
	Must(p.tb, err)
	return s
}

// ID is the member's.
func (p *Process) ID() uint64 { return p.Status().Header.MemberId }

// activePeer is how etcd's metrics name a member that this one is connected to.
var activePeer = regexp.MustCompile(`(?m)^etcd_network_active_peers\{Local="[^"]*",Remote="([0-9a-f]+)"\} 1$`)

// Connected are the IDs of the members that this one is connected to, as it says in its metrics.
func (p *Process) Connected() (map[uint64]bool, error) {
	own := p.ca.Client()
	own.ServerName = p.Name
	c := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: own, DisableKeepAlives: true}}
	response, err := c.Get("https://" + p.client + "/metrics")
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", p.Name, err)
	}
	text, err := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", p.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", p.Name, err)
	}
	out := map[uint64]bool{}
	for _, found := range activePeer.FindAllSubmatch(text, -1) {
		id, err := strconv.ParseUint(string(found[1]), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", p.Name, err)
		}
		out[id] = true
	}
	return out, nil
}

// lastPort is the port that was handed out last. They lie below those that the kernel gives to
// connections, so that no other process comes by one while its member is down.
var lastPort atomic.Int32

const firstPort, ports = 10000, 20000

func freeAddress(tb testing.TB) string {
	tb.Helper()
	lastPort.CompareAndSwap(0, int32(os.Getpid()*101%ports)) // tests of two packages run at the same time
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+lastPort.Add(1)%ports)
		if l, err := net.Listen("tcp", address); err == nil {
			Must(tb, l.Close())
			return address
		}
	}
	tb.Fatal("no port is free")
	return ""
}

// Data is the file with the member's keys and values. It may be changed while the member is not running.
func (p *Process) Data() string { return filepath.Join(p.dir, "data", "member", "snap", "db") }
