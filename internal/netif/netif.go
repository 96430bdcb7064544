// Package netif chooses the network interface and address by which other hosts reach this one.
//
// # Lifetime and threads
//
// The package keeps no state: it reads the environment and the interfaces at each call. Functions may be called from
// any goroutine.
package netif

import (
	"cmp"
	"errors"
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
	Addrs    []netip.Addr // all of the family that was asked for; Addr is the first
}

// ErrNone means that no interface is up, or that none is allowed.
var ErrNone = errors.New("no network interface")

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

// place returns the position in the list of the first name that matches, or -1.
func (f filter) place(name string) int {
	return slices.IndexFunc(f.names, func(n string) bool { return n == name || !f.exact && strings.HasPrefix(name, n) })
}

func (f filter) match(name string) bool { return len(f.names) == 0 || f.place(name) >= 0 != f.avoid }

// wants reports whether the filter lists interfaces to use.
func (f filter) wants() bool { return len(f.names) > 0 && !f.avoid }

// virtual lists name prefixes of interfaces that lead to containers and guests of this host, not to other hosts.
var virtual = []string{"docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "lxc"}

// Classes of interfaces, the worst first.
const (
	classLoopback = 10 * iota
	classVirtual
	classReal
)

func (n NIC) class() int {
	switch {
	case n.Loopback:
		return classLoopback
	case slices.ContainsFunc(virtual, func(p string) bool { return strings.HasPrefix(n.Name, p) }):
		return classVirtual
	}
	return classReal
}

// pickNICs returns the interfaces that the filter lists, in its order. If the filter lists none, the result is the best
// class that has one, real before virtual before loopback, in the system's order. family is 4, 6, or 0 for either (4
// preferred).
func pickNICs(nics []NIC, f filter, family int) []NIC {
	var found []NIC
	best := -1
	for _, n := range nics {
		var addrs []netip.Addr
		for _, v4 := range []bool{true, false} {
			for _, a := range n.Addrs {
				if a.Is4() == v4 && (family == 0 || v4 == (family == 4)) {
					addrs = append(addrs, a)
				}
			}
		}
		class := n.class()
		if f.wants() {
			class = classReal
		}
		if !f.match(n.Name) || len(addrs) == 0 || class < best {
			continue
		}
		if class > best {
			found, best = nil, class
		}
		n.Addr, n.Addrs = addrs[0], addrs
		found = append(found, n)
	}
	slices.SortStableFunc(found, func(a, b NIC) int {
		if f.wants() {
			return cmp.Compare(f.place(a.Name), f.place(b.Name))
		}
		return cmp.Compare(a.Addr.BitLen(), b.Addr.BitLen()) // IPv4 first
	})
	return found
}

// Toward returns the address of one of nics from which this host's routes lead to an address; if they lead from another
// interface, the first address of the same family. It is invalid if there is none.
func Toward(nics []NIC, to netip.Addr) netip.Addr {
	to = to.Unmap()
	var from netip.Addr
	if c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9))); err == nil {
		from = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		_ = c.Close()
	}
	var first netip.Addr
	for _, n := range nics {
		for _, a := range n.Addrs {
			if a == from {
				return a
			}
			if !first.IsValid() && a.Is4() == to.Is4() {
				first = a
			}
		}
	}
	return first
}

// systemNICs lists the interfaces that are up. It omits link-local IPv6 addresses, which are invalid without the
// receiver's own zone.
func systemNICs() ([]NIC, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var nics []NIC
	for _, i := range ifs {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		n := NIC{Name: i.Name, Loopback: i.Flags&net.FlagLoopback != 0}
		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface has vanished
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
				n.Addrs = append(n.Addrs, p.Addr().Unmap())
			}
		}
		nics = append(nics, n)
	}
	return nics, nil
}

// Addr returns the address by which other hosts reach this one. spec, in the form of GOCCL_SOCKET_IFNAME, selects the
// interface; family is 4, 6, or 0 for either. Errors describe the requested interface.
func Addr(spec string, family int) (netip.Addr, error) {
	found, err := NICs(spec, family)
	if err != nil {
		return netip.Addr{}, err
	}
	return found[0].Addr, nil
}

// NICs returns the interfaces that spec lists, or every one of the best kind that it allows: real ones, else virtual
// ones, else the loopback. The first one has the address that Addr returns.
func NICs(spec string, family int) ([]NIC, error) {
	nics, err := systemNICs()
	if err != nil {
		return nil, err
	}
	return choose(nics, spec, family)
}

// Reaches reports whether an interface other than the loopback has an address of the family of to.
func Reaches(to netip.Addr) bool {
	nics, err := systemNICs()
	return err != nil || slices.ContainsFunc(nics, func(n NIC) bool {
		return !n.Loopback && slices.ContainsFunc(n.Addrs, func(a netip.Addr) bool { return a.Is4() == to.Unmap().Is4() })
	})
}

func choose(nics []NIC, spec string, family int) ([]NIC, error) {
	found := pickNICs(nics, parseFilter(spec), family)
	switch {
	case len(found) > 0:
		return found, nil
	case spec == "" && family == 0:
		return nil, fmt.Errorf("%w is up with an address: bring one up (ip link set NAME up); up are [%s]", ErrNone,
			list(nics))
	}
	return nil, fmt.Errorf("%w matches %q (GOCCL_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, family %d); up are %s", ErrNone, spec,
		family, list(nics))
}

// List formats the interfaces that are up, with their addresses, for errors.
func List() string {
	nics, err := systemNICs()
	if err != nil {
		return err.Error()
	}
	return list(nics)
}

func list(nics []NIC) string {
	var have []string
	for _, n := range nics {
		have = append(have, fmt.Sprintf("%s%v", n.Name, n.Addrs))
	}
	return strings.Join(have, ", ")
}
