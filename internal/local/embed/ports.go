package embed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
)

// Ports are the TCP ports of a management plane, all on 127.0.0.1.
type Ports struct {
	Etcd      uint16 `json:"etcd"`
	EtcdPeer  uint16 `json:"etcdPeer"`
	APIServer uint16 `json:"apiServer"`
	Webhooks  uint16 `json:"webhooks"`
	Metrics   uint16 `json:"metrics"`
	Extension uint16 `json:"extension"`
}

// The range in which ports are chosen. It lies below the one from which Linux takes ports for outgoing connections: a
// port from there may be taken by a connection at any moment while the daemon is away.
const (
	firstPort = 20000
	lastPort  = 29999
)

// named lists the ports with what uses each.
func (p *Ports) named() []namedPort {
	return []namedPort{
		{"etcd", &p.Etcd}, {"etcd's peers", &p.EtcdPeer}, {"API server", &p.APIServer},
		{"webhooks", &p.Webhooks}, {"metrics", &p.Metrics}, {"Runtime Extension", &p.Extension},
	}
}

type namedPort struct {
	name string
	port *uint16
}

// choosePorts finds free ports.
func choosePorts() (Ports, error) { return Ports{}.complete() }

// complete finds free ports for those that are not chosen yet: an environment that an older version made knows fewer.
func (p Ports) complete() (Ports, error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	const tries = 1000
	taken := map[uint16]bool{}
	for _, n := range p.named() {
		taken[*n.port] = true
	}
	for _, n := range p.named() {
		for i := 0; *n.port == 0; i++ {
			if i == tries {
				return Ports{}, fmt.Errorf("no free port for %s found between %d and %d on 127.0.0.1 in %d tries", n.name, firstPort, lastPort, tries)
			}
			port := uint16(firstPort + rand.IntN(lastPort-firstPort+1))
			if taken[port] {
				continue
			}
			// Held until all are chosen, so that none is chosen twice.
			if l, err := listen(port); err == nil {
				held = append(held, l)
				*n.port = port
			}
		}
	}
	return p, nil
}

// check says which port somebody else has taken; that error wraps EADDRINUSE.
func (p Ports) check() error {
	for _, n := range p.named() {
		l, err := listen(*n.port)
		if err == nil {
			err = l.Close()
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %d on 127.0.0.1, which this environment uses for %s, is taken by another program: end that program (`ss -lptn "+
				"'sport = :%d'` names it): %w", *n.port, n.name, *n.port, err)
		}
		if err != nil {
			return fmt.Errorf("trying port %d for %s: %w", *n.port, n.name, err)
		}
	}
	return nil
}

func listen(port uint16) (net.Listener, error) {
	return net.Listen("tcp4", netip.AddrPortFrom(loopback, port).String())
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func loopbackURL(port uint16) string {
	return "https://" + netip.AddrPortFrom(loopback, port).String()
}
