package primitive

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// listenAddress is where Ethernet endpoints listen when WithListenAddress does not say:
//
//  1. an address of an interface that GOCCL_SOCKET_IFNAME (or NCCL_SOCKET_IFNAME, with the same meaning: prefixes, "=" for exact names, "^" to
//     exclude) allows, if either is set
//  2. the address from which this host reaches MASTER_ADDR, if that is set: peers reach us on that way too
//  3. the first address of a real interface, then of a virtual one, then loopback
//
// IPv4 comes before IPv6; link-local addresses are passed over.
func listenAddress() (netip.Addr, error) {
	spec := os.Getenv("GOCCL_SOCKET_IFNAME")
	if spec == "" {
		spec = os.Getenv("NCCL_SOCKET_IFNAME")
	}
	if spec == "" {
		if a, ok := routeTo(os.Getenv("MASTER_ADDR")); ok {
			return a, nil
		}
	}
	all, err := net.Interfaces()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list network interfaces: %w", err)
	}
	best, found := 0, netip.Addr{}
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || !interfaceAllowed(spec, i.Name) {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLinkLocalUnicast() {
				continue
			}
			if score := interfaceScore(i.Name, p.Addr()); score > best {
				best, found = score, p.Addr()
			}
		}
	}
	if best == 0 {
		return netip.Addr{}, fmt.Errorf("%w: no network interface that is up matches %q (GOCCL_SOCKET_IFNAME)", ErrInvalid, spec)
	}
	return found, nil
}

func interfaceScore(name string, a netip.Addr) int {
	virtual := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	score := 5
	switch {
	case a.IsLoopback():
		score = 1
	case slices.ContainsFunc([]string{"docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "lxc"}, virtual):
		score = 3
	}
	if a.Is4() {
		score++
	}
	return score
}

// interfaceAllowed reports whether a specification in NCCL's form allows the interface.
func interfaceAllowed(spec, name string) bool {
	avoid, exact := false, false
	for strings.HasPrefix(spec, "^") || strings.HasPrefix(spec, "=") {
		avoid, exact = avoid || spec[0] == '^', exact || spec[0] == '='
		spec = spec[1:]
	}
	if spec == "" {
		return true
	}
	hit := slices.ContainsFunc(strings.Split(spec, ","), func(n string) bool {
		n = strings.TrimSpace(n)
		return n == name || n != "" && !exact && strings.HasPrefix(name, n)
	})
	return hit != avoid
}

// routeTo is the address from which this host reaches another. Nothing is sent.
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
