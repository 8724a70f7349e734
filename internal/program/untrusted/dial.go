package untrusted

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// An AddressError says that an address is not dialed: at a loopback, link-local, multicast or unspecified address nothing but the manager's own
// host and network answers, such as a cloud's metadata service.
type AddressError struct{ Address netip.Addr }

// Error implements error.
func (e AddressError) Error() string {
	return fmt.Sprintf("the address %s is not dialed: it must not be loopback, link-local, multicast or unspecified", e.Address)
}

// Dialer returns a dialer for addresses that tenants name. It refuses those of an AddressError, also where a name resolves to one.
func Dialer() *net.Dialer { return &net.Dialer{Control: refuseOwn} }

// refuseOwn is called with each address that a name resolves to, before a connection is made.
func refuseOwn(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialing %q: %w", address, err)
	}
	at := to.Addr().Unmap()
	if at.IsLoopback() || at.IsLinkLocalUnicast() || at.IsMulticast() || at.IsUnspecified() {
		return AddressError{at}
	}
	return nil
}
