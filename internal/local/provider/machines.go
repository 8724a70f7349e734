package provider

import (
	"context"
	"net/netip"

	"github.com/quorate/quorate/internal/local/sandbox"
)

// machines is what this package uses of a *sandbox.Host.
type machines interface {
	EnsureNetwork(ctx context.Context) error
	BridgeName() string
	Ensure(ctx context.Context, spec sandbox.Spec) error
	Get(name string) (sandbox.Status, error)
	List() ([]sandbox.Status, error)
	Bootstrap(ctx context.Context, name string, userData []byte) error
	SetPeers(ctx context.Context, name string, peers map[netip.Prefix]netip.Addr) error
	Delete(ctx context.Context, name string) error
	Changed() <-chan string
	Exec(ctx context.Context, name string, argv []string, stdio sandbox.Stdio) (int, error)
}
