package primitive

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/setting"
)

// listenAddress returns the address where Ethernet endpoints listen without WithListenAddress:
//
//  1. an address of an interface that GOCCL_SOCKET_IFNAME (or NCCL_SOCKET_IFNAME, with the same meaning: prefixes, "="
//     for exact names, "^" to exclude) allows, if either is set
//  2. the address from which this host reaches MASTER_ADDR, if that is set: peers can reach it, too
//  3. the first address of a real interface, then of a virtual one, then loopback
//
// It returns an address of the family in GOCCL_SOCKET_FAMILY (or NCCL_SOCKET_FAMILY) if set, else prefers IPv4 to IPv6.
// It skips link-local addresses.
func listenAddress() (netip.Addr, error) {
	env, err := setting.Read("GOCCL_SOCKET_FAMILY")
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if env.Interface == "" {
		if a, ok := routeTo(env.MasterAddr); ok && (env.Family == 0 || a.Is4() == (env.Family == 4)) {
			return a, nil
		}
	}
	a, err := netif.Addr(env.Interface, env.Family)
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return a, nil
}

// routeTo returns the local address from which this host reaches another. It sends no packet.
func routeTo(host string) (netip.Addr, bool) {
	if host == "" {
		return netip.Addr{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(host, "9"))
	if err != nil {
		return netip.Addr{}, false
	}
	defer func() { _ = c.Close() }()
	a := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return a, a.IsValid() && !a.IsUnspecified() && !a.IsLinkLocalUnicast()
}
