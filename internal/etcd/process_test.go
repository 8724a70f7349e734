package etcd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/internal/etcd"
)

// binary finds etcd where envtest keeps it or in the PATH.
func binary(t *testing.T) string {
	t.Helper()
	if path := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcd"); os.Getenv("KUBEBUILDER_ASSETS") != "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("no etcd: neither in KUBEBUILDER_ASSETS nor in PATH")
	}
	return path
}

// authority signs members' and clients' certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// sign makes a pair for the name, as kubeadm does for a member: for both ends of a connection.
func (a *authority) sign(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, own.Public(), a.key)
	must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(own)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// client makes credentials as a controller would have them.
func (a *authority) client(t *testing.T) *tls.Config {
	t.Helper()
	cert, key := a.sign(t, "client")
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

// process is one etcd on loopback.
type process struct {
	t      *testing.T
	ca     *authority
	name   string
	args   []string
	peer   string // URL
	client string // host:port
	dir    string
	cmd    *exec.Cmd
	// dials and open count the connections that were made to it through target, and those that are open.
	dials, open atomic.Int32
}

func newProcess(t *testing.T, ca *authority, name string, args ...string) *process {
	t.Helper()
	return &process{t: t, ca: ca, name: name, args: args, peer: "http://" + freeAddress(t), client: freeAddress(t), dir: t.TempDir()}
}

// start runs the member; initial are all members as name=url.
func (p *process) start(state string, initial []string) {
	p.t.Helper()
	certFile, keyFile, caFile := filepath.Join(p.dir, "crt"), filepath.Join(p.dir, "key"), filepath.Join(p.dir, "ca")
	cert, key := p.ca.sign(p.t, p.name)
	must(p.t, os.WriteFile(certFile, cert, 0o600))
	must(p.t, os.WriteFile(keyFile, key, 0o600))
	must(p.t, os.WriteFile(caFile, p.ca.pem, 0o600))
	log, err := os.Create(filepath.Join(p.dir, "log"))
	must(p.t, err)
	defer log.Close()
	p.cmd = exec.Command(binary(p.t), append([]string{
		"--name", p.name, "--data-dir", filepath.Join(p.dir, "data"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-peer-urls", p.peer, "--initial-advertise-peer-urls", p.peer,
		"--listen-client-urls", "https://" + p.client, "--advertise-client-urls", "https://" + p.client,
		"--cert-file", certFile, "--key-file", keyFile, "--trusted-ca-file", caFile, "--client-cert-auth",
		"--initial-cluster", strings.Join(initial, ","), "--initial-cluster-state", state,
	}, p.args...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	must(p.t, p.cmd.Start())
	p.t.Cleanup(p.kill)
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) signal(s syscall.Signal) { must(p.t, p.cmd.Process.Signal(s)) }

// freeze stops the process, and returns when all its threads stand still.
func (p *process) freeze() {
	p.signal(syscall.SIGSTOP)
	eventually(p.t, "all threads stand still", func() (string, bool) {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		must(p.t, err)
		for _, stat := range stats {
			text, err := os.ReadFile(stat)
			must(p.t, err)
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return stat + ": " + state, false
			}
		}
		return "", len(stats) > 0
	})
}

// target is the member as its own client sees it.
func (p *process) target() etcd.Target {
	return etcd.Target{Name: p.name, Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.client)
		if err != nil {
			return nil, err
		}
		p.dials.Add(1)
		p.open.Add(1)
		return &counted{Conn: conn, open: &p.open}, nil
	}}
}

type counted struct {
	net.Conn
	open   *atomic.Int32
	closed atomic.Bool
}

func (c *counted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// connect gives the test's own way to the member, for what the package does not do.
func (p *process) connect() *grpc.ClientConn {
	p.t.Helper()
	own := p.ca.client(p.t)
	own.ServerName = p.name
	conn, err := grpc.NewClient("passthrough:///"+p.client, grpc.WithTransportCredentials(credentials.NewTLS(own)))
	must(p.t, err)
	p.t.Cleanup(func() { conn.Close() })
	return conn
}

func (p *process) status() *pb.StatusResponse {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := pb.NewMaintenanceClient(p.connect()).Status(ctx, &pb.StatusRequest{})
	must(p.t, err)
	return s
}

func (p *process) id() uint64 { return p.status().Header.MemberId }

// group is the members of one cluster.
type group []*process

// run starts a cluster of members with these names and waits until all follow a leader.
func run(t *testing.T, ca *authority, names []string, args ...string) group {
	t.Helper()
	binary(t)
	var g group
	for _, name := range names {
		g = append(g, newProcess(t, ca, name, args...))
	}
	for _, p := range g {
		p.start("new", g.initial())
	}
	g.settle(ca)
	return g
}

func (g group) initial() []string {
	var out []string
	for _, p := range g {
		out = append(out, p.name+"="+p.peer)
	}
	return out
}

func (g group) targets() []etcd.Target {
	var out []etcd.Target
	for _, p := range g {
		out = append(out, p.target())
	}
	return out
}

// settle waits until all members say the same and are named.
func (g group) settle(ca *authority) {
	t := g[0].t
	t.Helper()
	c := etcd.Open(ca.client(t))
	defer c.Close()
	eventually(t, "all members are healthy and agree", func() (string, bool) {
		s := c.Survey(context.Background(), g.targets())
		for _, m := range s.Members {
			if m.Name == "" {
				return "unnamed member", false
			}
		}
		return s.Why, s.Agreed && s.Why == ""
	})
}

func (g group) leader() *process {
	g[0].t.Helper()
	var leader *process
	eventually(g[0].t, "a leader", func() (string, bool) {
		for _, p := range g {
			if s := p.status(); s.Leader == s.Header.MemberId {
				leader = p
			}
		}
		return "none", leader != nil
	})
	return leader
}

// but is the group without one.
func (g group) but(gone *process) group {
	var out group
	for _, p := range g {
		if p != gone {
			out = append(out, p)
		}
	}
	return out
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually asks until the answer is yes, for 20 s.
func eventually(t *testing.T, what string, check func() (state string, ok bool)) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		state, ok := check()
		if ok {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("%s: not within 20 s: %s", what, state)
		case <-tick.C:
		}
	}
}

func show(s etcd.Survey) string {
	var b strings.Builder
	fmt.Fprintf(&b, "known=%t agreed=%t why=%q\n", s.Known, s.Agreed, s.Why)
	for _, m := range s.Members {
		fmt.Fprintf(&b, "  %s learner=%t leader=%t health=%q alarms=%v why=%q\n", m.Name, m.Learner, m.Leader, m.Health, m.Alarms, m.Why)
	}
	return b.String()
}
