package balancer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// look is how often the configuration file is looked at: one stat, which costs nothing and, unlike inotify, needs
	// nothing of which a host with many kubelets runs out.
	look = 200 * time.Millisecond
	// lookClosing is how often connections are looked at that are to be closed between two requests. It is no
	// multiple of the times at which programs repeat what they do.
	lookClosing = 17 * time.Millisecond
	// orphaned is how long the configuration file may be missing before the process ends: it cannot be wanted any more.
	orphaned = 5 * time.Second
	// connectTimeout is how long a backend may take to accept a connection. It is the kernel that accepts, on the same host.
	connectTimeout = 500 * time.Millisecond
	// countEvery is how often changed numbers of connections are written to the status file.
	countEvery = time.Second
)

// Run serves the endpoint that the configuration file describes until ctx ends. It is the body of
// `quorate-node endpoint`. An error is also in the status file.
func Run(ctx context.Context, configFile string) error {
	unlock, err := lock(configFile)
	if err != nil {
		return err
	}
	defer unlock()
	s := &server{file: configFile, pool: newPool()}
	if err := s.run(ctx); err != nil {
		s.problem = err.Error()
		return errors.Join(err, s.tell(true))
	}
	return nil
}

// server is a running endpoint.
type server struct {
	file string
	pool *pool
	work sync.WaitGroup

	listen  string
	problem string
	seen    fileID
	missing time.Time
	told    Status
	toldAt  time.Time
}

func (s *server) run(ctx context.Context) error {
	s.seen, _ = identify(s.file)
	config, err := Load(s.file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := listen(ctx, config.Listen)
	if err != nil {
		return fmt.Errorf("taking connections on %s: %w", config.Listen, err)
	}
	s.listen = config.Listen
	s.configure(ctx, config)
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		s.accept(ctx, listener)
	}()
	s.attend(ctx)
	slog.Info("endpoint ends", "listen", s.listen)
	cancel()
	err = listener.Close()
	s.pool.end()
	s.work.Wait()
	s.listen = ""
	return errors.Join(err, s.tell(true))
}

// soon tells when to look at the connections before the next tick; nil: there is no need.
func (p *pool) soon() <-chan time.Time {
	switch {
	case p.isClosing():
		return time.After(lookClosing)
	case p.isOwed(time.Now()):
		return time.After(lookSilent)
	}
	return nil
}

// attend keeps configuration, connections and status in step until ctx ends or the configuration is gone for good.
func (s *server) attend(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		s.closeDoomed()
		soon := s.pool.soon()
		select {
		case <-ctx.Done():
			return
		case <-s.pool.changed:
		case <-soon:
		case now := <-tick.C:
			if s.reload(ctx, now) {
				slog.Info("the configuration file is gone", "file", s.file)
				return
			}
		}
	}
}

// closeDoomed closes the connections that have to go, and writes the status.
func (s *server) closeDoomed() {
	for _, l := range s.pool.sweep(time.Now()) {
		l.close()
	}
	if err := s.tell(false); err != nil {
		slog.Error("the status cannot be written", "error", err)
	}
}

// reload reads the configuration if it changed. One that cannot be used changes nothing but the status. It
// reports whether the file has been missing for so long that the endpoint is not wanted any more.
func (s *server) reload(ctx context.Context, now time.Time) (gone bool) {
	id, err := identify(s.file)
	if err != nil {
		if s.missing.IsZero() {
			s.missing = now
		}
		return errors.Is(err, os.ErrNotExist) && now.Sub(s.missing) >= orphaned
	}
	s.missing = time.Time{}
	if id == s.seen {
		return false
	}
	s.seen = id
	config, err := Load(s.file)
	if err == nil && config.Listen != s.listen {
		err = fmt.Errorf("endpoint configuration %s: listen is %q, and cannot change from %q while the process runs", s.file, config.Listen,
			s.listen)
	}
	if err != nil {
		slog.Error("the new configuration is not used", "error", err)
		s.problem = err.Error()
		return false
	}
	s.problem = ""
	s.configure(ctx, config)
	return false
}

func (s *server) configure(ctx context.Context, c Config) {
	slog.Info("endpoint configured", "listen", c.Listen, "backends", c.Backends)
	s.pool.configure(c.Backends, func(m *member) func() {
		ctx, stop := context.WithCancel(ctx)
		s.work.Go(func() { s.pool.watch(ctx, m) })
		s.work.Go(func() { s.pool.listenTo(ctx, m) })
		return stop
	})
}

// accept takes connections until the listener is closed.
func (s *server) accept(ctx context.Context, listener *net.TCPListener) {
	for {
		conn, err := listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// Out of file descriptors or memory: closing some will help, hurrying will not.
			slog.Error("a connection cannot be taken", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(look):
			}
		default:
			s.work.Add(1)
			go func() {
				defer s.work.Done()
				s.serve(ctx, conn)
			}()
		}
	}
}

// serve carries one client's connection to the first backend that takes it. When none does, the client sees its
// connection reset.
func (s *server) serve(ctx context.Context, client *net.TCPConn) {
	dialer := net.Dialer{Timeout: connectTimeout}
	for _, m := range s.pool.candidates() {
		conn, err := dialer.DialContext(ctx, "tcp", m.Address)
		if err != nil {
			if ctx.Err() == nil {
				s.pool.suspect(m, fmt.Errorf("connecting: %w", err))
			}
			continue
		}
		l := &link{client: client, backend: conn.(*net.TCPConn)}
		if ctx.Err() != nil || !s.pool.add(m, l) {
			_ = conn.Close()
			continue
		}
		l.run()
		s.pool.remove(m, l)
		return
	}
	_ = client.SetLinger(0)
	_ = client.Close()
}

// tell writes the status file when there is something new to tell. Numbers of connections alone are told once a
// second, or at once while somebody may be waiting for them to go down.
func (s *server) tell(always bool) error {
	backends, closing := s.pool.status()
	status := Status{PID: os.Getpid(), Listen: s.listen, Error: s.problem, Backends: backends}
	if !always && reflect.DeepEqual(status, s.told) {
		return nil
	}
	quiet := reflect.DeepEqual(withoutCounts(status), withoutCounts(s.told))
	if !always && quiet && !closing && time.Since(s.toldAt) < countEvery {
		return nil
	}
	s.told, s.toldAt = status, time.Now()
	return writeJSON(StatusFile(s.file), status)
}

func withoutCounts(s Status) Status {
	backends := make([]BackendStatus, len(s.Backends))
	copy(backends, s.Backends)
	for i := range backends {
		backends[i].Connections = 0
	}
	s.Backends = backends
	return s
}

// listen does not need the address to be there already: it may be added to the host later, or again
// after the host was booted.
func listen(ctx context.Context, address string) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			if strings.HasPrefix(address, "[") {
				failed = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
				return
			}
			failed = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1)
		})
		return errors.Join(err, failed)
	}}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// fileID changes whenever a file is replaced or written.
type fileID struct {
	inode    uint64
	size     int64
	modified time.Time
}

func identify(path string) (fileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	id := fileID{size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		id.inode = sys.Ino
	}
	return id, nil
}
