package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/netif"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/tcp"
)

// interfaces chooses each rank's interface for TCP.
//
//  1. All ranks use one family of addresses, of which each has one.
//  2. A rank takes the interface that is nearest to its device; ranks of one host take them in turn.
//  3. Where a host has several, each rank connects from its interface to the other ranks' interfaces: to all
//     ranks of the next host, and to one of each other host.
//  4. If an attempt fails, every rank uses the interface over which the bootstrap is connected.
func (c *Config) interfaces(ctx context.Context, ranks []offers) (*offer, string, error) {
	family, err := commonFamily(ranks)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNone, err)
	}
	o := c.tcp("", family)
	if o.NIC == "" || !slices.ContainsFunc(ranks, func(r offers) bool { return r.count(family) > 1 }) {
		return o, "", nil
	}
	own := &ranks[c.Bootstrap.Rank()]
	i := slices.IndexFunc(own.Interfaces, func(n netif.NIC) bool { return n.Name == o.NIC })
	if i < 0 {
		return o, "", nil // it has gone down: Open says so
	}
	results, err := c.probe(ctx, o.NIC, inFamily(own.Interfaces[i].Addrs, family))
	if err != nil {
		return nil, "", err
	}
	failed := slices.IndexFunc(results, func(r result) bool { return r.Failure != "" })
	if failed < 0 {
		return o, "", nil
	}
	note := results[failed].Failure
	at := results[c.Bootstrap.Rank()].Bootstrap
	i = slices.IndexFunc(own.Interfaces, func(n netif.NIC) bool { return slices.Contains(n.Addrs, at) })
	if i < 0 {
		i = 0
	} else {
		family = familyOf(at)
	}
	o = c.tcp("="+own.Interfaces[i].Name, family)
	if c.Bootstrap.Rank() == 0 {
		slog.Warn("goccl: an interface does not reach the other hosts; all ranks use the one over which they have met: "+
			"name the right ones in NCCL_SOCKET_IFNAME, in the order of preference", "failed", note, "used", o.NIC)
	}
	return o, ": " + note + " (NCCL_SOCKET_IFNAME chooses interfaces)", nil
}

// tcp offers the interfaces of a family that spec allows, or those that the settings do.
func (c *Config) tcp(spec string, family int) *offer {
	cfg := *c.Settings
	cfg.Family = family
	if spec != "" {
		cfg.Interface = spec
	}
	o := c.offer(kindTCP, func() (transport.Net, error) { return tcp.Configured(&cfg, c.Timeout), nil })
	return &o
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// inFamily returns the first address of a family. It is invalid if there is none.
func inFamily(list []netip.Addr, family int) netip.Addr {
	for _, a := range list {
		if familyOf(a) == family {
			return a
		}
	}
	return netip.Addr{}
}

// count returns the number of a rank's interfaces with an address of a family.
func (o *offers) count(family int) (n int) {
	for _, i := range o.Interfaces {
		if inFamily(i.Addrs, family).IsValid() {
			n++
		}
	}
	return n
}

// commonFamily returns the family that all ranks have: IPv4, if possible.
func commonFamily(ranks []offers) (int, error) {
	var lacking [2]int
	for i, family := range []int{4, 6} {
		if lacking[i] = slices.IndexFunc(ranks, func(r offers) bool { return r.count(family) == 0 }); lacking[i] < 0 {
			return family, nil
		}
	}
	return 0, fmt.Errorf("rank %d has no IPv4 address on %v, and rank %d no IPv6 address on %v: give all hosts one "+
		"family, or choose other interfaces with NCCL_SOCKET_IFNAME", lacking[0], ranks[lacking[0]].names(), lacking[1],
		ranks[lacking[1]].names())
}

func (o *offers) names() (list []string) {
	for _, n := range o.Interfaces {
		list = append(list, n.Name)
	}
	return list
}

// result is what a rank has found out.
type result struct {
	Failure   string     // of its first attempt that failed
	Bootstrap netip.Addr // of the interface over which the bootstrap is connected
}

const (
	probeTimeout = 2 * time.Second
	probesAtOnce = 64
)

// probe tries to connect from an interface of this rank to the interfaces of others. It is collective.
func (c *Config) probe(ctx context.Context, name string, from netip.Addr) ([]result, error) {
	mine := result{Bootstrap: bootstrap.LocalAddress(c.Bootstrap)}
	l, err := net.Listen("tcp", netip.AddrPortFrom(from, 0).String())
	at := ""
	if err == nil {
		at = name + " " + l.Addr().String()
		defer drain(l)()
	} else {
		mine.Failure = err.Error()
	}
	all, err := c.Bootstrap.AllGather(ctx, []byte(at))
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	places := make(chan struct{}, probesAtOnce)
	for _, r := range partners(c.Bootstrap.Rank(), c.Bootstrap.Hosts()) {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			theirs, to, _ := strings.Cut(string(all[r]), " ")
			err := try(ctx, from, to)
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			mine.Failure = fmt.Sprintf("%s of rank %d (%v) does not reach %s of rank %d: %v", name, c.Bootstrap.Rank(), from,
				theirs, r, err)
		})
	}
	wg.Wait()
	return bootstrap.GatherJSON(ctx, c.Bootstrap.AllGather, "interfaces", mine)
}

// unreachable has an error for each pair of addresses of which one did not reach the other. Communicators that this
// process makes later do not wait for that again.
var unreachable sync.Map // [2]netip.Addr → error

// try connects from an address of this host to a listener.
func try(ctx context.Context, from netip.Addr, to string) error {
	at, err := netip.ParseAddrPort(to)
	if err != nil {
		return errors.New("it cannot listen there")
	}
	pair := [2]netip.Addr{from, at.Addr()}
	if err, ok := unreachable.Load(pair); ok {
		return err.(error)
	}
	d := net.Dialer{Timeout: probeTimeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		unreachable.Store(pair, err)
		return err
	}
	return conn.Close()
}

// partners lists the ranks that a rank connects to: all of the next host, and one of each other host.
func partners(rank int, hosts []int) (list []int) {
	by := make([][]int, slices.Max(hosts)+1)
	own := 0
	for r, h := range hosts {
		if r == rank {
			own = len(by[h])
		}
		by[h] = append(by[h], r)
	}
	for h, members := range by {
		switch h {
		case hosts[rank]:
		case (hosts[rank] + 1) % len(by):
			list = append(list, members...)
		default:
			list = append(list, members[own%len(members)])
		}
	}
	return list
}

// drain accepts connections and closes them, until the result is called.
func drain(l net.Listener) (stop func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	})
	return func() {
		_ = l.Close()
		wg.Wait()
	}
}
