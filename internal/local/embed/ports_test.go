package embed

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestChoosePorts(t *testing.T) {
	p, err := choosePorts()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint16]string{}
	for _, n := range p.named() {
		if *n.port < firstPort || *n.port > lastPort {
			t.Errorf("port %d for %s, want one from %d to %d", *n.port, n.name, firstPort, lastPort)
		}
		if other := seen[*n.port]; other != "" {
			t.Errorf("port %d for %s and %s", *n.port, n.name, other)
		}
		seen[*n.port] = n.name
	}
	if err := p.check(); err != nil {
		t.Errorf("just chosen: %v", err)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	p, err := choosePorts()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range p.named() {
		l, err := listen(*n.port)
		if err != nil {
			t.Fatal(err)
		}
		err = p.check()
		if closeErr := l.Close(); closeErr != nil {
			t.Fatal(closeErr)
		}
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), fmt.Sprintf("port %d ", *n.port)) ||
			!strings.Contains(err.Error(), n.name) {
			t.Errorf("with the port for %s taken: %v, want an error that names port and use", n.name, err)
		}
	}
}
