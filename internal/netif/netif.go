// Package netif chooses the network interface and address by which other hosts reach this one.
//
// # Lifetime and threads
//
// The package keeps no state: it reads the environment and the interfaces at each call. Functions may be called from
// any goroutine.
package netif

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// nic is one interface with its usable addresses.
type nic struct {
	name     string
	loopback bool
	addrs    []netip.Addr
}

// filter is the parsed form of GOCCL_SOCKET_IFNAME.
type filter struct {
	names        []string
	exact, avoid bool
}

func parseFilter(spec string) (f filter) {
	for len(spec) > 0 && (spec[0] == '^' || spec[0] == '=') {
		f.avoid = f.avoid || spec[0] == '^'
		f.exact = f.exact || spec[0] == '='
		spec = spec[1:]
	}
	for _, n := range strings.Split(spec, ",") {
		if n = strings.TrimSpace(n); n != "" {
			f.names = append(f.names, n)
		}
	}
	return f
}

func (f filter) match(name string) bool {
	if len(f.names) == 0 {
		return true
	}
	hit := slices.ContainsFunc(f.names, func(n string) bool {
		return n == name || !f.exact && strings.HasPrefix(name, n)
	})
	return hit != f.avoid
}

// virtual lists name prefixes of interfaces that lead to containers and guests of this host, not to other hosts.
var virtual = []string{"docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "lxc"}

// pickAddr chooses an address: interfaces that the filter allows, in the system's order, real ones before virtual ones
// before loopback. family is 4, 6, or 0 for either (4 preferred). The filter may name the loopback.
func pickAddr(nics []nic, f filter, family int) (netip.Addr, bool) {
	best, found := -1, netip.Addr{}
	for _, n := range nics {
		if !f.match(n.name) {
			continue
		}
		for _, a := range n.addrs {
			if family == 4 && !a.Is4() || family == 6 && !a.Is6() {
				continue
			}
			score := 1
			if a.Is4() {
				score = 2
			}
			switch {
			case n.loopback:
			case slices.ContainsFunc(virtual, func(p string) bool { return strings.HasPrefix(n.name, p) }):
				score += 10
			default:
				score += 20
			}
			if score > best {
				best, found = score, a
			}
		}
	}
	return found, best >= 0
}

// systemNICs lists the interfaces that are up. It omits link-local IPv6 addresses, which are invalid without the
// receiver's own zone.
func systemNICs() ([]nic, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var nics []nic
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		n := nic{name: i.Name, loopback: i.Flags&net.FlagLoopback != 0}
		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface has vanished
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
				n.addrs = append(n.addrs, p.Addr().Unmap())
			}
		}
		nics = append(nics, n)
	}
	return nics, nil
}

// Addr returns the address by which other hosts reach this one. spec, in the form of GOCCL_SOCKET_IFNAME, selects the
// interface; family is 4, 6, or 0 for either. Errors describe the requested interface.
func Addr(spec string, family int) (netip.Addr, error) {
	nics, err := systemNICs()
	if err != nil {
		return netip.Addr{}, err
	}
	a, ok := pickAddr(nics, parseFilter(spec), family)
	if !ok {
		return a, fmt.Errorf("no interface matches %q (GOCCL_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, family %d); up are %s", spec,
			family, list(nics))
	}
	return a, nil
}

// List formats the interfaces that are up, with their addresses, for errors.
func List() string {
	nics, err := systemNICs()
	if err != nil {
		return err.Error()
	}
	return list(nics)
}

func list(nics []nic) string {
	var have []string
	for _, n := range nics {
		have = append(have, fmt.Sprintf("%s%v", n.name, n.addrs))
	}
	return strings.Join(have, ", ")
}
