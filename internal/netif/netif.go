// Package netif chooses the network interface and address by which other hosts reach this one.
//
// # Lifetime and threads
//
// The package keeps no state: it reads the environment and the interfaces at each call. Functions may be called from
// any goroutine.
package netif

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// NIC is an interface and the address by which other hosts reach it.
type NIC struct {
	Name     string
	Addr     netip.Addr
	Loopback bool
}

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

// Classes of interfaces, the worst first.
const (
	classLoopback = 10 * iota
	classVirtual
	classReal
)

func (n nic) class() int {
	switch {
	case n.loopback:
		return classLoopback
	case slices.ContainsFunc(virtual, func(p string) bool { return strings.HasPrefix(n.name, p) }):
		return classVirtual
	}
	return classReal
}

// pickNICs returns the interfaces that the filter allows, of the best class that has one: real before virtual before
// loopback, in the system's order. family is 4, 6, or 0 for either (4 preferred). The filter may name the loopback.
func pickNICs(nics []nic, f filter, family int) []NIC {
	var found []NIC
	best := -1
	for _, n := range nics {
		if !f.match(n.name) {
			continue
		}
		i := slices.IndexFunc(n.addrs, func(a netip.Addr) bool { return family != 6 && a.Is4() })
		if i < 0 {
			i = slices.IndexFunc(n.addrs, func(a netip.Addr) bool { return family != 4 && a.Is6() })
		}
		if i < 0 || n.class() < best {
			continue
		}
		if n.class() > best {
			found, best = nil, n.class()
		}
		found = append(found, NIC{Name: n.name, Addr: n.addrs[i], Loopback: n.loopback})
	}
	if family == 0 { // those with IPv4 first
		slices.SortStableFunc(found, func(a, b NIC) int {
			return cmp.Compare(a.Addr.BitLen(), b.Addr.BitLen())
		})
	}
	return found
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
	found, err := choose(nics, spec, family)
	if err != nil {
		return netip.Addr{}, err
	}
	return found[0].Addr, nil
}

// NICs returns every interface of the best kind that spec and family allow: real ones, else virtual ones, else the
// loopback. The first one is that of Addr.
func NICs(spec string, family int) ([]NIC, error) {
	nics, err := systemNICs()
	if err != nil {
		return nil, err
	}
	return choose(nics, spec, family)
}

func choose(nics []nic, spec string, family int) ([]NIC, error) {
	found := pickNICs(nics, parseFilter(spec), family)
	if len(found) == 0 {
		return nil, fmt.Errorf("no interface matches %q (GOCCL_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, family %d); up are %s",
			spec, family, list(nics))
	}
	return found, nil
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
