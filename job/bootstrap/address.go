package bootstrap

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/internal/sockets"
)

// unixPrefix starts the address of a rendezvous on one host: "unix:@name", an abstract unix socket.
const unixPrefix = "unix:"

// rootAddress is the address where ranks meet: a socket name, or a host (name or IP) and port, optionally with the
// local interface to use.
type rootAddress struct {
	unix  string // "@name"
	host  string
	port  uint16
	iface string
}

// parseAddress parses "ip:port", "host:port", "[ip6]:port", "interface:ip:port", "interface:[ip6]:port" and
// "unix:@name".
func parseAddress(s string) (a rootAddress, err error) {
	bad := func(why string) (rootAddress, error) {
		return rootAddress{}, fmt.Errorf("%w: address %q: %s; want ip:port, host:port, interface:ip:port or unix:@name",
			ErrInvalid, s, why)
	}
	if name, ok := strings.CutPrefix(s, unixPrefix); ok {
		if len(name) < 2 || name[0] != '@' || len(name) > 100 {
			return bad("a unix address starts with @ and has at most 100 bytes")
		}
		return rootAddress{unix: name}, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		i := strings.IndexByte(s, ':')
		if i <= 0 {
			return bad("no port")
		}
		if host, port, err = net.SplitHostPort(s[i+1:]); err != nil {
			return bad(err.Error())
		}
		a.iface = s[:i]
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil || p == 0 {
		return bad("the port must be 1 to 65535")
	}
	if host == "" {
		return bad("no host")
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return bad("a wildcard is not an address that ranks can be told; name the interface's address")
	}
	a.host, a.port = host, uint16(p)
	return a, nil
}

func (a rootAddress) String() string {
	if a.unix != "" {
		return unixPrefix + a.unix
	}
	return net.JoinHostPort(a.host, strconv.Itoa(int(a.port)))
}

// secretFor returns the secret of the address form. Without GOCCL_SECRET it is weak: it can be derived from the
// address and the user's id.
func secretFor(a rootAddress, secret []byte) []byte {
	if len(secret) > 0 {
		return seal(secret, "job secret")
	}
	m := hmac.New(sha256.New, []byte("goccl weak secret"))
	fmt.Fprintf(m, "%s %d", a.String(), os.Geteuid())
	return m.Sum(nil)
}

// target is an address to dial. brief: there are others, so it is given up soon if nothing answers.
type target struct {
	network, address string
	brief            bool
}

func tcpTargets(list []netip.AddrPort) (all []target) {
	for _, a := range list {
		all = append(all, target{"tcp", a.String(), len(list) > 1})
	}
	return all
}

// targets lists the addresses that a rank dials to reach the root.
func (a rootAddress) targets() []target {
	if a.unix != "" {
		return []target{{"unix", a.unix, false}}
	}
	return []target{{"tcp", a.String(), false}}
}

// lookup resolves the root's own name. The name may not be published yet, for example while a Kubernetes job starts.
// After a few attempts it returns no address, and the caller uses the interface's address.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	for attempt := 0; ; attempt++ {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		switch {
		case err == nil:
			return ips, nil
		case !errors.As(err, new(*net.DNSError)) || ctx.Err() != nil:
			return nil, err
		case attempt == 4:
			return nil, nil
		}
		_ = pause(ctx, 200*time.Millisecond)
	}
}

// claim is listen, tried again while the address is in use: the root of an attempt that has just been killed may still
// be closing it. That takes a quarter of the timeout at most.
func (a rootAddress) claim(ctx context.Context, c *config, spec string) (
	ls []net.Listener, elsewhere string, err error) {
	for end := time.Now().Add(min(c.timeout/4, mostClaim)); ; {
		ls, elsewhere, err = a.listen(ctx, spec, c.family)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return ls, elsewhere, err
		}
		if pause(ctx, 20*time.Millisecond) != nil {
			return nil, "", err
		}
	}
}

// mostClaim bounds the tries of claim.
const mostClaim = 10 * time.Second

// listen opens the root's listeners for the address form.
//
//  1. Listen on the local addresses that the host's name resolves to. An address of another machine cannot be bound.
//     If rank 0 was given only such an address, that is an error, unless an interface is named with it: then an
//     address translation (NAT) is assumed.
//  2. If no address is left (a service name in front of this host), or only loopback for a real host name (Debian maps
//     the own name to 127.0.1.1), listen on the interface's address also, because other hosts resolve the name to
//     that.
//
// elsewhere is a note for errors if rank 0 does not listen at the given address. That works only if traffic to that
// address is forwarded to this host.
func (a rootAddress) listen(ctx context.Context, spec string, family int) (
	ls []net.Listener, elsewhere string, err error) {
	if a.unix != "" {
		l, err := sockets.Listen("unix", a.unix)
		if err != nil {
			return nil, "", listenError(a, err)
		}
		return []net.Listener{l}, "", nil
	}
	var ips []netip.Addr
	literal := false
	if ip, err := netip.ParseAddr(a.host); err == nil {
		ips, literal = []netip.Addr{ip}, true
	} else if ips, err = lookup(ctx, a.host); err != nil {
		return nil, "", fmt.Errorf("resolve the root's address %s: %w", a, err)
	}
	b := binder{port: a.port}
	for _, ip := range ips {
		b.try(ip)
	}
	foreign := len(b.ls) == 0 && b.busy == nil
	if foreign && literal && a.iface == "" {
		return nil, "", a.notOurs()
	}
	if b.busy == nil && (len(b.ls) == 0 || a.namesLoopback(addresses(b.ls))) {
		if a.iface != "" {
			spec = "=" + a.iface
		}
		if nics, err := localNICs(spec, family); err == nil {
			for _, n := range nics {
				b.try(n.Addr)
			}
		}
	}
	switch {
	case b.busy != nil:
		closeListeners(b.ls)
		return nil, "", listenError(a, b.busy)
	case len(b.ls) == 0:
		return nil, "", a.notOurs()
	case foreign:
		elsewhere = a.elsewhere(b.ls[0])
	}
	return b.ls, elsewhere, nil
}

// binder listens on one port of several addresses.
type binder struct {
	port uint16
	ls   []net.Listener
	seen []netip.Addr
	busy error // why an address of this host cannot be used
}

func (b *binder) try(ip netip.Addr) {
	ip = ip.Unmap()
	if slices.Contains(b.seen, ip) {
		return
	}
	b.seen = append(b.seen, ip)
	l, err := sockets.Listen("tcp", netip.AddrPortFrom(ip, b.port).String())
	switch {
	case err == nil:
		b.ls = append(b.ls, l)
	case !errors.Is(err, syscall.EADDRNOTAVAIL):
		b.busy = err
	}
}

func (a rootAddress) elsewhere(l net.Listener) string {
	return fmt.Sprintf("rank 0 was told to listen at %s, which is not an address of its host %q; it listens at %s, where "+
		"others come only if %s leads there", a, hostname(), l.Addr(), a.host)
}

// notOurs returns the error of a rank 0 that was given another host's address.
func (a rootAddress) notOurs() error {
	return fmt.Errorf("%w: %s is not an address of host %q, where rank 0 runs; it has %s. Set MASTER_ADDR to one of "+
		"them, or start rank 0 on that host; "+
		"behind a translation of addresses name the interface as well, like eth0:%s", ErrInvalid, a, hostname(), netif.List(),
		a)
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

func listenError(a rootAddress, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("rank 0 cannot listen on %s: %w; another job uses it, choose another MASTER_PORT or address", a,
			err)
	}
	return fmt.Errorf("rank 0 cannot listen on %s: %w", a, err)
}

// namesLoopback reports whether a name, which other hosts may know, leads only to the loopback here, as Debian's
// 127.0.1.1 does.
func (a rootAddress) namesLoopback(ips []netip.Addr) bool {
	_, err := netip.ParseAddr(a.host)
	return err != nil && a.host != "localhost" &&
		!slices.ContainsFunc(ips, func(ip netip.Addr) bool { return !ip.Unmap().IsLoopback() })
}

func addresses(ls []net.Listener) (ips []netip.Addr) {
	for _, l := range ls {
		ips = append(ips, l.Addr().(*net.TCPAddr).AddrPort().Addr().Unmap())
	}
	return ips
}

// outward returns the listener that rank 0 itself dials. The address from which it does so is told to other hosts.
func outward(ls []net.Listener) target {
	i := slices.IndexFunc(ls, func(l net.Listener) bool {
		t, ok := l.Addr().(*net.TCPAddr)
		return ok && !t.IP.IsLoopback()
	})
	at := ls[max(i, 0)].Addr()
	return target{at.Network(), at.String(), false}
}

// localNICs returns the local interfaces that spec chooses.
func localNICs(spec string, family int) ([]netif.NIC, error) {
	nics, err := netif.NICs(spec, family)
	if errors.Is(err, netif.ErrNone) {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nics, err
}

// listenAll listens on one port of the first interfaces. Interfaces on which that is not possible are left out.
func listenAll(nics []netif.NIC, most int) (ls []net.Listener, err error) {
	for tries := 7; ; tries-- { // the port that the first one gets may be taken on another
		ls = nil
		port, busy := uint16(0), false
		for _, n := range nics[:min(most, len(nics))] {
			l, listenErr := sockets.Listen("tcp", netip.AddrPortFrom(n.Addr, port).String())
			if listenErr != nil {
				err = listenErr
				busy = busy || port != 0 && errors.Is(listenErr, syscall.EADDRINUSE)
				continue
			}
			ls, port = append(ls, l), l.Addr().(*net.TCPAddr).AddrPort().Port()
		}
		if len(ls) == 0 {
			return nil, err
		}
		if !busy || tries == 0 {
			return ls, nil
		}
		closeListeners(ls)
	}
}
